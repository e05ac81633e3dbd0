/* SPDX-License-Identifier: MIT */
/*
 * Of what a keeper wants to have news: the runs that are open here, and the meters with a limit
 * of money that those runs have claimed with. For backends that must ask for news.
 */
#ifndef STORE_WATCH_H
#define STORE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

/* Something with a name, in a table. */
struct watch_name {
	struct watch_name *next;
	char *text;
};

struct watch_table {
	struct watch_name **rows;
	size_t row_count, count;
};

/* Zeroed, it is empty. */
struct watch {
	struct watch_table runs, meters;
};

void watch_fini(struct watch *watch);

/* A run may be open more than once, and is watched until it has been closed as often. */
void watch_open(struct watch *watch, const char *run_id);
void watch_close(struct watch *watch, const char *run_id); /* fine with one that is not open */

/* A run claims with this limit; one that is not open here, or no limit, is passed over. */
void watch_claim(struct watch *watch, const char *run_id, const char *meter, uint64_t limit);

/* The same with all limits of a reservation, if it is of money. */
void watch_claims(struct watch *watch, const struct store_reservation *reservation);

/* What was heard: true when it is news, which it is once. */
bool watch_is_revoked(struct watch *watch, const char *run_id);
bool watch_is_spent(struct watch *watch, const char *meter, uint64_t spent);

static inline bool watch_has_runs(const struct watch *watch)
{
	return watch->runs.count > 0;
}

/* The names of the meters, or of the runs; the callee must not change the watch. */
void watch_each_meter(const struct watch *watch, void (*call)(void *owner, const char *meter),
		      void *owner);
void watch_each_run(const struct watch *watch, void (*call)(void *owner, const char *run_id),
		    void *owner);

#endif
