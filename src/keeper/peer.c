/* SPDX-License-Identifier: MIT */
/* The keeper's end of a link. From here on the bytes may be the agent's. */
#include "keeper/peer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "http/path.h"
#include "keeper/exchange.h"
#include "keeper/held.h"
#include "keeper/origin.h"
#include "keeper/run_time.h"
#include "keeper/verbose.h"

#define PLACES_FIRST 16
#define TOKEN_PLACES 1024

const char *peer_kind_name(enum peer_kind kind)
{
	static const char *const names[] = { "local", "remote", "open" };

	return names[kind];
}

/* ---- exchanges ---- */

static struct exchange **place_of(const struct peer *peer, uint32_t id)
{
	return &peer->exchanges[id & (peer->place_count - 1)];
}

/* Twice as many places: where no two shared one, none will. */
static void add_places(struct peer *peer)
{
	struct exchange **before = peer->exchanges;
	size_t count = peer->place_count;

	peer->place_count = count ? 2 * count : PLACES_FIRST;
	peer->exchanges = calloc(peer->place_count, sizeof(struct exchange *));
	if (!peer->exchanges)
		die_no_memory();
	for (size_t i = 0; i < count; i++)
		if (before[i])
			*place_of(peer, before[i]->id) = before[i];
	free(before);
}

int peer_add_exchange(struct peer *peer, struct exchange *exchange)
{
	while (*place_of(peer, exchange->id)) {
		if ((*place_of(peer, exchange->id))->id == exchange->id ||
		    peer->place_count >= LINK_EXCHANGES_MAX)
			return -EPROTO;
		add_places(peer);
	}
	*place_of(peer, exchange->id) = exchange;
	return 0;
}

void peer_remove_exchange(struct peer *peer, const struct exchange *exchange)
{
	*place_of(peer, exchange->id) = NULL;
}

size_t peer_count_exchanges(const struct peer *peer)
{
	size_t count = 0;

	for (size_t i = 0; i < peer->place_count; i++)
		count += peer->exchanges[i] != NULL;
	return count;
}

static struct exchange *find_exchange(const struct peer *peer, uint32_t id)
{
	struct exchange *exchange = *place_of(peer, id);

	return exchange && exchange->id == id ? exchange : NULL;
}

/* ---- runs that tokens have named ---- */

static void free_run(struct run *run)
{
	if (run)
		run_time_fini(run);
	run_free(run);
}

/* What becomes of it elsewhere is to be heard here. */
static void watch_run(const struct run *run, bool is_on)
{
	struct store *store = run->peer->keeper->store;

	if (store && store->ops->watch)
		store->ops->watch(store, run->run_id, is_on);
}

/* The attempts of a run are in one place. */
static size_t hash_run(const char *run_id)
{
	uint32_t hash = 2166136261U;

	for (; *run_id; run_id++)
		hash = (hash ^ (unsigned char)*run_id) * 16777619U;
	return hash % TOKEN_PLACES;
}

/* The one that has done nothing for the longest time. */
static struct run **find_idlest(const struct peer *peer)
{
	struct run **idlest = NULL;

	for (size_t i = 0; i < TOKEN_PLACES; i++)
		for (struct run **at = &peer->by_token[i]; *at; at = &(*at)->next)
			if ((*at)->exchange_count == 0 &&
			    (!idlest || (*at)->last_ms < (*idlest)->last_ms))
				idlest = at;
	return idlest;
}

static bool make_room(struct peer *peer)
{
	struct run **idlest, *run;

	if (peer->token_run_count < PEER_RUNS_MAX)
		return true;
	idlest = find_idlest(peer);
	if (!idlest)
		return false;
	run = *idlest;
	*idlest = run->next;
	watch_run(run, false);
	free_run(run);
	peer->token_run_count--;
	return true;
}

static struct run *find_known(const struct peer *peer, const struct run_spec *spec)
{
	struct run *run = NULL;

