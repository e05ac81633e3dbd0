/* SPDX-License-Identifier: MIT */
/* What the local store writes, when, and what it does when it cannot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "store/local.h"

#define WRITE_MS 1000 /* what may wait waits so long; what has failed is tried again so often */

static void set_timer(struct local *local)
{
	if (local->timer.place == 0)
		loop_set_timer(local->store.loop, &local->timer, clock_now_ms() + WRITE_MS);
}

/* ---- whether it works ---- */

static bool note_failure(struct local *local)
{
	struct store *store = &local->store;

	store->is_reachable = false;
	snprintf(store->fault, sizeof(store->fault), "%s", local->journal->fault);
	set_timer(local);
	return false;
}

/*
 * Only what was written proves that it works: a full disk can be read from. What was read and
 * could not be is found by the timer, which writes.
 */
static bool end_transaction(struct local *local, int r)
{
	const struct journal_ops *ops = local->journal->ops;

	if (r == 0)
		r = ops->commit(local->journal);
	if (r < 0) {
		ops->rollback(local->journal);
		return note_failure(local);
	}
	local->store.is_reachable = true;
	local->store.fault[0] = '\0';
	return true;
}

/* ---- what has changed ---- */

void local_touch_tally(struct local *local, struct tally *tally)
{
	if (!local->journal || tally->is_unwritten)
		return;
	tally->is_unwritten = true;
	LIST_ADD(&local->unwritten.tallies, tally);
	set_timer(local);
}

void local_touch_hold(struct local *local, struct hold *hold)
{
	if (!hold->is_journalled)
		return;
	local_hurry(local);
	if (hold->is_unwritten)
		return;
	hold->is_unwritten = true;
	LIST_ADD(&local->unwritten.holds, hold);
}

bool local_has_unwritten(const struct local *local)
{
	return local->journal &&
	       (local->unwritten.tallies || local->unwritten.holds || local->first_call);
}

void local_hurry(struct local *local)
{
	if (!local->journal)
		return;
	local->unwritten.is_urgent = true;
	set_timer(local);
}

static int load_tally(struct local *local, struct tally *tally)
{
	uint64_t bytes = 0, spent = 0;
	int r = 0;

	if (!tally->is_loaded)
		r = local->journal->ops->load_meter(local->journal, tally->name, &bytes, &spent);
	if (r < 0)
		return r;
	meter_load(&tally->meter, bytes, spent);
	tally->is_loaded = true;
	return 0;
}

bool local_load_tally(struct local *local, struct tally *tally)
{
	return load_tally(local, tally) == 0 || note_failure(local);
}

int local_load_call(struct local *local, const char *call_id, struct journal_call *ret_call)
{
	int r = 0;

	if (local->journal)
		r = local->journal->ops->load_call(local->journal, call_id, ret_call);
	if (r < 0)
		note_failure(local);
	return r;
}

/* ---- writing ---- */

static int write_tallies(struct local *local)
{
	const struct journal_ops *ops = local->journal->ops;
	int r = 0;

	for (struct tally *tally = local->unwritten.tallies; r == 0 && tally; tally = tally->next) {
		r = load_tally(local, tally);
		if (r == 0)
			r = ops->put_meter(local->journal, tally->name, tally->meter.bytes,
					   tally->meter.spent);
	}
	return r;
}

static int write_hold(struct local *local, const struct hold *hold)
{
	const struct journal_ops *ops = local->journal->ops;
	struct journal_hold row = { .id = hold->id,
				    .bytes = hold->bytes,
				    .spend = hold->spend,
				    .made_at = hold->made_at,
				    .call_id = hold->call_id };

	if (hold->is_over)
		return ops->remove_hold(local->journal, hold->id);
	for (size_t i = 0; i < hold->tally_count; i++)
		row.meters[i] = hold->tallies[i]->name;
	return ops->put_hold(local->journal, &row);
}

static int write_holds(struct local *local)
{
	int r = 0;

	for (struct hold *hold = local->unwritten.holds; r == 0 && hold; hold = hold->next)
		r = write_hold(local, hold);
	return r;
}

static int write_calls(struct local *local)
{
	int r = 0;

	for (struct call *call = local->first_call; r == 0 && call; call = call->next) {
		struct journal_call row = { call->id, call->cost, call->is_truth };

		r = local->journal->ops->put_call(local->journal, &row);
	}
	return r;
}

static void forget_written(struct local *local)
{
	struct call *call;

	while (local->unwritten.tallies) {
		struct tally *tally = local->unwritten.tallies;

		LIST_REMOVE(tally);
		tally->is_unwritten = false;
	}
	while (local->unwritten.holds) {
		struct hold *hold = local->unwritten.holds;

		LIST_REMOVE(hold);
		hold->is_unwritten = false;
		if (hold->is_over)
			free(hold);
	}
	while ((call = local->first_call)) {
		local->first_call = call->next;
		table_remove(&local->calls, &call->entry);
		free(call);
	}
	local->last_call = &local->first_call;
	local->unwritten.is_urgent = false;
	loop_cancel(local->store.loop, &local->timer);
}

