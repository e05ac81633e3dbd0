/* SPDX-License-Identifier: MIT */
/*
 * What can be asked of PostgreSQL: one statement for each kind, which takes any number of its
 * items as arrays. How these are written and what becomes of the answers is here; connections and
 * what goes over them when are in store/pgsession.c.
 */
#ifndef STORE_PGASK_H
#define STORE_PGASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/pglist.h"
#include "store/store.h"
#include "store/watch.h"

#define PGASK_PARAMS_MAX  15 /* beside those that all have: keeper, epoch, how long one lives */
#define PGASK_COLUMNS_MAX 4

/* In the order in which they go out: what gives back goes before what takes. */
enum pgask {
	PGASK_SETTLE,
	PGASK_CLOSE,
	PGASK_REVOKE,
	PGASK_RECONCILE,
	PGASK_RELEASE,
	PGASK_OPEN,
	PGASK_RESERVE,
	PGASK_READ,
	PGASK_NEWS,
	PGASK_BEAT,
	PGASK_TIDY,
	PGASK_LEAVE,
	PGASK_COUNT,
};

/* All that was asked and has not gone out yet. */
struct pgask_book {
	struct store *store;
	struct pglist waiting[PGASK_COUNT];
	struct watch watch;
	struct store_release release;
};

enum pgask_rows {
	PGASK_NO_ROWS,      /* the answer is that there is one */
	PGASK_ROW_EACH,     /* one for each item, in their order */
	PGASK_ROWS_OF_THEM, /* as many as there are; no item is given */
};

struct pgask_kind {
	const char *name, *sql;
	size_t param_count; /* its own */
	int column_count;
	enum pgask_rows rows;
	bool may_wait; /* for a connection; else it is refused without one */
	void (*write)(const struct pgask_book *book, const struct pglist *list, struct buf *params);
	void (*answer)(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms);
	/* Answers UNREACHABLE; what may have been done nevertheless is to be undone. */
	void (*refuse)(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms);
};

extern const struct pgask_kind pgask_kinds[PGASK_COUNT];

void pgask_settle(struct pgask_book *book, const struct store_settlement *settlement);
void pgask_close_run(struct pgask_book *book, const char *run_id);
void pgask_fini(struct pgask_book *book);

#endif
