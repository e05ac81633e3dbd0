/* SPDX-License-Identifier: MIT */
/* The keeper's end of a link. From here on the bytes may be the agent's. */
#include "keeper/run.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "http/path.h"
#include "keeper/exchange.h"
#include "keeper/origin.h"
#include "keeper/verbose.h"

/* ---- writing ---- */

/* The gate keeps up no more: origins are not read. */
static void stall(struct run *run)
{
	run->is_stalled = true;
	for (size_t i = 0; i < LINK_EXCHANGES_MAX; i++)
		if (run->by_id[i] && run->by_id[i]->state == EXCHANGE_RELAY)
			run->by_id[i]->origin->wire->watch(run->by_id[i]);
}

/* It does again; what TLS has read ahead is read first, for there will be no event. */
static void go_on(struct run *run, uint64_t now_ms)
{
	run->is_stalled = false;
	for (size_t i = 0; i < LINK_EXCHANGES_MAX && !run->is_stalled; i++) {
		if (run->by_id[i])
			exchange_on_credit(run->by_id[i], 0, now_ms);
		if (link_port_is_behind(&run->link))
			stall(run);
	}
}

void run_flush(struct run *run, uint64_t now_ms)
{
	for (;;) {
		if (link_port_flush(&run->link) < 0) {
			loop_end(&run->keeper->loop); /* no gate, no run */
			return;
		}
		if (link_port_is_behind(&run->link)) {
			if (!run->is_stalled)
				stall(run);
			return;
		}
		if (!run->is_stalled)
			return;
		go_on(run, now_ms);
	}
}

/* ---- reading ---- */

static struct exchange *find_exchange(struct run *run, uint32_t id)
{
	struct exchange *exchange = run->by_id[id % LINK_EXCHANGES_MAX];

	return exchange && exchange->id == id ? exchange : NULL;
}

/* The gate has refused what was no request, or none for us: that is on record, too. */
static int on_refused(struct run *run, uint32_t id, struct bytes payload)
{
	struct link_refused refused;
	struct audit_decision decision = {
		.run_id = bytes_of(run->run_id),
		.attempt = run->attempt,
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
	run->keeper->refused++;
	run->keeper->has_decision = true;
	audit_add_decision(&run->keeper->audit, &decision);
	keeper_after_record(run->keeper);
	verbose_refused(run->keeper, &refused);
	return 0;
}

static int on_message(struct link_port *port, enum link_event event, struct bytes payload,
		      uint64_t now_ms)
{
	struct run *run = OWNER_OF(port, struct run, link);
	uint32_t id = port->reader.exchange, credit;
	struct exchange *exchange;

	if (event == LINK_MESSAGE && port->reader.type == LINK_OPEN)
		return exchange_open(run, id, payload, now_ms);
	if (event == LINK_MESSAGE && port->reader.type == LINK_REFUSED)
		return on_refused(run, id, payload);
	exchange = find_exchange(run, id);
	if (!exchange)
		return 0; /* ended on our side while this was under way */
	if (event == LINK_PIECE)
		return exchange_on_data(exchange, payload, now_ms);
	switch (port->reader.type) {
	case LINK_END:
		return exchange_on_end(exchange, now_ms);
	case LINK_CREDIT:
		if (link_parse_credit(payload, &credit) < 0 ||
		    credit > UINT32_MAX - exchange->credit)
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
static void tell_tunnels(struct run *run)
{
	const struct keeper_config *config = run->keeper->config;
	struct bytes tunnels[LINK_TUNNELS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < config->rule_count && count < LINK_TUNNELS_MAX; i++)
		if (config->rules[i].is_allow && strncmp(config->rules[i].text, "tcp://", 6) == 0)
			tunnels[count++] = bytes_of(config->rules[i].text + 6);
	if (count > 0)
		link_write_tunnels(&run->link.out, tunnels, count);
}

/* Which names the gate's resolver has; it listens to the agent when it knows. */
static void tell_names(struct run *run)
{
	const struct keeper *keeper = run->keeper;
	struct link_names names = { .is_deny = strcmp(keeper->config->dns, "deny") == 0 };
	const char *pattern;
	bool is_known;

	for (size_t at = 0; policy_next_host(&keeper->policy, &at, &pattern, &is_known);) {
		if (strchr(pattern, ':'))
			continue; /* an address */
		if (names.count == LINK_NAMES_MAX) {
			link_write_names(&run->link.out, &names);
			names.count = 0;
		}
		names.names[names.count].pattern = bytes_of(pattern);
		names.names[names.count++].is_known = is_known;
	}
	names.is_last = true;
	link_write_names(&run->link.out, &names);
}

int run_open(struct keeper *keeper, int link_fd, struct run **ret_run)
{
	const struct keeper_config *config = keeper->config;
	struct run *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		die_no_memory();
	run->keeper = keeper;
	run->attempt = (uint32_t)config->attempt;
	if (config->run_id)
		snprintf(run->run_id, sizeof(run->run_id), "%s", config->run_id);
	r = link_port_open(&run->link, &keeper->loop, link_fd, LINK_SIDE_KEEPER, RUN_OUT_MAX,
			   on_message);
	if (r < 0) {
		free(run);
		return r;
	}
	/* A gate that asks and does not listen is not listened to. */
	run->link.waits_when_behind = true;
	if (run->run_id[0])
		link_write_hello(&run->link.out, bytes_of(run->run_id), run->attempt);
	tell_tunnels(run);
	tell_names(run);
	run_flush(run, clock_now_ms());
	*ret_run = run;
	return 0;
}

void run_close(struct run *run)
{
	for (size_t i = 0; i < LINK_EXCHANGES_MAX; i++)
		if (run->by_id[i])
			exchange_cancel(run->by_id[i], "gate_gone", clock_now_ms());
	link_port_close(&run->link);
}
