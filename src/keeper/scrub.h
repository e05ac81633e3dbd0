/* SPDX-License-Identifier: MIT */
/*
 * Takes secrets out of what an origin sends back (INV-NO-REFLECTION), while it streams: every
 * occurrence, in any form that form.h knows, becomes its placeholder in the same form, whatever
 * pieces it comes in. Lengths stay as they are.
 *
 * What is held back until more comes must not tell anything about the secrets: an agent that
 * makes an origin send its guesses, and sees which of them are delayed, would find one byte by
 * byte. So every end of a piece is held back that could be the beginning of any secret at all:
 * letters, digits and the signs that keys are made of, up to the longest form. An event of a
 * stream ends with none of these, and goes on at once.
 */
#ifndef KEEPER_SCRUB_H
#define KEEPER_SCRUB_H

#include "keeper/automaton.h"

#define SCRUB_SECRETS_MAX 64

/* A value that must not be seen, and what is seen instead. */
struct scrub_secret {
	struct bytes value;
	struct bytes
		placeholder; /* empty: asterisks; of another length: cut, or filled with them */
};

/* What is looked for; made once. */
struct scrub_set;

/*
 * The secrets are not needed any more afterwards. No secrets make a set of NULL. 0, -EINVAL (an
 * empty value) or -E2BIG (too many secrets, or too long ones).
 */
int scrub_set_new(const struct scrub_secret *secrets, size_t count,
		  struct scrub_set **ret_set) must_check;
void scrub_set_free(struct scrub_set *set);

/* One stream's place in it; zero at its beginning. */
struct scrub {
	char *held; /* bytes that have come and not gone on; or NULL */
	size_t held_len;
	uint32_t count; /* of what has been taken out */
};

/* Frees what is held; not needed after scrub_finish. */
void scrub_fini(struct scrub *scrub);

typedef void scrub_emit(void *owner, struct bytes data);

/* A NULL set lets everything through. */
void scrub_push(struct scrub *scrub, const struct scrub_set *set, struct bytes data,
		scrub_emit *emit, void *owner);

/* The end: what was held back goes on. */
void scrub_finish(struct scrub *scrub, const struct scrub_set *set, scrub_emit *emit, void *owner);

/* Whether a text has one. */
bool scrub_is_in(const struct scrub_set *set, struct bytes text);

/* Fields of a request that ask for a reply in which nothing could be found: in parts, or encoded
 * as it is not read here. */
bool scrub_is_hindered_by(struct bytes field_name);

/* A whole text: writes as many bytes as it has. Returns whether anything was taken out. */
bool scrub_text(const struct scrub_set *set, struct bytes text, char *ret_text);

#endif
