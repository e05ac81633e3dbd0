/* SPDX-License-Identifier: MIT */
/* Reserving and settling. */
#include "keeper/limiter.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/money.h"
#include "keeper/spend_log.h"
#include "store/lent.h"

#define METER_MAX (HOST_MAX + 16)

/*
 * How many bytes an exchange holds beside those that it needs, and asks for at a time: a part of
 * the smallest limit, so that many can be under way, but within these.
 */
#define STEP_PART 64
#define STEP_MIN  4096
#define STEP_MAX  (UINT64_C(1) << 20)

/* What an exchange has in the store, or has asked for. */
struct hold {
	struct store_reservation reservation; /* first */
	struct keeper *keeper;
	struct exchange *exchange; /* NULL: it has ended meanwhile */
	bool is_answered;
	struct store_reservation more; /* of bytes, while is_asking; and its last answer */
	uint64_t step;                 /* 0: it has no limits of bytes */
	uint64_t room;                 /* how many bytes it may move altogether */
	bool is_asking;
	bool is_short; /* there were fewer than it wanted, so it asks again when it needs them */
	bool is_out;   /* ... and there were none */
	char run_id[RUNID_MAX + 1];
	char *account; /* owned; "" for none */
	char *meters[STORE_CLAIMS_MAX];
};

static void hold_free(struct hold *hold)
{
	for (size_t i = 0; i < STORE_CLAIMS_MAX; i++)
		free(hold->meters[i]);
	free(hold->account);
	free(hold);
}

/* ---- which limits there are ---- */

static const struct limits *find_account(const struct keeper_config *config, const char *account)
{
	const struct limits *others = NULL;

	for (size_t i = 0; account && i < config->account_limit_count; i++) {
		if (strcmp(config->account_limits[i].name, account) == 0)
			return &config->account_limits[i].limits;
		if (strcmp(config->account_limits[i].name, "*") == 0)
			others = &config->account_limits[i].limits;
	}
	return others;
}

/* The name itself, or else the longest pattern. */
static const struct keeper_limit *find_host(const struct keeper_config *config, const char *host)
{
	const struct keeper_limit *best = NULL;

	for (size_t i = 0; i < config->host_limit_count; i++) {
		const struct keeper_limit *limit = &config->host_limits[i];

		if (strcmp(limit->name, host) == 0)
			return limit;
		if (host_matches(limit->name, host) &&
		    (!best || strlen(limit->name) > strlen(best->name)))
			best = limit;
	}
	return best;
}

/* ---- asking ---- */

/* Only a LiteLLM keeps one of what calls have cost. */
static bool has_log(const struct upstream *upstream)
{
	return upstream->llm && upstream->llm->provider->is_litellm;
}

static void add_claim(struct hold *hold, const char *kind, const char *name,
		      const struct limits *limits)
{
	struct store_reservation *reservation = &hold->reservation;
	struct store_claim *claim = &reservation->claims[reservation->claim_count];
	char meter[METER_MAX];

	if (!limits || !limits_are_any(limits))
		return;
	snprintf(meter, sizeof(meter), "%s:%s", kind, name);
	hold->meters[reservation->claim_count] = strdup(meter);
	if (!hold->meters[reservation->claim_count])
		die_no_memory();
	claim->meter = hold->meters[reservation->claim_count++];
	claim->limits = *limits;
}

static uint64_t find_step(const struct store_reservation *reservation)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < reservation->claim_count; i++) {
		uint64_t limit = reservation->claims[i].limits.bytes;

		if (limit > 0 && limit < least)
			least = limit;
	}
	if (least == UINT64_MAX)
		return 0;
	least /= STEP_PART;
	return least < STEP_MIN ? STEP_MIN : least < STEP_MAX ? least : STEP_MAX;
}

/*
 * Those of its body, as far as that is known: some has come by now, where the model had to be known
 * first. Where nothing is limited nothing is held; and what is said to be more than any limit,
 * which may be anything, is as good as one byte more than the largest.
 */
