/* SPDX-License-Identifier: MIT */
/*
 * Finds the cost that an upstream reports in a reply, while it streams (INV-BILLING-TRUTH: nothing
 * is counted here).
 *
 * A reply has much in it that the agent or a model has chosen: a part of the request may be
 * repeated, with names of the agent's own. So the cost is taken from where LiteLLM puts it and from
 * nowhere else: "usage": {"cost": N} of the outermost object, which is the body or, in a stream of
 * events, the data of one event; there also of the object "response", where the Responses API has
 * its usage. The last event that names one counts. What can be read in two ways, as a member that
 * is there twice, is no cost, and neither is that of a reply that was not whole.
 */
#ifndef KEEPER_COST_H
#define KEEPER_COST_H

#include "base/bytes.h"
#include "base/json_walk.h" /* what is nested deeper than that is not known */

#define COST_MAX      24
#define COST_PATH_MAX 3 /* objects on the way to a cost */

/* Zero at the beginning of a reply, but for is_events. */
struct cost {
	bool is_events; /* the body is a stream of events */
	/* In such a stream: */
	unsigned char line; /* enum line of cost.c */
	unsigned char name_len;
	bool was_return; /* the byte before has ended a line, and may be one half of its end */
	/* In the body, or the data of an event: */
	struct json_walk walk;
	unsigned char scopes[COST_PATH_MAX + 1];
	unsigned char member; /* whose value is being read, from 1; or 0 */
	unsigned char seen;   /* the members there were, a bit each */
	bool was_escape;      /* the byte before was a backslash */
	bool is_in_doubt;     /* it can be read in two ways */
	unsigned char len;
	char text[COST_MAX];  /* a key, or a number */
	char named[COST_MAX]; /* the cost in here */
	/* In the whole reply: */
	char found[COST_MAX];
	char last[COST_MAX]; /* what counts; "" when that is not known */
};

void cost_push(struct cost *cost, struct bytes data);

/* The reply was whole: what was found counts. */
void cost_finish(struct cost *cost);

#endif
