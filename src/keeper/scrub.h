/* SPDX-License-Identifier: MIT */
/*
 * Takes a secret out of what an origin sends back (INV-NO-REFLECTION), while it streams:
 * every occurrence becomes as many asterisks, whatever pieces it comes in. Only bytes that
 * could begin the secret are held back, and only until it is clear that they do not.
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
	size_t held; /* bytes, the first ones of the secret, that have come and not gone on */
};

typedef void scrub_emit(void *owner, struct bytes data);

/* A NULL pattern lets everything through. */
void scrub_push(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes data,
		scrub_emit *emit, void *owner);

/* The end: what was held back was not the secret. */
void scrub_finish(struct scrub *scrub, const struct scrub_pattern *pattern, scrub_emit *emit,
		  void *owner);

/* Whether a text has it. */
bool scrub_is_in(const struct scrub_pattern *pattern, struct bytes text);

#endif