static uint64_t count_bytes(const struct exchange *exchange,
			    const struct store_reservation *reservation)
{
	uint64_t most = 0, bytes = exchange->sent_bytes;

	for (size_t i = 0; i < reservation->claim_count; i++)
		if (reservation->claims[i].limits.bytes > most)
			most = reservation->claims[i].limits.bytes;
	if (most == 0)
		return 0;
	if (exchange->has_length && __builtin_add_overflow(bytes, exchange->body_left, &bytes))
		bytes = UINT64_MAX;
	return bytes <= most ? bytes : most + 1;
}

static bool costs_money(const struct store_reservation *reservation)
{
	for (size_t i = 0; i < reservation->claim_count; i++)
		if (store_spend_limit(reservation, i))
			return true;
	return false;
}

static void on_done(struct store_reservation *reservation, uint64_t now_ms)
{
	struct hold *hold = (struct hold *)(void *)reservation;
	const struct store_settlement nothing = {
		.id = reservation->id,
		.is_cost_known = true,
		.call_id = "",
	};

	hold->is_answered = true;
	hold->room = reservation->granted_bytes;
	hold->is_short = hold->room < reservation->bytes + reservation->more;
	hold->keeper->metrics.store_requests[reservation->verdict]++;
	if (hold->exchange) {
		limiter_count(hold->exchange);
		exchange_on_reserved(hold->exchange, now_ms);
		return;
	}
	if (reservation->verdict == STORE_GRANTED)
		hold->keeper->store->ops->settle(hold->keeper->store, &nothing, now_ms);
	hold_free(hold);
}

static struct hold *hold_new(struct exchange *exchange)
{
	struct keeper *keeper = exchange->peer->keeper;
	const struct run *run = exchange->run;
	struct hold *hold = calloc(1, sizeof(*hold));

	if (!hold)
		die_no_memory();
	hold->keeper = keeper;
	hold->exchange = exchange;
	hold->account = strdup(run->account ? run->account : "");
	if (!hold->account)
		die_no_memory();
	memcpy(hold->run_id, run->run_id, sizeof(hold->run_id));
	hold->reservation = (struct store_reservation){
		.run_id = hold->run_id,
		.account = hold->account,
		.attempt = run->attempt,
		.is_of_money = exchange->upstream->llm, /* other hosts cost none */
		.on_done = on_done,
	};
	return hold;
}

static void name_hold(struct hold *hold)
{
	const struct upstream *upstream = hold->exchange->upstream;
	char log[STORE_LOG_LEN + 1] = "";

	if (has_log(upstream))
		spend_log_name(upstream->llm, log);
	snprintf(hold->reservation.id, sizeof(hold->reservation.id), "%.32s-%" PRIx64 "%s",
		 hold->keeper->store->keeper_id, ++hold->keeper->hold_count, log);
}

static void add_asked(struct keeper *keeper, struct store_reservation *reservation)
{
	if (keeper->asked)
		keeper->last_asked->next = reservation;
	else
		keeper->asked = reservation;
	keeper->last_asked = reservation;
}

bool limiter_ask(struct exchange *exchange)
{
	struct keeper *keeper = exchange->peer->keeper;
	const struct keeper_config *config = exchange->terms->charter->config;
	const struct run *run = exchange->run;
	const struct keeper_limit *host = find_host(config, exchange->upstream->host);
	const struct limits *account = find_account(config, run->account);
	struct hold *hold;

	/* Only the store knows whether a token's run is revoked. */
	if (!keeper->store || (exchange->peer->kind != PEER_OPEN &&
			       !limits_are_any(&config->run_limits) && !account && !host))
		return false;
	hold = hold_new(exchange);
	add_claim(hold, "run", run->run_id, &config->run_limits);
	add_claim(hold, "account", run->account, account);
	add_claim(hold, "host", host ? host->name : "", host ? &host->limits : NULL);
	name_hold(hold);
	hold->reservation.bytes = count_bytes(exchange, &hold->reservation);
	hold->reservation.more = hold->step = find_step(&hold->reservation);
	hold->reservation.spend = costs_money(&hold->reservation) ? config->spend_reserve : 0;
	exchange->hold = &hold->reservation;
	add_asked(keeper, &hold->reservation);
	return true;
}

/* ---- more room ---- */

/* What it has of room, if it has limits of bytes; or NULL. */
static struct hold *find_bounded(const struct exchange *exchange)
{
	struct hold *hold = (struct hold *)(void *)exchange->hold;

