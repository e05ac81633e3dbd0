/* SPDX-License-Identifier: MIT */
/* What a keeper has open, and its turns. */
#include "keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "keeper/egress.h"
#include "keeper/origin.h"
#include "keeper/run.h"

/* How long the record of an outcome may wait for others, and for a disk that is full. */
#define OUTCOMES_DELAY_MS 20
#define OUTCOMES_RETRY_MS 1000

static void on_outcomes_due(struct loop_timer *timer, uint64_t now_ms);

/* ---- opening ---- */

int keeper_open_audit(struct keeper *keeper, const char *path, struct err *err)
{
	enum audit_durability durability = strcmp(keeper->config->durability, "fsync") == 0
						   ? AUDIT_FSYNC
						   : AUDIT_WRITE;
	const char *run_id = keeper->config->run_id;
	struct audit_start start = {
		.run_id = run_id ? bytes_of(run_id) : (struct bytes){ NULL, 0 },
		.attempt = (int64_t)keeper->config->attempt,
	};
	int r = audit_open(&keeper->audit, path, durability, err);

	if (r < 0)
		return r;
	audit_add_start(&keeper->audit, &start);
	r = audit_flush(&keeper->audit);
	if (r == -EILSEQ)
		return err_say(err, EILSEQ,
			       "the audit log '%.200s' does not end with a record; see what "
			       "'warder audit verify' says, and keep it aside",
			       path);
	return r < 0 ? err_set(err, -r, "write to the audit log '%.200s'", path) : 0;
}

/* A wrong file is found at once, whether it is needed or not. */
static bool needs_tls(const struct keeper_config *config)
{
	bool is_needed = config->upstream_ca != NULL || config->rule_count > 0 ||
			 config->secret_count > 0;

	for (size_t i = 0; i < config->llm_count; i++)
		is_needed = is_needed || config->llms[i].url.is_tls;
	return is_needed;
}

int keeper_open(struct keeper *keeper, const struct keeper_config *config, struct err *err)
{
	int r = loop_init(&keeper->loop);

	keeper->config = config;
	keeper->audit.fd = -1;
	keeper->audit_timer.on_due = on_outcomes_due;
	if (r < 0)
		return err_set(err, -r, "create an event loop");
	keeper->net = net_new(&keeper->loop);
	keeper->host_net = net_new(&keeper->loop);
	net_set_no_search(keeper->host_net);
	if (needs_tls(config))
		r = tls_client_new(config->upstream_ca, &keeper->tls, err);
	for (size_t i = 0; r == 0 && i < config->llm_count; i++)
		r = upstream_open(&keeper->upstreams[i], config, &config->llms[i], err);
	if (r == 0)
		r = egress_open(keeper, err);
	if (r == 0 && config->token_secret)
		r = secret_open(config->token_secret, &keeper->token_secret, err);
	secret_forget_sources();
	return r;
}

void keeper_close(struct keeper *keeper)
{
	for (size_t i = 0; i < keeper->config->llm_count; i++)
		upstream_close(&keeper->upstreams[i]);
	egress_close(keeper);
	secret_free(keeper->token_secret);
	if (keeper->net)
		net_free(keeper->net);
	if (keeper->host_net)
		net_free(keeper->host_net);
	loop_fini(&keeper->loop);
	if (keeper->tls)
		tls_client_free(keeper->tls);
	if (keeper->audit.fd >= 0)
		audit_close(&keeper->audit);
}

/* ---- turns ---- */

/* What could not be written is tried again. */
static void on_outcomes_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct keeper *keeper = OWNER_OF(timer, struct keeper, audit_timer);

	if (audit_flush(&keeper->audit) < 0)
		loop_set_timer(&keeper->loop, timer, now_ms + OUTCOMES_RETRY_MS);
}

