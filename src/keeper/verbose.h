/* SPDX-License-Identifier: MIT */
/* With -v: a line for each request as it ends, in the keeper's log or on standard error. */
#ifndef KEEPER_VERBOSE_H
#define KEEPER_VERBOSE_H

#include "keeper/exchange.h"

/* Keeps what the line will say. */
void verbose_open(struct exchange *exchange, const struct link_open *open);

/* `ended` is "complete", or what became of it instead; `detail` (or NULL) is for the operator. */
void verbose_outcome(const struct exchange *exchange, const char *ended, const char *detail,
		     uint64_t now_ms);

/* A line for what the gate has refused by itself. */
void verbose_refused(const struct peer *peer, const struct link_refused *refused);

#endif
