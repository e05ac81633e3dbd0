/* SPDX-License-Identifier: MIT */
/*
 * The terms that a run works under: a charter, the placeholders that this run has for its
 * secrets, and the connections that were made for it. No two runs share a connection: what one
 * of them leaves on it cannot reach another.
 *
 * A reload gives a run new terms. Requests under way keep those they were decided by.
 */
#ifndef KEEPER_TERMS_H
#define KEEPER_TERMS_H

#include "keeper/charter.h"
#include "keeper/scrub.h"
#include "keeper/substitute.h"
#include "keeper/upstream.h"

struct terms {
	unsigned int use_count;
	struct charter *charter;
	struct arena arena;                 /* of these: */
	const char **placeholders;          /* in the vault's order */
	struct substitute_set *substitutes; /* placeholder to value, on the way out */
	struct scrub_set *scrubs; /* values to placeholders, on the way back; or the charter's */
	struct upstream *llms;    /* as many as the configuration has */
	struct upstream *hosts;   /* that have been reached */
};

/*
 * Takes a use of the charter. Secrets that `earlier` (or NULL) has under the same name keep their
 * placeholder: it is what the agent knows. The caller has the first use.
 */
int terms_new(struct charter *charter, const struct terms *earlier, struct terms **ret_terms,
	      struct err *err) must_check;

struct terms *terms_ref(struct terms *terms);
void terms_unref(struct terms *terms); /* NULL is fine */

/* There are newer ones: no connection is kept for another request. */
void terms_end(struct terms *terms);

#endif
