/* SPDX-License-Identifier: MIT */
/*
 * What the local store writes down, so that it is there when the process is not: a table of
 * functions, for the database is linked only by the program that needs it.
 *
 * Everything is written between begin and commit, and is there after the commit or not at all.
 * Reading needs neither. What is too old (store/store.h) goes as other things come. What fails
 * returns -EIO and says why in `fault`; a transaction in which something has failed is rolled back,
 * and the next one may succeed.
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "store/store.h"

struct journal;

/* A hold as it is written; the texts are borrowed. */
struct journal_hold {
	const char *id;
	const char *meters[STORE_CLAIMS_MAX]; /* the rest are NULL */
	uint64_t bytes, spend;
	uint64_t made_at;    /* seconds since 1970 */
	const char *call_id; /* "" while it is not known */
};

/* A call whose cost was counted. */
struct journal_call {
	const char *id;
	uint64_t cost;
	bool is_truth; /* as the upstream's log has it, not as the reply had it */
};

struct journal_ops {
	int (*begin)(struct journal *journal);
	int (*commit)(struct journal *journal);
	void (*rollback)(struct journal *journal);

	int (*probe)(struct journal *journal); /* writes, to see whether that works */

	/* Each replaces what was there under the same name. */
	int (*put_hold)(struct journal *journal, const struct journal_hold *hold);
	int (*remove_hold)(struct journal *journal, const char *id);
	int (*put_meter)(struct journal *journal, const char *name, uint64_t bytes, uint64_t spent);
	int (*put_call)(struct journal *journal, const struct journal_call *call);
	/* It has a link; what has none is ended in the same transaction. */
	int (*put_run)(struct journal *journal, const char *run_id, uint64_t begun_ms);
	int (*end_run)(struct journal *journal, const char *run_id); /* it has none any more */
	int (*put_revocation)(struct journal *journal, const char *run_id);

	/* What is not there is 0. */
	int (*load_meter)(struct journal *journal, const char *name, uint64_t *ret_bytes,
			  uint64_t *ret_spent);
	int (*load_run)(struct journal *journal, const char *run_id, uint64_t *ret_begun_ms,
			bool *ret_is_of_today); /* ... and today it had no link any more */
	/* 1 when there is one, else 0. */
	int (*load_call)(struct journal *journal, const char *call_id,
			 struct journal_call *ret_call);
	/* All of them, one by one. */
	int (*load_holds)(struct journal *journal,
			  void (*on_hold)(void *owner, const struct journal_hold *hold),
			  void *owner);
	int (*load_revocations)(struct journal *journal,
				void (*on_revoked)(void *owner, const char *run_id), void *owner);
	void (*close)(struct journal *journal);
};

struct journal {
	const struct journal_ops *ops;
	char fault[256]; /* of what failed last */
};

/*
 * In a file, which is made when there is none (mode 0600), and which no other process can have
 * open meanwhile. NULL, and `err` says why, when that cannot be.
 */
struct journal *journal_open_sqlite(const char *path, struct err *err) must_check;

#endif
