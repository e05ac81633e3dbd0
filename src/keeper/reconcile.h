/* SPDX-License-Identifier: MIT */
/*
 * Two lists of calls, ours from the audit log and theirs from LiteLLM's spend log, laid side by
 * side: a pure comparison, by the ids of the calls. Theirs is the truth about money
 * (INV-BILLING-TRUTH); that both have the same calls is what is to be shown.
 */
#ifndef KEEPER_RECONCILE_H
#define KEEPER_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define RECONCILE_CALLS_MAX 1000000 /* of each side */

enum reconcile_verdict {
	RECONCILE_SAME,       /* both have it, at the same cost */
	RECONCILE_SETTLED,    /* both have it; what it cost only they know, as of most streams */
	RECONCILE_RETRY,      /* another row of theirs for a call, that cost nothing */
	RECONCILE_NOT_BILLED, /* of ours, answered with an error; they have none */
	RECONCILE_NO_ID,      /* of ours, without an id and a cost: it cannot be looked for */
	/* From here on it is a difference. */
	RECONCILE_COST,        /* both have it, at different costs */
	RECONCILE_WHOSE,       /* both have it; theirs is somebody else's */
	RECONCILE_ONLY_OURS,   /* they do not have it */
	RECONCILE_ONLY_THEIRS, /* made behind warder's back, or struck out of the audit log */
	RECONCILE_TWICE,       /* an id that one side has had before */
	RECONCILE_VERDICTS,
};

static inline bool reconcile_is_difference(enum reconcile_verdict verdict)
{
	return verdict >= RECONCILE_COST;
}

/* One call as one side has it. Texts may be "". */
struct reconcile_call {
	const char *id;       /* the call id */
	const char *other_id; /* theirs: the row's own, which may be the one that we know */
	const char *whose;    /* "RUN/ATTEMPT"; theirs: or what it has instead */
	const char *end_user; /* who LiteLLM was told it is: that, or a billing account; or "" */
	const char *model;
	uint64_t time_ms; /* when it began; 0: nobody knows */
	bool has_cost;
	uint64_t cost;
	int status; /* ours: what the agent got; 0: nothing */
	/*
	 * Within what is asked about. Of calls at its edge one side may lie outside; such a call
	 * counts for its partner, and not for itself.
	 */
	bool is_inside;
};

/* What is shown: a pair, or one that has no partner. */
struct reconcile_line {
	enum reconcile_verdict verdict;
	const struct reconcile_call *ours, *theirs; /* one of them may be NULL */
};

struct reconcile_side {
	uint64_t count, cost;
	uint64_t unknown_count; /* of ours: without a cost */
};

struct reconcile_result {
	const struct reconcile_line *lines; /* by time */
	size_t line_count;
	struct reconcile_side ours, theirs; /* of the calls that are shown */
	uint64_t counts[RECONCILE_VERDICTS];
	uint64_t differences;
};

struct reconcile;

struct reconcile *reconcile_new(void);
void reconcile_free(struct reconcile *reconcile);

/* Both copy the call. 0, or -E2BIG when there are too many. */
int reconcile_add_ours(struct reconcile *reconcile, const struct reconcile_call *call) must_check;
int reconcile_add_theirs(struct reconcile *reconcile, const struct reconcile_call *call) must_check;

/*
 * Of ours, that it was to be made, by the id that it was given: it may be among ours as well, or
 * under way, or have been lost with its keeper. It counts for a row that has no other partner.
 */
int reconcile_add_decided(struct reconcile *reconcile,
			  const struct reconcile_call *call) must_check;

/* Once everything was added. The result lives as long as `reconcile`. */
const struct reconcile_result *reconcile_compare(struct reconcile *reconcile);

/*
 * Or theirs alone, once all were added, each with its id: every call once, by the row that counts
 * for it. Returns how many there are then.
 */
size_t reconcile_gather(struct reconcile *reconcile);
const struct reconcile_call *reconcile_get(const struct reconcile *reconcile, size_t i);

/* A word for programs, and what it means. */
const char *reconcile_word(enum reconcile_verdict verdict);
const char *reconcile_text(enum reconcile_verdict verdict);

#endif