	return hold && hold->is_answered && hold->step > 0 &&
			       exchange->hold->verdict == STORE_GRANTED
		       ? hold
		       : NULL;
}

static uint64_t count_moved(const struct exchange *exchange)
{
	return exchange->sent_bytes + exchange->received_bytes;
}

static void on_more(struct store_reservation *more, uint64_t now_ms)
{
	struct hold *hold = OWNER_OF(more, struct hold, more);
	struct exchange *exchange = hold->exchange;
	bool is_granted = more->verdict == STORE_GRANTED;

	hold->keeper->metrics.store_requests[more->verdict]++;
	hold->is_asking = false;
	if (!exchange) { /* it was settled meanwhile */
		hold_free(hold);
		return;
	}
	if (is_granted)
		hold->room += more->granted_bytes;
	hold->is_short = !is_granted || more->granted_bytes < more->more;
	hold->is_out = !is_granted && count_moved(exchange) >= hold->room;
	if (limiter_is_out(exchange, 0))
		exchange_run_out(exchange, more, now_ms);
	else
		exchange_on_room(exchange, now_ms);
}

static void ask_more(struct hold *hold)
{
	uint64_t moved = count_moved(hold->exchange);

	hold->is_asking = true;
	hold->more = hold->reservation;
	hold->more.next = NULL;
	hold->more.is_of_money = false;
	hold->more.bytes = hold->more.spend = 0;
	hold->more.more = hold->step + (moved > hold->room ? moved - hold->room : 0);
	hold->more.is_more = true;
	hold->more.on_done = on_more;
	add_asked(hold->keeper, &hold->more);
}

/*
 * Of a reply no more comes in than there is room for: it waits as it does for a gate that takes no
 * more. Without any to be had one byte may come, which proves that it is not over. Frames of
 * WebSocket need room for more than themselves, so there it is all or nothing.
 */
static void keep_credit(struct exchange *exchange, const struct hold *hold)
{
	uint64_t moved = count_moved(exchange);
	uint64_t room = moved < hold->room ? hold->room - moved : hold->is_out;
	uint32_t all = exchange->credit + exchange->kept_credit;

	if (exchange->websocket && room > 0)
		room = all;
	exchange->credit = room < all ? (uint32_t)room : all;
	exchange->kept_credit = all - exchange->credit;
}

void limiter_count(struct exchange *exchange)
{
	struct hold *hold = find_bounded(exchange);
	uint64_t moved = count_moved(exchange);

	if (!hold)
		return;
	if (!hold->is_asking && !hold->is_out &&
	    (moved >= hold->room || (!hold->is_short && hold->room - moved < hold->step / 2)))
		ask_more(hold);
	keep_credit(exchange, hold);
}

bool limiter_is_out(const struct exchange *exchange, uint64_t bytes)
{
	const struct hold *hold = find_bounded(exchange);

	return hold && hold->is_out && count_moved(exchange) + bytes > hold->room;
}

bool limiter_waits(const struct exchange *exchange)
{
	const struct hold *hold = find_bounded(exchange);

	return hold && hold->is_asking && count_moved(exchange) >= hold->room;
}

const struct store_reservation *limiter_last_word(const struct exchange *exchange)
{
	return &((const struct hold *)(const void *)exchange->hold)->more;
}

/* ---- the end of a turn ---- */

void limiter_flush(struct keeper *keeper, uint64_t now_ms)
{
	struct store_reservation *first = keeper->asked;

	keeper->asked = keeper->last_asked = NULL;
	if (first)
		keeper->store->ops->reserve(keeper->store, first, now_ms);
	if (!keeper->store)
		return;
	if (keeper->store->ops->flush)
		keeper->store->ops->flush(keeper->store, now_ms);
	if (keeper->store->is_reachable == keeper->is_store_lost) {
		keeper->is_store_lost = !keeper->store->is_reachable;
		keeper_notice(keeper, keeper->is_store_lost ? NOTICE_STORE_LOST : NOTICE_STORE_BACK,
			      now_ms, &(struct notice){ .text = keeper->store->fault });
	}
}

/* ---- settling ---- */

