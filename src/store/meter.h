/* SPDX-License-Identifier: MIT */
/*
 * One meter: what is used and what is held of a run, an account or a host. Pure: the time is passed
 * in, and all of it is whole numbers, so that what is taken and what is given back add up.
 */
#ifndef STORE_METER_H
#define STORE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/limits.h"
#include "store/store.h"

#define METER_MAX            INT64_MAX /* of bytes or money, limit or none; databases can hold it */
#define METER_PLACE_RETRY_MS 1000      /* a guess: nobody knows when an exchange ends */

/* All zeros: nothing has been used. */
struct meter {
	uint64_t bytes, spent;         /* used */
	uint64_t bytes_held, reserved; /* held: it may yet be used */
	uint64_t concurrent;           /* exchanges under way */
	uint64_t missing, counted_ms;  /* parts of requests that the burst lacks; when */
	bool has_no_money;             /* a host's: what is spent is not counted here */
};

/* What was used before it was counted here. */
void meter_load(struct meter *meter, uint64_t bytes, uint64_t spent);

/*
 * Whether one more request may go out, with so many bytes and so much money: GRANTED, or the first
 * limit that says no, and when it might say yes. Takes nothing.
 */
enum store_verdict meter_test(struct meter *meter, const struct limits *limits, uint64_t bytes,
			      uint64_t spend, uint64_t now_ms, uint64_t *ret_retry_ms) must_check;

/* How many bytes there are left beside so many, as far as there is a limit; else UINT64_MAX. */
uint64_t meter_room(const struct meter *meter, const struct limits *limits, uint64_t bytes);

/* Takes it; only right after a test that granted it. */
void meter_hold(struct meter *meter, const struct limits *limits, uint64_t bytes, uint64_t spend);

/* As if it had never been held; what is past its rate comes back, too. */
void meter_undo(struct meter *meter, const struct limits *limits, uint64_t bytes, uint64_t spend);

/* So many bytes more, or less, for what is held. */
void meter_extend(struct meter *meter, uint64_t bytes);
void meter_shrink(struct meter *meter, uint64_t bytes);

/* The exchange is over: its place is free, and so many bytes were used instead of those held. */
void meter_end(struct meter *meter, uint64_t bytes_held, uint64_t bytes);

/* What is held without a place: it was left by another process, or is kept. */
void meter_take_place(struct meter *meter); /* whoever left it is still there */
void meter_restore(struct meter *meter, uint64_t bytes, uint64_t spend);
void meter_release(struct meter *meter, uint64_t bytes,
		   uint64_t spend); /* the bytes may have been used, and count */

/* Money that was reserved is replaced by what was spent. */
void meter_pay(struct meter *meter, uint64_t reserved, uint64_t cost);

/* Something was counted as `counted` and has cost `cost`. */
void meter_correct(struct meter *meter, uint64_t counted, uint64_t cost);

/* Holds nothing, and its burst is full: nothing is lost but what was used. */
bool meter_is_at_rest(struct meter *meter, const struct limits *limits, uint64_t now_ms);

#endif
