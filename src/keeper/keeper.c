/* SPDX-License-Identifier: MIT */
/* What a keeper has open, and its turns. */
#include "keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "keeper/limiter.h"
#include "keeper/origin.h"
#include "sys/heap.h"

/* How long the record of an outcome may wait for others, and for a disk that is full. */
#define OUTCOMES_DELAY_MS 20
#define OUTCOMES_RETRY_MS 1000

/* Where many runs come and go, most of their memory is used again within that time. */
#define GIVE_BACK_MS 5000

static void on_outcomes_due(struct loop_timer *timer, uint64_t now_ms);
static void on_give_back(struct loop_timer *timer, uint64_t now_ms);

/* ---- opening ---- */

int keeper_open_audit(struct keeper *keeper, const char *path, struct err *err)
{
	const char *durability = keeper->charter->config->durability;

	int r = audit_open(&keeper->audit, path,
			   strcmp(durability, "fsync") == 0 ? AUDIT_FSYNC : AUDIT_WRITE, err);

	if (r < 0)
		return r;
	r = audit_mend(&keeper->audit);
	return r < 0 ? err_set(err, -r, "look at the end of the audit log '%.200s'", path) : 0;
}

int keeper_open(struct keeper *keeper, struct charter *charter, struct err *err)
{
	int r = loop_init(&keeper->loop);

	keeper->charter = charter_ref(charter);
	keeper->audit.fd = -1;
	keeper->audit_timer.on_due = on_outcomes_due;
	keeper->heap_timer.on_due = on_give_back;
	refused_init(&keeper->refused);
	if (r < 0)
		return err_set(err, -r, "create an event loop");
	keeper->net = net_new(&keeper->loop);
	keeper->host_net = net_new(&keeper->loop);
	net_set_no_search(keeper->host_net);
	return 0;
}

void keeper_close(struct keeper *keeper)
{
	if (keeper->net)
		net_free(keeper->net);
	if (keeper->host_net)
		net_free(keeper->host_net);
	if (keeper->store)
		keeper->store->ops->close(keeper->store);
	loop_fini(&keeper->loop);
	charter_unref(keeper->charter);
	if (keeper->audit.fd >= 0)
		audit_close(&keeper->audit);
}

/* ---- memory ---- */

static void on_give_back(struct loop_timer *timer, uint64_t now_ms)
{
	(void)timer;
	(void)now_ms;
	heap_give_back();
}

void keeper_give_back(struct keeper *keeper, uint64_t now_ms)
{
	if (!keeper->heap_timer.place)
		loop_set_timer(&keeper->loop, &keeper->heap_timer, now_ms + GIVE_BACK_MS);
}

/* ---- what is written down ---- */

void keeper_notice(struct keeper *keeper, enum notice_event event, uint64_t now_ms,
		   const struct notice *notice)
{
	if (keeper->notices && notice->meter)
		notice_write_limit(keeper->notices, event, now_ms, notice);
	else if (keeper->notices)
		notice_write(keeper->notices, event, now_ms, notice);
}

/*
 * The one way to write records: how that goes is counted, and that the decisions of this turn have
 * not been written is remembered for all of them, whoever it was that wanted something written.
 */
static int flush_records(struct keeper *keeper)
{
	uint64_t start_us = clock_us(CLOCK_MONOTONIC);
	int r = audit_flush(&keeper->audit);
	bool was_failing = keeper->is_audit_failing;

	metrics_observe(&keeper->metrics.audit_flush_seconds, clock_us(CLOCK_MONOTONIC) - start_us);
	keeper->is_audit_failing = r < 0;
	if (r < 0) {
		keeper->metrics.audit_failures++;
		keeper->has_audit_failed |= keeper->has_decision;
	}
	if (was_failing != keeper->is_audit_failing)
		keeper_notice(keeper, r < 0 ? NOTICE_AUDIT_FAILED : NOTICE_AUDIT_BACK,
			      clock_now_ms(),
			      &(struct notice){ .text = r < 0 ? strerror(-r) : NULL });
	return r;
}

int keeper_write_records(struct keeper *keeper, struct err *err)
{
	int r = flush_records(keeper);

	if (r == -EILSEQ)
		return err_say(err, EILSEQ,
			       "the audit log '%.200s' does not end with a record; see what "
			       "'warder audit verify' says, and keep it aside",
			       keeper->audit.path);
	return r < 0 ? err_set(err, -r, "write to the audit log '%.200s'", keeper->audit.path) : 0;
}

