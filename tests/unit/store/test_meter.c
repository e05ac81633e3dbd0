/* SPDX-License-Identifier: MIT */
/* Meters: whole numbers that add up, and a rate that is kept to the millisecond. */
#include "unit.h"

#include <stdlib.h>

#include "base/money.h"
#include "store/meter.h"

static enum store_verdict take(struct meter *meter, struct limits limits, uint64_t bytes,
			       uint64_t spend, uint64_t now_ms, uint64_t *ret_retry_ms)
{
	enum store_verdict verdict = meter_test(meter, &limits, bytes, spend, now_ms, ret_retry_ms);

	if (verdict == STORE_GRANTED)
		meter_hold(meter, &limits, bytes, spend);
	return verdict;
}

/* How many of `asked` pass at a moment. */
static unsigned int pass(struct meter *meter, struct limits limits, unsigned int asked,
			 uint64_t now_ms)
{
	unsigned int passed = 0;
	uint64_t retry_ms;

	while (asked-- > 0)
		passed += take(meter, limits, 0, 0, now_ms, &retry_ms) == STORE_GRANTED;
	return passed;
}

static void a_bucket_is_full_at_first(void **state)
{
	struct meter meter = { 0 };

	(void)state;
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 7 }, 20, 5), 7);
	meter = (struct meter){ 0 };
	assert_int_equal(pass(&meter, (struct limits){ .rate = 5 * LIMITS_PER_SECOND / 2 }, 20, 5),
			 2);
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = 5 * LIMITS_PER_SECOND / 2 }, 20, 205), 1);
	meter = (struct meter){ 0 };
	assert_int_equal(pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND / 1000 }, 20, 5),
			 1);
}

/* A minute's and an hour's, as a second's. */
static const uint64_t rates[] = {
	1000,
	60000,
	7 * LIMITS_PER_SECOND / 60,
	LIMITS_PER_SECOND / 3,
	LIMITS_PER_SECOND,
	3333333,
	7919 * LIMITS_PER_SECOND / 1000,
	999999,
	999 * LIMITS_PER_SECOND,
	5000 * LIMITS_PER_SECOND,
};

/* Asked every millisecond for an hour, a rate of any kind lets through exactly what it says. */
static void nothing_drifts(void **state)
{

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		const struct limits limits = { .rate = rates[i], .burst = 2 };
		struct meter meter = { 0 };
		uint64_t passed = 0, hour_ms = 3600000;

		for (uint64_t now_ms = 1; now_ms <= hour_ms + 1; now_ms++)
			passed += pass(&meter, limits, 1, now_ms);
		if (rates[i] > 1000 * LIMITS_PER_SECOND)
			assert_int_equal(passed, hour_ms + 1); /* as often as it asked */
		else
			assert_in_range(passed, rates[i] / 1000, rates[i] / 1000 + limits.burst);
	}
}

static void what_is_told_to_wait_is_exact(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		const struct limits limits = { .rate = rates[i], .burst = 3 };
		struct meter meter = { 0 };
		uint64_t now_ms = 1000, retry_ms = 0;

		for (int round = 0; round < 50; round++) {
			while (take(&meter, limits, 0, 0, now_ms, &retry_ms) == STORE_GRANTED)
				;
			assert_true(retry_ms > 0);
			if (retry_ms > 1)
				assert_int_equal(take(&meter, limits, 0, 0, now_ms + retry_ms - 1,
						      &(uint64_t){ 0 }),
						 STORE_NO_RATE);
			now_ms += retry_ms;
			assert_int_equal(take(&meter, limits, 0, 0, now_ms, &retry_ms),
					 STORE_GRANTED);
		}
	}
}

static void once_a_minute_is_once_a_minute(void **state)
{
	const struct limits limits = { .rate = LIMITS_PER_SECOND / 60 };
	struct meter meter = { 0 };
	uint64_t retry_ms;

	(void)state;
	for (uint64_t now_ms = 5; now_ms < 600000; now_ms += 60000) {
		assert_int_equal(take(&meter, limits, 0, 0, now_ms, &retry_ms), STORE_GRANTED);
		assert_int_equal(take(&meter, limits, 0, 0, now_ms, &retry_ms), STORE_NO_RATE);
		assert_int_equal(retry_ms, 60000);
		assert_int_equal(take(&meter, limits, 0, 0, now_ms + 59999, &retry_ms),
				 STORE_NO_RATE);
		assert_int_equal(retry_ms, 1);
	}
}

