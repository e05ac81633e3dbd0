/* SPDX-License-Identifier: MIT */
/*
 * Finds the cost that an upstream reports in a reply, while it streams: the number after the
 * last key "cost". A quote within a JSON string is escaped, so the key cannot be part of what
 * a model said. Nothing is counted here (INV-BILLING-TRUTH).
 */
#ifndef KEEPER_COST_H
#define KEEPER_COST_H

#include "base/bytes.h"

#define COST_MAX 24

/* Zero at the beginning of a reply. */
struct cost {
	unsigned char matched; /* bytes of the key, and then 7: its number is being read */
	unsigned char len;
	bool was_escape; /* the byte before was a backslash */
	char text[COST_MAX];
	char last[COST_MAX]; /* the last whole number; empty when there was none */
};

void cost_push(struct cost *cost, struct bytes data);

#endif
