/* SPDX-License-Identifier: MIT */
/*
 * Takes a secret out of what an origin sends back (INV-NO-REFLECTION), while it streams:
 * every occurrence becomes as many asterisks, whatever pieces it comes in.
 *
 * What is held back until more comes must not tell anything about the secret: an agent that
 * makes an origin send its guesses, and sees which of them are delayed, would find it byte by
 * byte. So every end of a piece is held back that could be the beginning of any secret at all:
 * letters, digits and the signs that keys are made of, up to the secret's length. An event of a
 * stream ends with none of these, and goes on at once.
 */
#ifndef KEEPER_SCRUB_H
#define KEEPER_SCRUB_H

#include "keeper/secret.h"

/* What is looked for; made once per secret. */
struct scrub_pattern;

struct scrub_pattern *scrub_pattern_new(const struct secret *secret);
void scrub_pattern_free(struct scrub_pattern *pattern);

/* One stream's place in it; zero at its beginning. */
struct scrub {
	char *held; /* bytes that have come and not gone on; or NULL */
	size_t held_len;
};

/* Frees what is held; not needed after scrub_finish. */
void scrub_fini(struct scrub *scrub);

typedef void scrub_emit(void *owner, struct bytes data);

/* A NULL pattern lets everything through. */
void scrub_push(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes data,
		scrub_emit *emit, void *owner);

/* The end: what was held back goes on. */
void scrub_finish(struct scrub *scrub, const struct scrub_pattern *pattern, scrub_emit *emit,
		  void *owner);

/* Whether a text has it. */
bool scrub_is_in(const struct scrub_pattern *pattern, struct bytes text);

#endif
