/* SPDX-License-Identifier: MIT */
/*
 * Asking a local store, whose answers come at once; and a file of one's own for it.
 */
#ifndef STORE_DESK_H
#define STORE_DESK_H

#include "unit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/money.h"
#include "store/journal.h"
#include "store/store.h"

#define CENT (MONEY_UNIT / 100)

/* ---- a file ---- */

static char desk_dir[] = "/tmp/warder-store-XXXXXX";
static char desk_path[sizeof(desk_dir) + 16];

static inline int desk_make_dir(void **state)
{
	(void)state;
	memcpy(desk_dir + sizeof(desk_dir) - 7, "XXXXXX", 6);
	if (!mkdtemp(desk_dir))
		return -1;
	snprintf(desk_path, sizeof(desk_path), "%s/state.db", desk_dir);
	return 0;
}

static inline int desk_remove_dir(void **state)
{
	static const char *const names[] = { "", "-wal", "-shm", "-journal" };
	char path[sizeof(desk_path) + 16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s%s", desk_path, names[i]);
		unlink(path);
	}
	return rmdir(desk_dir);
}

static inline struct store *desk_open(struct loop *loop)
{
	struct err err = { 0 };
	struct journal *journal = journal_open_sqlite(desk_path, &err);

	if (!journal)
		print_error("%s\n", err.text);
	assert(journal);
	return store_local_new(loop, journal);
}

/* ---- asking ---- */

static inline void desk_on_reserved(struct store_reservation *asked, uint64_t now_ms)
{
	(void)asked;
	(void)now_ms;
}

/* One claim. */
static inline enum store_verdict desk_reserve(struct store *store, const char *id,
					      const char *meter, struct limits limits,
					      uint64_t bytes, uint64_t spend)
{
	struct store_reservation asked = { .run_id = "run",
					   .account = "",
					   .claims = { { meter, limits } },
					   .claim_count = 1,
					   .is_of_money = true,
					   .bytes = bytes,
					   .spend = spend,
					   .on_done = desk_on_reserved };

	snprintf(asked.id, sizeof(asked.id), "%s", id);
	store->ops->reserve(store, &asked, clock_now_ms());
	return asked.verdict;
}

/* So many bytes more for a hold that has that one claim. */
static inline enum store_verdict desk_extend(struct store *store, const char *id, const char *meter,
					     struct limits limits, uint64_t more)
{
	struct store_reservation asked = { .run_id = "run",
					   .account = "",
					   .claims = { { meter, limits } },
					   .claim_count = 1,
					   .more = more,
					   .is_more = true,
					   .on_done = desk_on_reserved };

	snprintf(asked.id, sizeof(asked.id), "%s", id);
	store->ops->reserve(store, &asked, clock_now_ms());
	return asked.verdict;
}

static inline void desk_settle(struct store *store, const char *id, uint64_t bytes, uint64_t cost,
			       const char *call_id)
{
	const struct store_settlement settlement = {
		.id = id, .bytes = bytes, .is_cost_known = true, .cost = cost, .call_id = call_id
	};

	store->ops->settle(store, &settlement, clock_now_ms());
}

static inline void desk_settle_without_cost(struct store *store, const char *id, uint64_t bytes,
					    const char *call_id)
{
	const struct store_settlement settlement = { .id = id, .bytes = bytes, .call_id = call_id };

	store->ops->settle(store, &settlement, clock_now_ms());
}

static inline void desk_flush(struct store *store)
{
	store->ops->flush(store, clock_now_ms());
}

static inline void desk_on_read(struct store_meter *meter, uint64_t now_ms)
{
	(void)meter;
	(void)now_ms;
}

static inline struct store_meter desk_read(struct store *store, const char *name)
{
	struct store_meter meter = { .meter = name, .on_done = desk_on_read };

	store->ops->read_meter(store, &meter, clock_now_ms());
	assert_int_equal(meter.verdict, STORE_GRANTED);
	return meter;
}

static inline void desk_on_opened(struct store_run *run, uint64_t now_ms)
{
	(void)run;
	(void)now_ms;
}

static inline enum store_verdict desk_open_run(struct store *store, const char *run_id)
{
	struct store_run run = { .run_id = run_id, .account = "", .on_done = desk_on_opened };

	store->ops->open_run(store, &run, clock_now_ms());
	return run.verdict;
}

/* One that comes by tokens. */
static inline enum store_verdict desk_begin_run(struct store *store, const char *run_id)
{
	struct store_run run = {
		.run_id = run_id, .account = "", .has_no_link = true, .on_done = desk_on_opened
	};

	store->ops->open_run(store, &run, clock_now_ms());
	return run.verdict;
}

static inline void desk_on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	(void)revocation;
	(void)now_ms;
}

static inline enum store_verdict desk_revoke(struct store *store, const char *run_id)
{
	struct store_revocation revocation = { .run_id = run_id, .on_done = desk_on_revoked };

	store->ops->revoke(store, &revocation, clock_now_ms());
	return revocation.verdict;
}

static inline void desk_on_reconciled(struct store_call *call, uint64_t now_ms)
{
	(void)call;
	(void)now_ms;
}

static inline struct store_call desk_reconcile(struct store *store, const char *call_id,
					       const char *run_id, uint64_t cost)
{
	struct store_call call = { .call_id = call_id,
				   .run_id = run_id,
				   .account = "",
				   .cost = cost,
				   .on_done = desk_on_reconciled };

	store->ops->reconcile(store, &call, clock_now_ms());
	return call;
}

#endif