/* Of an upstream without a log nobody will ever say what a call has cost. */
static void assume_cost(const struct store_reservation *reservation,
			struct store_settlement *settlement)
{
	settlement->is_cost_known = true;
	settlement->cost = reservation->spend;
}

/* However long it has taken: the log is to be read from its beginning on. */
static void note_beginning(const struct exchange *exchange, uint64_t now_ms)
{
	struct keeper *keeper = exchange->peer->keeper;
	uint64_t lasted_ms = now_ms - exchange->start_ms;
	uint64_t begun_s = (clock_ms(CLOCK_REALTIME) - lasted_ms) / 1000;

	if (keeper->early_call_s == 0 || begun_s < keeper->early_call_s)
		keeper->early_call_s = begun_s;
}

void limiter_settle(struct exchange *exchange, uint64_t now_ms)
{
	struct store_reservation *reservation = exchange->hold;
	struct hold *hold = (struct hold *)(void *)reservation;
	struct store_settlement settlement = {
		.bytes = exchange->sent_bytes + exchange->received_bytes,
		.call_id = exchange->call_id,
	};

	if (!reservation)
		return;
	exchange->hold = NULL;
	if (!hold->is_answered) {
		hold->exchange = NULL;
		return;
	}
	settlement.id = reservation->id;
	/* INV-BILLING-TRUTH: what the upstream says; nothing when it was not even asked. */
	if (!exchange->was_sent)
		settlement.is_cost_known = true;
	else if (exchange->cost.last[0])
		settlement.is_cost_known = money_parse(bytes_of(exchange->cost.last),
						       &settlement.cost) == 0;
	if (settlement.is_cost_known)
		hold->keeper->metrics.spend += settlement.cost;
	else if (!has_log(exchange->upstream))
		assume_cost(reservation, &settlement);
	if (exchange->was_sent && has_log(exchange->upstream))
		note_beginning(exchange, now_ms);
	if (reservation->verdict == STORE_GRANTED)
		hold->keeper->store->ops->settle(hold->keeper->store, &settlement, now_ms);
	hold->exchange = NULL;
	if (!hold->is_asking) /* else when that is answered */
		hold_free(hold);
}

/* ---- another store ---- */

static void retake(const struct exchange *exchange, uint64_t now_ms)
{
	struct store *store = exchange->peer->keeper->store;
	const struct hold *hold = (const struct hold *)(const void *)exchange->hold;

	if (hold && hold->is_answered && exchange->hold->verdict == STORE_GRANTED)
		store_retake(store, exchange->hold, now_ms);
}

void limiter_retake(struct keeper *keeper, uint64_t now_ms)
{
	for (const struct peer *peer = keeper->peers; peer; peer = peer->next)
		for (size_t i = 0; i < peer->place_count; i++)
			if (peer->exchanges[i])
				retake(peer->exchanges[i], now_ms);
}

/* ---- what the store tells ---- */

static bool is_about(const struct run *run, enum store_news news, const char *about)
{
	if (news == STORE_NEWS_REVOKED)
		return strcmp(run->run_id, about) == 0;
	if (strncmp(about, "run:", 4) == 0)
		return strcmp(run->run_id, about + 4) == 0;
	return run->account && strncmp(about, "account:", 8) == 0 &&
	       strcmp(run->account, about + 8) == 0;
}

void limiter_on_news(struct keeper *keeper, enum store_news news, const char *about,
		     uint64_t now_ms)
{
	bool is_revoked = news == STORE_NEWS_REVOKED;

	for (struct peer *peer = keeper->peers; peer; peer = peer->next) {
		for (size_t i = 0; i < peer->place_count; i++) {
			struct exchange *exchange = peer->exchanges[i];

			if (exchange && exchange->run && is_about(exchange->run, news, about) &&
			    (is_revoked || (exchange->upstream && exchange->upstream->llm)))
				exchange_cut(exchange, is_revoked ? REFUSAL_REVOKED : REFUSAL_MONEY,
					     now_ms);
		}
		if (is_revoked && peer->run && !peer->run->is_revoked &&
		    strcmp(peer->run->run_id, about) == 0) {
			peer->run->is_revoked = true;
			keeper->metrics.runs_revoked++;
		}
	}
}