static void a_pause_fills_it_and_no_more(void **state)
{
	const struct limits limits = { .rate = 10 * LIMITS_PER_SECOND, .burst = 5 };
	struct meter meter = { 0 };

	(void)state;
	assert_int_equal(pass(&meter, limits, 100, 1000), 5);
	assert_int_equal(pass(&meter, limits, 100, 1099), 0);
	assert_int_equal(pass(&meter, limits, 100, 1100), 1);
	assert_int_equal(pass(&meter, limits, 100, 1450), 3);
	assert_int_equal(pass(&meter, limits, 100, 1500), 1); /* halves are not lost */
	assert_int_equal(pass(&meter, limits, 100, UINT64_MAX), 5);
	assert_int_equal(pass(&meter, limits, 100, 5),
			 0); /* a clock that goes back gives nothing */
}

static void a_rate_may_be_changed(void **state)
{
	struct meter meter = { 0 };

	(void)state;
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 10 }, 8, 0), 8);
	/* Smaller: what it lacked is more than it has now. */
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 2 }, 8, 0), 0);
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 2 }, 8, 2000), 2);
	/* Larger. */
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 5 }, 8, 2000), 3);
	/* None, and one again. */
	assert_int_equal(pass(&meter, (struct limits){ 0 }, 8, 2000), 8);
	assert_int_equal(
		pass(&meter, (struct limits){ .rate = LIMITS_PER_SECOND, .burst = 5 }, 8, 2000), 0);
}

static void numbers_may_be_huge(void **state)
{
	struct meter meter = { 0 };
	uint64_t retry_ms;

	(void)state;
	assert_int_equal(pass(&meter, (struct limits){ .rate = UINT64_MAX }, 9, 1), 9);
	assert_int_equal(
		pass(&meter,
		     (struct limits){ .rate = LIMITS_PER_SECOND / 1000, .burst = UINT64_MAX }, 9,
		     2),
		9);
	meter = (struct meter){ 0 };
	assert_int_equal(
		take(&meter, (struct limits){ .bytes = UINT64_MAX }, UINT64_MAX, 0, 1, &retry_ms),
		STORE_NO_BYTES);
	assert_int_equal(
		take(&meter, (struct limits){ .spend = UINT64_MAX }, 0, UINT64_MAX, 1, &retry_ms),
		STORE_NO_MONEY);
	assert_int_equal(take(&meter, (struct limits){ 0 }, METER_MAX, METER_MAX, 1, &retry_ms),
			 STORE_GRANTED);
	assert_int_equal(take(&meter, (struct limits){ .bytes = UINT64_MAX }, 1, 0, 1, &retry_ms),
			 STORE_NO_BYTES);
	/* Where there is no limit there is no end. */
	assert_int_equal(take(&meter, (struct limits){ 0 }, UINT64_MAX, 1, 1, &retry_ms),
			 STORE_GRANTED);
	assert_int_equal(meter.bytes_held, METER_MAX);
	assert_int_equal(meter.reserved, METER_MAX);
	meter_end(&meter, UINT64_MAX, 0);
	meter_release(&meter, 0, 1);
	meter_end(&meter, METER_MAX, UINT64_MAX);
	meter_pay(&meter, METER_MAX, UINT64_MAX);
	assert_int_equal(meter.bytes, METER_MAX);
	assert_int_equal(meter.spent, METER_MAX);
	meter_correct(&meter, UINT64_MAX, 0);
	assert_int_equal(meter.spent, 0);
}

static void limits_are_reached_and_not_passed(void **state)
{
	const struct limits limits = { .bytes = 100, .spend = 50 };
	struct meter meter = { 0 };
	uint64_t retry_ms = 9;

	(void)state;
	assert_int_equal(take(&meter, limits, 101, 0, 1, &retry_ms), STORE_NO_BYTES);
	assert_int_equal(retry_ms, 0);
	assert_int_equal(take(&meter, limits, 100, 0, 1, &retry_ms), STORE_GRANTED);
	assert_int_equal(take(&meter, limits, 1, 0, 1, &retry_ms), STORE_NO_BYTES);
	assert_int_equal(take(&meter, limits, 0, 51, 1, &retry_ms), STORE_NO_MONEY);
	assert_int_equal(retry_ms, 0);
	assert_int_equal(take(&meter, limits, 0, 50, 1, &retry_ms), STORE_GRANTED);
	assert_int_equal(take(&meter, limits, 0, 0, 1, &retry_ms), STORE_GRANTED);
	assert_int_equal(take(&meter, limits, 0, 1, 1, &retry_ms), STORE_NO_MONEY);
}