	if (peer->by_token)
		run = peer->by_token[hash_run(spec->run_id)];
	while (run && (run->attempt != spec->attempt || strcmp(run->run_id, spec->run_id) != 0))
		run = run->next;
	return run;
}

bool peer_knows_run(const struct peer *peer, const struct run_spec *spec)
{
	return find_known(peer, spec) != NULL;
}

struct run *peer_find_run(struct peer *peer, const struct run_spec *spec, uint64_t now_ms,
			  struct err *err)
{
	struct run **place, *run = find_known(peer, spec);

	if (!peer->by_token)
		peer->by_token = calloc(TOKEN_PLACES, sizeof(struct run *));
	if (!peer->by_token)
		die_no_memory();
	if (!run) {
		place = &peer->by_token[hash_run(spec->run_id)];
		if (!make_room(peer)) {
			err_say(err, EBUSY, "too many runs at once");
			return NULL;
		}
		run = run_new(peer->keeper->charter, spec, err);
		if (!run)
			return NULL;
		run->peer = peer;
		run->since_ms = now_ms; /* when it began nobody has said yet */
		run_time_watch(run);
		watch_run(run, true);
		run->next = *place;
		*place = run;
		peer->token_run_count++;
	}
	run->last_ms = now_ms;
	return run;
}

struct run *peer_next_token_run(const struct peer *peer, const struct run *after)
{
	size_t place = after ? hash_run(after->run_id) + 1 : 0;

	if (after && after->next)
		return after->next;
	while (peer->by_token && place < TOKEN_PLACES && !peer->by_token[place])
		place++;
	return peer->by_token && place < TOKEN_PLACES ? peer->by_token[place] : NULL;
}

struct run *peer_next_run_of(const struct peer *peer, const char *run_id, const struct run *after)
{
	struct run *run = NULL;

	if (!after && peer->run && strcmp(peer->run->run_id, run_id) == 0)
		return peer->run;
	if (after && after != peer->run)
		run = after->next;
	else if (peer->by_token)
		run = peer->by_token[hash_run(run_id)];
	while (run && strcmp(run->run_id, run_id) != 0)
		run = run->next;
	return run;
}

static void free_token_runs(struct peer *peer)
{
	for (size_t i = 0; peer->by_token && i < TOKEN_PLACES; i++) {
		while (peer->by_token[i]) {
			struct run *run = peer->by_token[i];

			peer->by_token[i] = run->next;
			watch_run(run, false);
			free_run(run);
		}
	}
	free(peer->by_token);
}

/* ---- refused hosts ---- */

void peer_note_refused_host(struct peer *peer, const char *name)
{
	struct refused_host *host;
	size_t i = 0;

	if (!peer->refused_hosts)
		peer->refused_hosts = calloc(PEER_REFUSED_HOSTS_MAX, sizeof(*host));
	if (!peer->refused_hosts)
		die_no_memory();
	host = peer->refused_hosts;
	while (i < peer->refused_host_count && strcmp(host[i].name, name) != 0)
		i++;
	if (i == PEER_REFUSED_HOSTS_MAX)
		return;
	if (i == peer->refused_host_count) {
		snprintf(host[i].name, sizeof(host[i].name), "%s", name);
		peer->refused_host_count++;
	}
	host[i].count++;
}

/* ---- writing ---- */

struct buf *peer_out(struct peer *peer)
{
	if (!peer->is_dirty) {
		peer->is_dirty = true;
		peer->next_dirty = peer->keeper->dirty_peers;
		peer->keeper->dirty_peers = peer;
	}
	return &peer->link.out;
}

/* The gate keeps up no more: origins are not read. */
static void stall(struct peer *peer)
{
	peer->is_stalled = true;
	for (size_t i = 0; i < peer->place_count; i++)
		if (peer->exchanges[i] && peer->exchanges[i]->state == EXCHANGE_RELAY)
			peer->exchanges[i]->origin->wire->watch(peer->exchanges[i]);
}

