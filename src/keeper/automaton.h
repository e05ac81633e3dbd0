/* SPDX-License-Identifier: MIT */
/*
 * Searches a stream for many patterns at once, and puts something else in their place.
 *
 * Of matches that overlap the leftmost counts, and of those the longest. Only bytes that could
 * begin a match are held back, and only until it is clear whether they do; what is held is
 * always the beginning of a pattern, so a stream's whole state is a number. Nothing is allocated
 * after the making.
 */
#ifndef KEEPER_AUTOMATON_H
#define KEEPER_AUTOMATON_H

#include "base/attr.h"
#include "base/bytes.h"

#define AUTOMATON_PATTERNS_MAX 4096
#define AUTOMATON_BYTES_MAX    (4 << 20) /* of all patterns together */

struct pattern {
	struct bytes text;        /* not empty */
	struct bytes replacement; /* of any length */
	unsigned int tag;         /* the owner's */
};

struct automaton;

/*
 * Copies the patterns; of equal ones the first counts. 0, -EINVAL (an empty pattern, or none
 * at all) or -E2BIG (more of them than the limits allow).
 */
int automaton_new(const struct pattern *patterns, size_t count,
		  struct automaton **ret_automaton) must_check;

/* Wipes what it frees. */
void automaton_free(struct automaton *automaton);

/* Whether every replacement is as long as its pattern. */
bool automaton_keeps_length(const struct automaton *automaton);

/* One stream's place in it; zero at its beginning. */
struct matcher {
	uint32_t node; /* of the trie: which bytes are held back */
};

/* What goes on: bytes as they came, or in place of a match (never NULL then) its replacement. */
typedef void automaton_emit(void *owner, struct bytes data, const struct pattern *match);

void automaton_push(const struct automaton *automaton, struct matcher *matcher, struct bytes data,
		    automaton_emit *emit, void *owner);

/* The end: what is held back goes on. The matcher is then at the beginning again. */
void automaton_finish(const struct automaton *automaton, struct matcher *matcher,
		      automaton_emit *emit, void *owner);

/* How many bytes are held back. */
size_t automaton_held(const struct automaton *automaton, const struct matcher *matcher);

/* The first match in a whole text, or NULL. */
const struct pattern *automaton_find(const struct automaton *automaton, struct bytes text);

#endif