bool local_write(struct local *local)
{
	static int (*const parts[])(struct local *) = { write_tallies, write_holds, write_calls };
	int r;

	if (!local->journal)
		return true;
	r = local->journal->ops->begin(local->journal);
	/* A transaction without anything to write would work on a full disk. */
	if (r == 0 && !local_has_unwritten(local))
		r = local->journal->ops->probe(local->journal);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
		r = parts[i](local);
	if (!end_transaction(local, r))
		return false;
	forget_written(local);
	return true;
}

bool local_write_run(struct local *local, const struct store_run *asked, bool has_link,
		     uint64_t *begun_ms)
{
	const struct journal_ops *ops;
	uint64_t known_ms = *begun_ms;
	bool is_of_today = false;
	int r;

	if (local->journal && local->journal->ops->load_run(local->journal, asked->run_id,
							    &known_ms, &is_of_today) < 0)
		return note_failure(local);
	*begun_ms = local_begun_ms(known_ms, asked->age_ms);
	if (!local->journal || (*begun_ms == known_ms && is_of_today && !has_link))
		return true; /* it stands there like that */
	ops = local->journal->ops;
	r = ops->begin(local->journal);
	if (r == 0)
		r = ops->put_run(local->journal, asked->run_id, *begun_ms);
	if (r == 0 && !has_link)
		r = ops->end_run(local->journal, asked->run_id);
	return end_transaction(local, r);
}

static bool write_name(struct local *local, int (*write)(struct journal *, const char *),
		       const char *run_id)
{
	int r = local->journal->ops->begin(local->journal);

	if (r == 0)
		r = write(local->journal, run_id);
	return end_transaction(local, r);
}

bool local_write_end(struct local *local, const char *run_id)
{
	return !local->journal || write_name(local, local->journal->ops->end_run, run_id);
}

bool local_write_revocation(struct local *local, const char *run_id)
{
	return !local->journal || write_name(local, local->journal->ops->put_revocation, run_id);
}

void local_on_timer(struct loop_timer *timer, uint64_t now_ms)
{
	struct local *local = OWNER_OF(timer, struct local, timer);

	(void)now_ms;
	if (!local_write(local))
		set_timer(local);
}

/* ---- what was left ---- */

/* Whoever held it is gone, so it has no place; what else it may have used is not known. */
static void on_hold(void *owner, const struct journal_hold *row)
{
	struct local *local = owner;
	struct tally *tallies[STORE_CLAIMS_MAX];
	struct hold *hold;
	size_t count = 0;

	for (; count < STORE_CLAIMS_MAX && row->meters[count]; count++) {
		tallies[count] = local_get_tally(local, row->meters[count], 0);
		/* One of which nothing is held is at rest, and must outlive that the next is got.
		 */
		tallies[count]->user_count++;
		meter_restore(&tallies[count]->meter, row->bytes, row->spend);
	}
	hold = local_add_hold(local, row->id, tallies, count);
	while (count-- > 0)
		tallies[count]->user_count--;
	hold->bytes = row->bytes;
	hold->spend = row->spend;
	hold->made_at = row->made_at;
	hold->is_journalled = true;
	local_keep_hold(local, hold, row->call_id);
	hold->is_left = !row->call_id[0];
}

void local_add_revoked(struct local *local, const char *run_id)
{
	struct revoked *revoked = local_alloc(sizeof(*revoked));

	snprintf(revoked->id, sizeof(revoked->id), "%s", run_id);
	table_add(&local->revoked, &revoked->entry, revoked->id);
}

static void on_revoked(void *owner, const char *run_id)
{
	local_add_revoked(owner, run_id);
}

static void init_tables(struct local *local)
{
	table_init(&local->tallies);
	table_init(&local->holds);
	table_init(&local->kept);
	table_init(&local->calls);
	table_init(&local->runs);
	table_init(&local->revoked);
}

bool local_load(struct local *local)
{
	const struct journal_ops *ops;

	if (local->is_loaded)
		return true;
	init_tables(local);
	ops = local->journal ? local->journal->ops : NULL;
	if (ops && (ops->load_holds(local->journal, on_hold, local) < 0 ||
		    ops->load_revocations(local->journal, on_revoked, local) < 0)) {
		local_free_state(local); /* half of it is none */
		return note_failure(local);
	}
	local->is_loaded = true;
	if (local->holds.count > 0)
		loop_set_timer(local->store.loop, &local->burial, clock_now_ms() + STORE_ALIVE_MS);
	return true;
}