/* It does again; what TLS has read ahead is read first, for there will be no event. */
static void go_on(struct peer *peer, uint64_t now_ms)
{
	peer->is_stalled = false;
	for (size_t i = 0; i < peer->place_count && !peer->is_stalled; i++) {
		if (peer->exchanges[i])
			exchange_on_credit(peer->exchanges[i], 0, now_ms);
		if (link_port_is_behind(&peer->link))
			stall(peer);
	}
}

void peer_flush(struct peer *peer, uint64_t now_ms)
{
	for (;;) {
		/* Also when nothing is left to be written now: some may have waited meanwhile. */
		bool is_waited_for = peer_is_behind(peer);

		if (link_port_flush(&peer->link) < 0) {
			peer_close(peer, "gate_gone", now_ms);
			return;
		}
		if (link_port_is_behind(&peer->link)) {
			if (!peer->is_stalled)
				stall(peer);
			return;
		}
		if (!is_waited_for)
			return;
		go_on(peer, now_ms);
	}
}

static void on_room(struct link_port *port, uint64_t now_ms)
{
	(void)now_ms;
	peer_out(OWNER_OF(port, struct peer, link));
}

/* ---- reading ---- */

/* The gate has refused what was no request, or none for us: that is on record, too. */
static int on_refused(struct peer *peer, uint32_t id, struct bytes payload)
{
	struct link_refused refused;
	struct audit_decision decision = {
		.run_id = bytes_of(peer->run ? peer->run->run_id : ""),
		.attempt = peer->run ? peer->run->attempt : 0,
		.exchange = id,
	};

	if (link_parse_refused(payload, &refused) < 0)
		return -EPROTO;
	decision.reason = refused.code;
	if (refused.method.len > 0)
		decision.method = refused.method;
	if (refused.host.len > 0)
		decision.host = refused.host;
	if (refused.path.len > 0)
		decision.path = http_path_split(refused.path, &(struct bytes){ NULL, 0 });
	peer->refused++;
	peer->keeper->metrics.refusals[METRICS_CODE_GATE]++;
	peer->keeper->has_decision = true;
	audit_add_decision(&peer->keeper->audit, &decision);
	keeper_after_record(peer->keeper);
	verbose_refused(peer, &refused);
	return 0;
}

