/* SPDX-License-Identifier: MIT */
/*
 * Meters.
 *
 * The rate is a bucket of tokens, kept by what it lacks: a new one lacks nothing, whatever its
 * size, and a limit that is changed needs no conversion. A token is so many parts that a rate in
 * thousandths per hour is a whole number of parts per millisecond.
 */
#include "store/meter.h"

#include <assert.h>

#define SECOND_MS    1000
#define TOKEN        (SECOND_MS * LIMITS_PER_SECOND)
#define CAPACITY_MAX (UINT64_MAX / 4)

/* How much it holds when it is full. */
static uint64_t capacity_of(const struct limits *limits)
{
	uint64_t capacity;
	bool is_huge = limits->burst > 0
			       ? __builtin_mul_overflow(limits->burst, TOKEN, &capacity)
			       : __builtin_mul_overflow(limits->rate, SECOND_MS, &capacity);

	if (is_huge || capacity > CAPACITY_MAX)
		return CAPACITY_MAX;
	return capacity < TOKEN ? TOKEN : capacity;
}

/* What has come in since it was last looked at. */
static void refill(struct meter *meter, const struct limits *limits, uint64_t now_ms)
{
	uint64_t passed_ms = now_ms > meter->counted_ms ? now_ms - meter->counted_ms : 0;
	uint64_t capacity = capacity_of(limits), come;

	if (meter->missing > capacity) /* it was larger before */
		meter->missing = capacity;
	if (__builtin_mul_overflow(passed_ms, limits->rate, &come) || come > meter->missing)
		come = meter->missing;
	meter->missing -= come;
	meter->counted_ms += passed_ms;
}

static bool has_token(struct meter *meter, const struct limits *limits, uint64_t now_ms,
		      uint64_t *ret_retry_ms)
{
	uint64_t capacity = capacity_of(limits), lacking;

	if (limits->rate == 0)
		return true;
	refill(meter, limits, now_ms);
	if (meter->missing + TOKEN <= capacity)
		return true;
	lacking = meter->missing + TOKEN - capacity;
	*ret_retry_ms = (lacking + limits->rate - 1) / limits->rate;
	return false;
}

/* Not past what can be held. Only what has no limit comes there, and of that it does not matter. */
static void add(uint64_t *sum, uint64_t amount)
{
	if (__builtin_add_overflow(*sum, amount, sum) || *sum > METER_MAX)
		*sum = METER_MAX;
}

static void add_money(const struct meter *meter, uint64_t *sum, uint64_t amount)
{
	if (!meter->has_no_money)
		add(sum, amount);
}

void meter_load(struct meter *meter, uint64_t bytes, uint64_t spent)
{
	add(&meter->bytes, bytes);
	add(&meter->spent, spent);
}

uint64_t meter_room(const struct meter *meter, const struct limits *limits, uint64_t bytes)
{
	uint64_t limit = limits->bytes < METER_MAX ? limits->bytes : METER_MAX, used;

	if (limit == 0)
		return UINT64_MAX;
	if (__builtin_add_overflow(meter->bytes + meter->bytes_held, bytes, &used) || used > limit)
		return 0;
	return limit - used;
}

static bool has_left(uint64_t limit, uint64_t used, uint64_t held, uint64_t asked)
{
	uint64_t sum;

	if (limit == 0)
		return true;
	if (limit > METER_MAX)
		limit = METER_MAX;
	return !__builtin_add_overflow(used, held, &sum) &&
	       !__builtin_add_overflow(sum, asked, &sum) && sum <= limit;
}

enum store_verdict meter_test(struct meter *meter, const struct limits *limits, uint64_t bytes,
			      uint64_t spend, uint64_t now_ms, uint64_t *ret_retry_ms)
{
	*ret_retry_ms = 0; /* what is used up for ever does not come back by waiting */
	if (!has_left(limits->bytes, meter->bytes, meter->bytes_held, bytes))
		return STORE_NO_BYTES;
	if (!has_left(limits->spend, meter->spent, meter->reserved, spend))
		return STORE_NO_MONEY;
	if (!has_token(meter, limits, now_ms, ret_retry_ms))
		return STORE_NO_RATE;
	if (limits->concurrent > 0 && meter->concurrent >= limits->concurrent) {
		*ret_retry_ms = METER_PLACE_RETRY_MS;
		return STORE_NO_PLACE;
	}
	return STORE_GRANTED;
}

void meter_hold(struct meter *meter, const struct limits *limits, uint64_t bytes, uint64_t spend)
{
	meter->concurrent++;
	add(&meter->bytes_held, bytes);
	add_money(meter, &meter->reserved, spend);
	if (limits->rate > 0)
		meter->missing += TOKEN;
}

/* Of what was added; of which less may have been counted, see there. */
static void drop(uint64_t *held, uint64_t amount)
{
	*held -= amount < *held ? amount : *held;
}

static void leave_place(struct meter *meter)
{
	assert(meter->concurrent > 0);
	meter->concurrent--;
}

void meter_undo(struct meter *meter, const struct limits *limits, uint64_t bytes, uint64_t spend)
{
	leave_place(meter);
	drop(&meter->bytes_held, bytes);
	drop(&meter->reserved, spend);
	if (limits->rate > 0)
		meter->missing -= meter->missing < TOKEN ? meter->missing : TOKEN;
}

void meter_extend(struct meter *meter, uint64_t bytes)
{
	add(&meter->bytes_held, bytes);
}

void meter_shrink(struct meter *meter, uint64_t bytes)
{
	drop(&meter->bytes_held, bytes);
}

void meter_end(struct meter *meter, uint64_t bytes_held, uint64_t bytes)
{
	leave_place(meter);
	drop(&meter->bytes_held, bytes_held);
	add(&meter->bytes, bytes);
}

void meter_take_place(struct meter *meter)
{
	meter->concurrent++;
}

void meter_restore(struct meter *meter, uint64_t bytes, uint64_t spend)
{
	add(&meter->bytes_held, bytes);
	add_money(meter, &meter->reserved, spend);
}

void meter_release(struct meter *meter, uint64_t bytes, uint64_t spend)
{
	drop(&meter->bytes_held, bytes);
	add(&meter->bytes, bytes);
	drop(&meter->reserved, spend);
}

void meter_pay(struct meter *meter, uint64_t reserved, uint64_t cost)
{
	drop(&meter->reserved, reserved);
	add_money(meter, &meter->spent, cost);
}

void meter_correct(struct meter *meter, uint64_t counted, uint64_t cost)
{
	if (cost >= counted)
		add_money(meter, &meter->spent, cost - counted);
	else
		drop(&meter->spent, counted - cost);
}

bool meter_is_at_rest(struct meter *meter, const struct limits *limits, uint64_t now_ms)
{
	if (meter->concurrent > 0 || meter->bytes_held > 0 || meter->reserved > 0)
		return false;
	if (limits->rate > 0)
		refill(meter, limits, now_ms);
	return limits->rate == 0 || meter->missing == 0;
}
