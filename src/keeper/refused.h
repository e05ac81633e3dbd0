/* SPDX-License-Identifier: MIT */
/*
 * Links that are not opened: each is on record like a request that was refused, and who asked for
 * it hears of it when that is written, at the end of the turn.
 *
 * INV-BOUNDED: anybody can ask, as often as he likes. Of those who have proven to be somebody, and
 * of those who have not, only so many a second are recorded one by one for each reason; of the rest
 * it is recorded how many they were, when the second is over.
 */
#ifndef KEEPER_REFUSED_H
#define KEEPER_REFUSED_H

#include "event/loop.h"
#include "keeper/metrics.h"
#include "keeper/refusal.h"

#define REFUSED_RUNS_MAX      200 /* records in a second, for a reason */
#define REFUSED_STRANGERS_MAX 20  /* the same of callers whom nothing vouches for */

struct keeper;

/* Somebody who waits for the word. */
struct refused_caller {
	struct refused_caller *next, **at; /* `at` is NULL while it does not wait */
	void (*tell)(struct refused_caller *caller, uint64_t now_ms);
};

/* A keeper's. */
struct refused {
	struct refused_caller *callers;
	struct loop_timer second; /* set while one is counted */
	uint64_t counts[METRICS_CODE_COUNT], unrecorded[METRICS_CODE_COUNT]; /* by enum refusal */
};

struct refused_link {
	const char *run_id; /* whose it would be, where that is proven; else NULL */
	uint32_t attempt;
	const char *from; /* "" or NULL: here */
	enum refusal refusal;
};

void refused_init(struct refused *refused);
void refused_record(struct keeper *keeper, const struct refused_link *link);

/* `tell` is called when what was recorded is written, or cannot be. */
void refused_tell_later(struct keeper *keeper, struct refused_caller *caller);
/* It is not called any more. Fine for one who does not wait. */
void refused_forget(struct refused_caller *caller);

/* Everything is written, as far as it can be. */
void refused_tell_all(struct keeper *keeper, uint64_t now_ms);

/* The last second is over, for there will be no other. */
void refused_finish(struct keeper *keeper);

#endif