static int on_message(struct link_port *port, enum link_event event, struct bytes payload,
		      uint64_t now_ms)
{
	struct peer *peer = OWNER_OF(port, struct peer, link);
	uint32_t id = port->reader.exchange, credit;
	struct exchange *exchange;

	if (event == LINK_MESSAGE && port->reader.type == LINK_OPEN)
		return exchange_open(peer, id, payload, now_ms);
	if (event == LINK_MESSAGE && port->reader.type == LINK_REFUSED)
		return on_refused(peer, id, payload);
	if (event == LINK_MESSAGE && port->reader.type == LINK_TOKEN)
		return -EPROTO; /* it had its time, before there was a peer */
	if (event == LINK_MESSAGE && port->reader.type == LINK_BYE) {
		if (peer->kind != PEER_REMOTE)
			return -EPROTO;
		peer_close(peer, "gate_gone", now_ms);
		return 0;
	}
	exchange = find_exchange(peer, id);
	if (!exchange)
		return 0; /* ended on our side while this was under way */
	if (event == LINK_PIECE)
		return exchange_on_data(exchange, payload, now_ms);
	switch (port->reader.type) {
	case LINK_END:
		return exchange_on_end(exchange, now_ms);
	case LINK_CREDIT:
		if (link_parse_credit(payload, &credit) < 0 ||
		    credit > LINK_CREDIT_FIRST - exchange->credit - exchange->kept_credit)
			return -EPROTO;
		exchange_on_credit(exchange, credit, now_ms);
		return 0;
	case LINK_ABORT:
		exchange_cancel(exchange, "agent_gone", now_ms);
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- opening and closing ---- */

/* Which connections the gate is to leave alone. */
static void tell_tunnels(struct peer *peer)
{
	const struct keeper_config *config = peer->keeper->charter->config;
	struct bytes tunnels[LINK_TUNNELS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < config->rule_count && count < LINK_TUNNELS_MAX; i++)
		if (config->rules[i].is_allow && strncmp(config->rules[i].text, "tcp://", 6) == 0)
			tunnels[count++] = bytes_of(config->rules[i].text + 6);
	if (count > 0)
		link_write_tunnels(peer_out(peer), tunnels, count);
}

/* Which names the gate's resolver has; it listens to the agent when it knows. */
static void tell_names(struct peer *peer)
{
	const struct charter *charter = peer->keeper->charter;
	struct link_names names = { .is_deny = strcmp(charter->config->dns, "deny") == 0 };
	const char *pattern;
	bool is_known;

	for (size_t at = 0; policy_next_host(&charter->policy, &at, &pattern, &is_known);) {
		if (strchr(pattern, ':'))
			continue; /* an address */
		if (names.count == LINK_NAMES_MAX) {
			link_write_names(peer_out(peer), &names);
			names.count = 0;
		}
		names.names[names.count].pattern = bytes_of(pattern);
		names.names[names.count++].is_known = is_known;
	}
	names.is_last = true;
	link_write_names(peer_out(peer), &names);
}

static struct bytes name_of(const struct peer *peer)
{
	return peer->run ? bytes_of(peer->run->run_id) : (struct bytes){ NULL, 0 };
}

/* A run that cannot be recorded does not begin (INV-AUDIT-FIRST). */
static int record_start(struct peer *peer, struct err *err)
{
	struct audit_start start = {
		.run_id = name_of(peer),
		.attempt = peer->run ? peer->run->attempt : 0,
	};

	audit_add_start(&peer->keeper->audit, &start);
	return keeper_write_records(peer->keeper, err);
}

static void record_end(struct peer *peer)
{
	struct audit_end end = {
		.run_id = name_of(peer),
		.attempt = peer->run ? peer->run->attempt : 0,
		.allowed = (int64_t)peer->allowed,
		.refused = (int64_t)peer->refused,
	};

	audit_add_end(&peer->keeper->audit, &end);
	keeper_after_record(peer->keeper);
}

/* After the exchanges, which were given up before it. */
static void free_peer(struct loop_deferred *deferred)
{
	struct peer *peer = (struct peer *)(void *)deferred;

	free_run(peer->run);
	free_token_runs(peer);
	free(peer->exchanges);
	free(peer->refused_hosts);
	learn_free(peer->learn);
	free(peer);
}

static void on_link_over(struct link_port *port, int error, uint64_t now_ms)
{
	struct peer *peer = OWNER_OF(port, struct peer, link);

	if (error == -EPROTO) {
		peer->keeper->metrics.links_broken++;
		keeper_notice(peer->keeper, NOTICE_LINK_BROKEN, now_ms,
			      &(struct notice){ .run_id = peer->run ? peer->run->run_id : NULL });
	}
	peer_close(peer, error == -EPROTO ? "link_broken" : "gate_gone", now_ms);
}

int peer_open(struct keeper *keeper, struct stream *link, struct run *run, enum peer_kind kind,
	      struct peer **ret_peer, struct err *err)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	int r;

	if (!peer)
		die_no_memory();
	peer->keeper = keeper;
	peer->run = run;
	peer->kind = kind;
	peer->begun_ms = clock_now_ms();
	add_places(peer);
	r = record_start(peer, err);
	if (r == 0) {
		r = link_port_open(&peer->link, &keeper->loop, link, LINK_SIDE_KEEPER, PEER_OUT_MAX,
				   on_message);
		if (r < 0)
			err_set(err, -r, "watch the link");
	} else {
		stream_close(link);
	}
	if (r < 0) {
		free(peer->exchanges);
		free(peer);
		return r;
	}
	peer->link.on_over = on_link_over;
	peer->link.on_room = on_room;
	/* A gate that asks and does not listen is not listened to. */
	peer->link.waits_when_behind = true;
	if (run) {
		run->peer = peer;
		run_time_watch(run);
	}
	LIST_ADD(&keeper->peers, peer);
	keeper->peer_count++;
	keeper->metrics.links[kind]++;
	if (run) {
		keeper->metrics.runs++;
		keeper->metrics.runs_begun++;
		keeper_notice(keeper, NOTICE_RUN_BEGUN, peer->begun_ms,
			      &(struct notice){ .run_id = run->run_id,
						.attempt = NOTICE_NUMBER(run->attempt),
						.account = run->account });
	}
	if (run)
		link_write_hello(peer_out(peer), bytes_of(run->run_id), run->attempt);
	tell_tunnels(peer);
	tell_names(peer);
	*ret_peer = peer;
	return 0;
}

/* ---- reloading ---- */

/* Whether a request may use what has been taken away: a secret, or an LLM with its key. */
static bool uses_withdrawn(const struct exchange *exchange, const struct charter *charter)
{
	const struct vault *before = &exchange->terms->charter->vault;
	const struct upstream *upstream = exchange->upstream;
	struct authority authority;

	if (upstream->llm)
		return upstream->key && !charter_has_llm(charter, upstream->llm);
	if (authority_parse(bytes_of(upstream->label), 0, &authority) < 0)
		return true; /* it was made of one */
	for (size_t i = 0; i < before->count; i++)
		if ((exchange->bound >> i & 1) &&
		    !vault_has(&charter->vault, before->entries[i].config->name, &authority,
			       upstream->is_tls))
			return true;
	return false;
}

/* Nothing of what is held has gone anywhere: it is as new. What is under way may be cut off. */
static void renew_exchanges(struct peer *peer, const struct charter *charter, uint64_t now_ms)
{
	for (size_t i = 0; i < peer->place_count; i++) {
		struct exchange *exchange = peer->exchanges[i];

		if (exchange && exchange->state == EXCHANGE_HOLD)
			held_renew(exchange, now_ms);
		else if (exchange && uses_withdrawn(exchange, charter))
			exchange_cut(exchange, REFUSAL_WITHDRAWN, now_ms);
	}
}

int peer_renew(struct peer *peer, struct charter *charter, uint64_t now_ms, struct err *err)
{
	struct run *first = peer_next_token_run(peer, NULL);
	int r = peer->run ? run_renew(peer->run, charter, err) : 0;

	for (struct run *run = first; r == 0 && run; run = peer_next_token_run(peer, run))
		r = run_renew(run, charter, err);
	if (r < 0)
		return r;
	renew_exchanges(peer, charter, now_ms);
	if (peer->run)
		run_time_renew(peer->run, now_ms);
	for (struct run *run = first; run; run = peer_next_token_run(peer, run))
		run_time_renew(run, now_ms);
	return 0;
}

void peer_close(struct peer *peer, const char *why, uint64_t now_ms)
{
	struct keeper *keeper = peer->keeper;
	int r;

	if (peer->is_over)
		return;
	peer->is_over = true;
	for (size_t i = 0; i < peer->place_count; i++)
		if (peer->exchanges[i])
			exchange_cancel(peer->exchanges[i], why, now_ms);
	record_end(peer);
	if (peer->run && peer->run->is_enrolled)
		keeper->store->ops->close_run(keeper->store, peer->run->run_id, now_ms);
	LIST_REMOVE(peer);
	keeper->peer_count--;
	if (peer->run) {
		keeper->metrics.runs--;
		keeper_notice(keeper, NOTICE_RUN_ENDED, now_ms,
			      &(struct notice){ .run_id = peer->run->run_id,
						.attempt = NOTICE_NUMBER(peer->run->attempt),
						.code = why });
	}
	if (peer->on_over)
		peer->on_over(peer, now_ms);
	/* Last words, if the other end takes them at once; it may be gone as well. */
	r = link_port_flush(&peer->link);
	(void)r;
	link_port_close(&peer->link);
	peer->deferred.free = free_peer;
	loop_defer(&keeper->loop, &peer->deferred);
	keeper_give_back(keeper, now_ms);
}