/* A turn may bring more than a batch holds, when ten thousand streams end at once. */
void keeper_after_record(struct keeper *keeper)
{
	if (keeper->audit.drafts.len > AUDIT_BATCH_MAX / 2 && audit_flush(&keeper->audit) < 0)
		keeper->has_audit_failed = true;
}

/* INV-AUDIT-FIRST: what this turn has decided is written before any of it happens. */
static void start_decided(struct keeper *keeper, uint64_t now_ms)
{
	struct exchange *exchange = keeper->decided, *next;
	bool is_recorded;

	if (!keeper->has_decision)
		return;
	is_recorded = audit_flush(&keeper->audit) == 0 && !keeper->has_audit_failed;
	keeper->has_decision = keeper->has_audit_failed = false;
	keeper->decided = NULL;
	for (; exchange; exchange = next) {
		next = exchange->next_decided;
		if (exchange->state != EXCHANGE_DECIDED)
			continue; /* given up since */
		if (is_recorded)
			exchange_start(exchange, now_ms);
		else
			exchange_give_up(exchange, now_ms);
	}
}

static void flush_dirty(struct keeper *keeper, uint64_t now_ms)
{
	while (keeper->dirty) {
		struct exchange *exchange = keeper->dirty;

		keeper->dirty = exchange->next_dirty;
		exchange_flush(exchange, now_ms);
	}
	while (keeper->dirty_origins) {
		struct origin *origin = keeper->dirty_origins;

		keeper->dirty_origins = origin->next_dirty;
		origin_finish_turn(origin, now_ms);
	}
}

static void on_turn_end(struct loop *loop, uint64_t now_ms)
{
	struct keeper *keeper = OWNER_OF(loop, struct keeper, loop);

	start_decided(keeper, now_ms);
	/* What the gate takes may let more of a reply in, and that be told to its origin. */
	do {
		flush_dirty(keeper, now_ms);
		if (keeper->run)
			run_flush(keeper->run, now_ms);
	} while (keeper->dirty || keeper->dirty_origins);
	if (keeper->audit.drafts.len > 0 && !keeper->audit_timer.place)
		loop_set_timer(&keeper->loop, &keeper->audit_timer, now_ms + OUTCOMES_DELAY_MS);
}

static void add_end(struct keeper *keeper)
{
	const char *run_id = keeper->config->run_id;
	struct audit_end end = {
		.run_id = run_id ? bytes_of(run_id) : (struct bytes){ NULL, 0 },
		.attempt = (int64_t)keeper->config->attempt,
		.allowed = (int64_t)keeper->allowed,
		.refused = (int64_t)keeper->refused,
	};

	audit_add_end(&keeper->audit, &end);
}

/* It never says anything: what can be read is its end. */
static void on_owner_gone(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	(void)ready;
	(void)now_ms;
	loop_end(&OWNER_OF(source, struct keeper, owner)->loop);
}

int keeper_serve(struct keeper *keeper, int link_fd, int owner_fd)
{
	struct run *run;
	int r = run_open(keeper, link_fd, &run);

	if (r < 0)
		return r;
	keeper->owner = (struct loop_source){ .fd = -1, .on_ready = on_owner_gone };
	r = loop_add(&keeper->loop, &keeper->owner, owner_fd, LOOP_READ);
	if (r < 0)
		return r;
	keeper->run = run;
	keeper->loop.on_turn_end = on_turn_end;
	r = loop_run(&keeper->loop);
	keeper->run = NULL;
	run_close(run);
	add_end(keeper);
	if (r == 0)
		r = audit_flush(&keeper->audit);
	/* One more turn, for what is freed at its end and still names the run. */
	keeper->decided = keeper->dirty = NULL;
	keeper->dirty_origins = NULL;
	keeper->loop.on_turn_end = NULL;
	loop_remove(&keeper->loop, &keeper->owner);
	loop_cancel(&keeper->loop, &keeper->audit_timer);
	if (loop_turn(&keeper->loop, 0) < 0)
		r = -EIO;
	free(run);
	return r;
}