static void what_is_undone_never_was(void **state)
{
	const struct limits limits = {
		.rate = LIMITS_PER_SECOND, .burst = 3, .concurrent = 5, .bytes = 1000, .spend = 1000
	};
	struct meter meter = { 0 }, before;
	uint64_t retry_ms;

	(void)state;
	assert_int_equal(take(&meter, limits, 10, 20, 7, &retry_ms), STORE_GRANTED);
	before = meter;
	assert_int_equal(take(&meter, limits, 10, 20, 7, &retry_ms), STORE_GRANTED);
	meter_undo(&meter, &limits, 10, 20);
	assert_memory_equal(&meter, &before, sizeof(meter));
}

/* Whatever the order, in the end there is what was used and nothing is held. */
static void what_is_held_and_settled_adds_up(void **state)
{
	struct {
		uint64_t bytes, spend;
		bool is_held;
	} holds[50] = { 0 };
	uint64_t bytes = 0, spent = 0, held = 0, reserved = 0, places = 0, retry_ms;
	struct meter meter = { 0 };

	(void)state;
	srand(3);
	for (int i = 0; i < 100000; i++) {
		size_t at = (size_t)rand() % ARRAY_LEN(holds);
		uint64_t used = (uint64_t)rand() % 1000, cost = (uint64_t)rand();

		if (!holds[at].is_held) {
			holds[at].bytes = used;
			holds[at].spend = cost;
			holds[at].is_held = true;
			assert_int_equal(
				take(&meter, (struct limits){ 0 }, used, cost, 0, &retry_ms),
				STORE_GRANTED);
			held += used;
			reserved += cost;
			places++;
		} else {
			meter_end(&meter, holds[at].bytes, used);
			meter_pay(&meter, holds[at].spend, cost);
			holds[at].is_held = false;
			held -= holds[at].bytes;
			reserved -= holds[at].spend;
			places--;
			bytes += used;
			spent += cost;
		}
		assert_int_equal(meter.bytes, bytes);
		assert_int_equal(meter.spent, spent);
		assert_int_equal(meter.bytes_held, held);
		assert_int_equal(meter.reserved, reserved);
		assert_int_equal(meter.concurrent, places);
	}
}

static void a_meter_comes_to_rest(void **state)
{
	const struct limits limits = { .rate = LIMITS_PER_SECOND, .burst = 2 };
	struct meter meter = { 0 };
	uint64_t retry_ms;

	(void)state;
	assert_true(meter_is_at_rest(&meter, &limits, 0));
	assert_int_equal(take(&meter, limits, 1, 1, 5, &retry_ms), STORE_GRANTED);
	assert_false(meter_is_at_rest(&meter, &limits, 5000));
	meter_end(&meter, 1, 1);
	assert_false(meter_is_at_rest(&meter, &limits, 5000));
	meter_pay(&meter, 1, 1);
	assert_true(meter_is_at_rest(&meter, &limits, 5000));
	assert_int_equal(take(&meter, limits, 0, 0, 5000, &retry_ms), STORE_GRANTED);
	meter_end(&meter, 0, 0);
	assert_false(meter_is_at_rest(&meter, &limits, 5999));
	assert_true(meter_is_at_rest(&meter, &limits, 6000));
}

int main(void)
{
	RUN_TESTS(TEST(a_bucket_is_full_at_first), TEST(nothing_drifts),
		  TEST(what_is_told_to_wait_is_exact), TEST(once_a_minute_is_once_a_minute),
		  TEST(a_pause_fills_it_and_no_more), TEST(a_rate_may_be_changed),
		  TEST(numbers_may_be_huge), TEST(limits_are_reached_and_not_passed),
		  TEST(what_is_undone_never_was), TEST(what_is_held_and_settled_adds_up),
		  TEST(a_meter_comes_to_rest));
}
