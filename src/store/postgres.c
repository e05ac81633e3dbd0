/* SPDX-License-Identifier: MIT */
/* The store in PostgreSQL: what is asked for becomes what is sent over the one connection. */
#include "store/postgres.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "store/pgsession.h"

struct postgres {
	struct store store;
	struct pgsession session;
	struct loop_deferred deferred;
};

static struct postgres *of(struct store *store)
{
	return OWNER_OF(store, struct postgres, store);
}

/* ---- the store's functions ---- */

static void ask(struct store *store, enum pgask kind, void *item, uint64_t now_ms)
{
	struct pgsession *session = &of(store)->session;

	if (session->state == PGSESSION_UP)
		pglist_add(&session->book.waiting[kind], item);
	else
		pgask_kinds[kind].refuse(&session->book, item, false, now_ms);
}

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct store_reservation *next;

	for (struct store_reservation *one = first; one; one = next) {
		next = one->next; /* the answer may come at once, and free it */
		watch_claims(&of(store)->session.book.watch, one);
		ask(store, PGASK_RESERVE, one, now_ms);
	}
}

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	(void)now_ms;
	pgask_settle(&of(store)->session.book, settlement);
}

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	ask(store, PGASK_OPEN, run, now_ms);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	(void)now_ms;
	watch_close(&of(store)->session.book.watch, run_id);
	pgask_close_run(&of(store)->session.book, run_id);
}

static void revoke_run(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	ask(store, PGASK_REVOKE, revocation, now_ms);
}

static void read_meter(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	ask(store, PGASK_READ, meter, now_ms);
}

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	ask(store, PGASK_RECONCILE, call, now_ms);
}

/* One that has not gone out yet is replaced: there will be another. */
static void release(struct store *store, const struct store_release *read, uint64_t now_ms)
{
	struct pgsession *session = &of(store)->session;

	(void)now_ms;
	session->book.release = *read;
	pgsession_ask_once(session, PGASK_RELEASE);
}

static void flush(struct store *store, uint64_t now_ms)
{
	pgsession_flush(&of(store)->session, now_ms);
}

static void free_postgres(struct loop_deferred *deferred)
{
	struct postgres *postgres = OWNER_OF(deferred, struct postgres, deferred);

	pgsession_fini(&postgres->session);
	free(postgres);
}

static void close_store(struct store *store)
{
	struct postgres *postgres = of(store);

	pgsession_stop(&postgres->session);
	postgres->deferred.free = free_postgres;
	loop_defer(store->loop, &postgres->deferred);
}

static void watch_run(struct store *store, const char *run_id, bool is_on)
{
	if (is_on)
		watch_open(&of(store)->session.book.watch, run_id);
	else
		watch_close(&of(store)->session.book.watch, run_id);
}

static const struct store_ops ops = {
	.name = "postgresql",
	.reserve = reserve,
	.settle = settle,
	.open_run = open_run,
	.watch = watch_run,
	.close_run = close_run,
	.revoke = revoke_run,
	.read_meter = read_meter,
	.reconcile = reconcile,
	.release = release,
	.flush = flush,
	.close = close_store,
};

struct store *store_postgres_new(struct loop *loop, const char *url, struct err *err)
{
	struct postgres *postgres = calloc(1, sizeof(*postgres));
	int r;

	if (!postgres)
		die_no_memory();
	postgres->store = (struct store){ .ops = &ops, .loop = loop };
	postgres->session.store = &postgres->store;
	store_postgres_set_times(&postgres->store, STORE_ANSWER_MS, STORE_ALIVE_MS);
	if (!pgurl_parse(url, &postgres->session.url)) {
		err_say(err, EINVAL,
			"the URL of the PostgreSQL store cannot be read; write "
			"postgresql://user:password@host:port/database, and what is not a letter "
			"or "
			"digit in the user or password as %%XX");
		free_postgres(&postgres->deferred);
		return NULL;
	}
	r = runid_new(postgres->store.keeper_id);
	if (r < 0) {
		err_set(err, -r, "mint the keeper's id");
		free_postgres(&postgres->deferred);
		return NULL;
	}
	pgsession_start(&postgres->session);
	return &postgres->store;
}

void store_postgres_set_times(struct store *store, uint64_t answer_ms, uint64_t alive_ms)
{
	of(store)->session.answer_ms = answer_ms;
	of(store)->session.alive_ms = alive_ms;
}