/* ---- turns ---- */

/* What could not be written is tried again. */
static void on_outcomes_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct keeper *keeper = OWNER_OF(timer, struct keeper, audit_timer);

	if (flush_records(keeper) < 0)
		loop_set_timer(&keeper->loop, timer, now_ms + OUTCOMES_RETRY_MS);
}

/* A turn may bring more than a batch holds, when ten thousand streams end at once. */
void keeper_after_record(struct keeper *keeper)
{
	int r = 0;

	keeper->metrics.audit_records++;
	if (keeper->audit.drafts.len > AUDIT_BATCH_MAX / 2)
		r = flush_records(keeper);
	(void)r; /* it is remembered for those whom it concerns */
}

/* INV-AUDIT-FIRST: what this turn has decided is written before any of it happens. */
static void start_decided(struct keeper *keeper, uint64_t now_ms)
{
	struct exchange *exchange = keeper->decided, *next;
	bool is_recorded;

	if (!keeper->has_decision)
		return;
	is_recorded = flush_records(keeper) == 0 && !keeper->has_audit_failed;
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

static void flush_peers(struct keeper *keeper, uint64_t now_ms)
{
	while (keeper->dirty_peers) {
		struct peer *peer = keeper->dirty_peers;

		keeper->dirty_peers = peer->next_dirty;
		peer->is_dirty = false;
		if (!peer->is_over)
			peer_flush(peer, now_ms);
	}
}

/*
 * Whether there is anything to wait for in it. A gate for many runs has no end of its own: with
 * nothing under way it holds nobody up, unless it is about to be sent to our successor.
 */
static bool is_waited_for(const struct peer *peer)
{
	return peer->kind != PEER_OPEN || peer->keeper->is_replaced ||
	       peer_count_exchanges(peer) > 0 || peer->link.has_left;
}

static void end_when_alone(struct keeper *keeper, uint64_t now_ms)
{
	const struct peer *peer = keeper->peers;

	while (peer && !is_waited_for(peer))
		peer = peer->next;
	if (peer || keeper->is_lending)
		return;
	keeper_notice(keeper, NOTICE_DRAINED, now_ms, &(struct notice){ .text = NULL });
	loop_end(&keeper->loop);
}

static void on_turn_end(struct loop *loop, uint64_t now_ms)
{
	struct keeper *keeper = OWNER_OF(loop, struct keeper, loop);

	limiter_flush(keeper, now_ms);
	start_decided(keeper, now_ms);
	refused_tell_all(keeper, now_ms);
	/* What a gate takes may let more of a reply in, and that be told to its origin. */
	do {
		flush_dirty(keeper, now_ms);
		flush_peers(keeper, now_ms);
		if (keeper->asked) /* what has moved needs more room */
			limiter_flush(keeper, now_ms);
	} while (keeper->dirty || keeper->dirty_origins || keeper->dirty_peers);
	if (keeper->audit.drafts.len > 0 && !keeper->audit_timer.place)
		loop_set_timer(&keeper->loop, &keeper->audit_timer, now_ms + OUTCOMES_DELAY_MS);
	if (keeper->is_draining)
		end_when_alone(keeper, now_ms);
}

int keeper_serve(struct keeper *keeper)
{
	int r, failure;

	keeper->loop.on_turn_end = on_turn_end;
	on_turn_end(&keeper->loop, clock_now_ms()); /* what was written before the first */
	r = loop_run(&keeper->loop);
	while (keeper->peers)
		peer_close(keeper->peers, "gate_gone", clock_now_ms());
	refused_finish(keeper);
	failure = flush_records(keeper);
	refused_tell_all(keeper, clock_now_ms());
	/* One more turn, for what is freed at its end. */
	keeper->decided = keeper->dirty = NULL;
	keeper->dirty_origins = NULL;
	keeper->dirty_peers = NULL;
	keeper->loop.on_turn_end = NULL;
	loop_cancel(&keeper->loop, &keeper->audit_timer);
	loop_cancel(&keeper->loop, &keeper->heap_timer);
	if (loop_turn(&keeper->loop, 0) < 0)
		r = -EIO;
	return r < 0 ? r : failure;
}
