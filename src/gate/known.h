/* SPDX-License-Identifier: MIT */
/*
 * Names that the keeper has rules about, for the resolver: which exist where what is not allowed
 * does not. Whether a request is allowed is not decided by this, and not here.
 */
#ifndef GATE_KNOWN_H
#define GATE_KNOWN_H

#include "base/attr.h"
#include "base/bytes.h"
#include "policy/host.h"

#define KNOWN_MAX 1024 /* as many as there are rules */

struct known_host {
	char pattern[HOST_MAX + 1]; /* host.h */
	bool is_known;
};

/* Zeroed, it knows nothing. */
struct known {
	struct known_host hosts[KNOWN_MAX];
	size_t count;
};

/* 0, or -EPROTO: it is no pattern, or there are too many. */
int known_add(struct known *known, struct bytes pattern, bool is_known) must_check;

/* What the most specific pattern of this name says; without one, it is not known. */
bool known_has(const struct known *known, const char *name);

#endif
