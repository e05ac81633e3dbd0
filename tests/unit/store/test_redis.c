/* SPDX-License-Identifier: MIT */
/* The store in Redis, against a real one: the contract of all stores, and what is its own. */
#include "store/conformance.h"

#include "unit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/money.h"
#include "store/logs.h"
#include "store/redis.h"
#include "store/redis_ask.h"
#include "store/redis_server.h"
#include "store/redis_url.h"
#include "store/watch.h"

#define BIG ((UINT64_C(1) << 53) + 1) /* the first whole number that a double has not */

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	redis_server_ask(&server, WORDS("FLUSHALL"), (char[8]){ 0 }, 8);
	store = connect_store(ALIVE_MS);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	store->ops->close(store);
	loop_fini(&loop);
	return 0;
}

/* ---- URLs ---- */

static void a_url_says_where_and_who(void **state)
{
	static const struct {
		const char *text, *path, *host;
		uint16_t port;
		uint32_t database;
		const char *user, *password;
	} rows[] = {
		{ "redis://db.test", "", "db.test", 6379, 0, "", "" },
		{ "redis://db.test/", "", "db.test", 6379, 0, "", "" },
		{ "redis://db.test:7000/12", "", "db.test", 7000, 12, "", "" },
		{ "redis://[::1]:7000", "", "::1", 7000, 0, "", "" },
		{ "redis://:p%40ss@127.0.0.1", "", "127.0.0.1", 6379, 0, "", "p@ss" },
		{ "redis://me:a:b@h/1", "", "h", 6379, 1, "me", "a:b" },
		{ "unix:///run/redis.sock", "/run/redis.sock", "", 0, 0, "", "" },
		{ "redis+unix:///r/s?db=3", "/r/s", "", 0, 3, "", "" },
		{ "unix://me:pw@/r/s", "/r/s", "", 0, 0, "me", "pw" },
	};
	struct redis_url url;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(redis_url_parse(rows[i].text, &url, NULL), 0);
		assert_string_equal(url.path, rows[i].path);
		assert_string_equal(url.host, rows[i].host);
		assert_int_equal(url.port, rows[i].port);
		assert_int_equal(url.database, rows[i].database);
		assert_string_equal(url.user, rows[i].user);
		assert_string_equal(url.password, rows[i].password);
	}
}

static void a_wrong_url_is_refused_and_not_shown(void **state)
{
	static const char *const rows[] = {
		"",
		"redis:",
		"redis://",
		"http://h",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:",
		"redis://h:x",
		"redis://h/x",
		"redis://h/1/2",
		"redis://h?db=1",
		"redis://a b",
		"redis://[::1",
		"redis://[::1]x",
		"redis://hunter2@h",
		"redis://me:@h",
		"redis://me:hunter2%zz@h",
		"redis://me:hunter2%00@h",
		"redis://me:hunter2@",
		"rediss://me:hunter2@h",
		"unix://host/path",
		"unix://",
		"unix:///",
		"unix:///r?db=x",
		"unix:///r?hunter2",
	};
	struct redis_url url;
	char text[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = { 0 };

		assert_true(redis_url_parse(rows[i], &url, &err) < 0);
		assert_null(strstr(err.text, "hunter2"));
		assert_non_null(strstr(err.text, "redis://"));
		assert_null(store_redis_new(&loop, rows[i], &err));
	}
	snprintf(text, sizeof(text), "unix:///%0300d", 1); /* longer than a socket's name */
	assert_true(redis_url_parse(text, &url, NULL) < 0);
}

/* ---- what is watched ---- */

static void count_meter(void *owner, const char *meter)
{
	(void)meter;
	(*(size_t *)owner)++;
}

static void a_meter_is_watched_while_a_run_counts_on_it(void **state)
{
	struct watch watch = { 0 };
	char name[32];
	size_t count = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		watch_open(&watch, name);
		watch_claim(&watch, name, name, 100);
		watch_claim(&watch, name, "shared", 100);
		watch_claim(&watch, name, "without a limit", 0);
	}
	watch_claim(&watch, "not open", "other", 100);
	watch_each_meter(&watch, count_meter, &count);
	assert_int_equal(count, 1001);
	assert_false(watch_is_spent(&watch, "shared", 99));
	assert_true(watch_is_spent(&watch, "shared", 100));
	assert_false(watch_is_spent(&watch, "shared", 200)); /* told already */
	watch_claim(&watch, "r1", "shared", 300);
	assert_false(watch_is_spent(&watch, "shared", 200));
	assert_true(watch_is_spent(&watch, "shared", 300));
	assert_true(watch_is_revoked(&watch, "r7"));
	assert_false(watch_is_revoked(&watch, "r7"));
	assert_false(watch_is_revoked(&watch, "not open"));
	for (int i = 0; i < 999; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		watch_close(&watch, name);
	}
	count = 0;
	watch_each_meter(&watch, count_meter, &count);
	assert_int_equal(count, 2);
	watch_close(&watch, "r999");
	assert_false(watch_has_runs(&watch));
	assert_false(watch_is_spent(&watch, "shared", 300));
	watch_fini(&watch);
}

/* At several gates, or with a link as well: until the last of them has left. */
static void a_run_is_watched_as_long_as_anybody_has_it(void **state)
{
	struct watch watch = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++)
		watch_open(&watch, "r1");
	watch_claim(&watch, "r1", "run:r1", 100);
	for (int i = 0; i < 2; i++)
		watch_close(&watch, "r1");
	assert_true(watch_is_spent(&watch, "run:r1", 100));
	assert_true(watch_is_revoked(&watch, "r1"));
	watch_close(&watch, "r1");
	assert_false(watch_has_runs(&watch));
	assert_false(watch_is_spent(&watch, "run:r1", 200));
	watch_close(&watch, "r1");
	watch_open(&watch, "r1"); /* it is another one, of which nothing was told */
	assert_true(watch_is_revoked(&watch, "r1"));
	watch_fini(&watch);
}

/* ---- amounts ---- */

/* To a billionth, where doubles are off by hundreds of them. */
static void amounts_beyond_doubles_are_exact(void **state)
{
	const struct limits limits = { .bytes = BIG * 3, .spend = MONEY_MAX };
	struct ask asks[4];

	(void)state;
	assert_true((double)BIG == (double)(BIG - 1)); /* the control */
	assert_int_equal(take(&asks[0], "m", limits, BIG, BIG), STORE_GRANTED);
	assert_int_equal(take(&asks[1], "m", limits, BIG, MONEY_MAX - BIG), STORE_GRANTED);
	assert_int_equal(read_meter("m").bytes, 2 * BIG);
	assert_int_equal(read_meter("m").reserved, MONEY_MAX);
	assert_int_equal(take(&asks[2], "m", limits, 0, 1), STORE_NO_MONEY);
	assert_int_equal(take(&asks[2], "m", limits, BIG + 1, 0), STORE_NO_BYTES);
	assert_int_equal(take(&asks[2], "m", limits, BIG, 0), STORE_GRANTED);
	settle(&asks[1], 1, true, MONEY_MAX - BIG - 1);
	assert_int_equal(read_meter("m").spent, MONEY_MAX - BIG - 1);
	assert_int_equal(read_meter("m").reserved, BIG);
	assert_int_equal(read_meter("m").bytes, 2 * BIG + 1);
	assert_int_equal(take(&asks[3], "m", limits, 0, 2), STORE_NO_MONEY);
	assert_int_equal(take(&asks[3], "m", limits, 0, 1), STORE_GRANTED);
}

/* Digits that begin with zeros, carries, borrows: against the arithmetic of C. */
static void sums_are_those_of_c(void **state)
{
	static const uint64_t rows[] = {
		1,
		999999999,
		1000000000,
		1000000001,
		1999999999,
		123000000000,
		123000000456,
		999999999999999999,
		1000000000000000000,
		BIG,
		BIG - 2,
	};
	uint64_t spent = 0, reserved = 0;
	struct ask asks[ARRAY_LEN(rows)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(take(&asks[i], "m", (struct limits){ 0 }, 0, rows[i]),
				 STORE_GRANTED);
		reserved += rows[i];
		assert_int_equal(read_meter("m").reserved, reserved);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		settle(&asks[i], 0, true, rows[ARRAY_LEN(rows) - 1 - i]);
		reserved -= rows[i];
		spent += rows[ARRAY_LEN(rows) - 1 - i];
		assert_int_equal(read_meter("m").reserved, reserved);
		assert_int_equal(read_meter("m").spent, spent);
	}
}

static void nothing_is_counted_past_the_end(void **state)
{
	struct ask asks[3];

	(void)state;
	assert_int_equal(take(&asks[0], "m", (struct limits){ .bytes = UINT64_MAX }, UINT64_MAX, 0),
			 STORE_NO_BYTES);
	assert_int_equal(take(&asks[0], "m", (struct limits){ 0 }, INT64_MAX, 1), STORE_GRANTED);
	assert_int_equal(take(&asks[1], "m", (struct limits){ .bytes = UINT64_MAX }, 1, 0),
			 STORE_NO_BYTES);
	settle(&asks[0], UINT64_MAX, true, UINT64_MAX);
	assert_int_equal(read_meter("m").bytes, INT64_MAX);
	assert_int_equal(read_meter("m").spent, INT64_MAX);
}

/* Of "m", as if it had been taken then. */
static void take_token_at(uint64_t ms)
{
	char bucket[64], text[64];

	snprintf(bucket, sizeof(bucket), "1 %" PRIu64, ms * 1000);
	redis_server_ask(&server, WORDS("SET", "warder:rate:m", bucket, "EX", "7200"), text,
			 sizeof(text));
}

static void who_waits_for_a_minute_is_served_once_a_minute(void **state)
{
	const struct limits limits = { .rate = LIMITS_PER_SECOND / 60 };
	uint64_t now_ms = clock_ms(CLOCK_REALTIME);
	struct ask ask;

	(void)state;
	take_token_at(now_ms - 30000);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_NO_RATE);
	assert_in_range(ask.reservation.retry_ms, 1, 30000);
	take_token_at(now_ms - 60000);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_GRANTED);
}

/* The bucket is as empty as it was, and fills again from now on. */
static void a_clock_that_steps_back_costs_no_more_than_the_rate(void **state)
{
	const struct limits limits = { .rate = 10 * LIMITS_PER_SECOND, .burst = 1 };
	struct ask ask;

	(void)state;
	/* As it would look to a clock that was put back by an hour. */
	take_token_at(clock_ms(CLOCK_REALTIME) + 3600000);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_NO_RATE);
	assert_in_range(ask.reservation.retry_ms, 1, 100);
	turn_until(NULL, ask.reservation.retry_ms);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_GRANTED);
}

/* ---- what is left in Redis ---- */

static uint64_t count_keys(const struct ask *ask)
{
	char hold[128], holds[128];

	snprintf(hold, sizeof(hold), "warder:hold:%s", ask->reservation.id);
	snprintf(holds, sizeof(holds), "warder:holds:%s", store->keeper_id);
	return redis_server_ask_number(&server, WORDS("EXISTS", "warder:meter:m", "warder:rate:m",
						      "warder:places:m", hold, holds));
}

static void what_is_nothing_leaves_nothing(void **state)
{
	const struct limits limits = {
		.rate = LIMITS_PER_SECOND, .burst = 2, .concurrent = 5, .bytes = 10, .spend = 10
	};
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, "m", limits, 5, 5), STORE_GRANTED);
	assert_int_equal(count_keys(&ask), 5);
	settle(&ask, 0, true, 0);
	turn_until(NULL, 1100); /* the bucket is full after a second */
	assert_int_equal(count_keys(&ask), 0);
}

static void money_does_not_expire_and_calls_do(void **state)
{
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, "m", (struct limits){ 0 }, 0, 5), STORE_GRANTED);
	store->ops->settle(store,
			   &(struct store_settlement){ .id = ask.reservation.id,
						       .is_cost_known = true,
						       .cost = 5,
						       .call_id = "c1" },
			   clock_now_ms());
	assert_int_equal(read_meter("m").spent, 5);
	assert_int_equal(redis_server_ask_number(&server, WORDS("TTL", "warder:meter:m")),
			 (uint64_t)-1);
	assert_in_range(redis_server_ask_number(&server, WORDS("TTL", "warder:call:c1")),
			30 * 86400 - 5, 30 * 86400);
}

/* What is known of a run, and how long: its beginning and its meter. */
static void expect_ttl(const char *run_id, uint64_t least, uint64_t most)
{
	static const char *const kinds[] = { "run", "meter:run" };
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		snprintf(name, sizeof(name), "warder:%s:%s", kinds[i], run_id);
		assert_in_range(redis_server_ask_number(&server, WORDS("TTL", name)), least, most);
	}
}

static void use_run(const char *run_id, bool is_cost_known)
{
	char meter[64];
	struct ask ask;

	snprintf(meter, sizeof(meter), "run:%s", run_id);
	assert_int_equal(take(&ask, meter, (struct limits){ 0 }, 0, 5), STORE_GRANTED);
	settle(&ask, 0, is_cost_known, 5);
	read_meter(meter); /* it is settled */
}

static void runs_that_are_over_expire_with_their_meters(void **state)
{
	const uint64_t all_s = STORE_RUN_DAYS * 86400, never = (uint64_t)-1;
	static const char *const names[] = { "over", "held", "linked" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(open_run(names[i]), STORE_GRANTED);
		use_run(names[i], true);
		expect_ttl(names[i], never, never);
		if (i < 2)
			store->ops->close_run(store, names[i], clock_now_ms());
	}
	use_run("held", false);
	expect_ttl("over", all_s - 60, all_s);
	expect_ttl("held", never, never);
	expect_ttl("linked", never, never);
	/* Whatever is used is young again: by its meter, and by its link. */
	redis_server_ask_number(&server, WORDS("EXPIRE", "warder:run:over", "100"));
	redis_server_ask_number(&server, WORDS("EXPIRE", "warder:meter:run:over", "100"));
	expect_ttl("over", 1, 100);
	use_run("over", true);
	expect_ttl("over", all_s - 60, all_s);
	assert_int_equal(open_run("over"), STORE_GRANTED);
	expect_ttl("over", never, never);
	assert_int_equal(begin_run("over"), STORE_GRANTED); /* which takes it nothing away */
	expect_ttl("over", never, never);
	store->ops->close_run(store, "over", clock_now_ms());
	redis_server_ask_number(&server, WORDS("EXPIRE", "warder:run:over", "100"));
	redis_server_ask_number(&server, WORDS("EXPIRE", "warder:meter:run:over", "100"));
	assert_int_equal(begin_run("over"), STORE_GRANTED);
	expect_ttl("over", all_s - 60, all_s);
	/* And when what was kept of it has been given up. */
	log_is_read(store, LOG, 0, clock_ms(CLOCK_REALTIME) / 1000 + 60);
	assert_int_equal(read_meter("run:held").reserved, 0);
	expect_ttl("held", all_s - 60, all_s);
}

/* ---- what is kept ---- */

#define MANY 600 /* more than a script looks at in one go */

static void keep(const char *log, uint64_t spend)
{
	struct ask ask;

	prepare(&ask, "m", (struct limits){ 0 }, 0, spend);
	memcpy(ask.reservation.id + strlen(ask.reservation.id) - STORE_LOG_LEN, log, STORE_LOG_LEN);
	ask_store(&ask);
	turn_until(&ask.is_done, PATIENCE_MS);
	settle(&ask, 0, false, 0);
}

static void what_stays_hides_nothing_that_is_released(void **state)
{
	(void)state;
	for (size_t i = 0; i < MANY; i++)
		keep(OTHER_LOG, 1);
	for (size_t i = 0; i < MANY; i++)
		keep(LOG, 1000);
	all_is_read(store);
	for (int i = 0; i < 100 && read_meter("m").reserved != MANY; i++)
		turn_until(NULL, 50);
	assert_int_equal(read_meter("m").reserved, MANY);
}

/* ---- keepers that are killed ---- */

static void a_killed_keeper_takes_no_places_and_keeps_its_money(void **state)
{
	const struct limits limits = { .concurrent = 3, .spend = 100 };
	struct keeper keeper = start_keeper("its-run", "m", limits, 4, 10);
	struct ask ask;

	(void)state;
	let_it_take(&keeper);
	assert_int_equal(read_count(&keeper), 3);
	/* The control: while it lives, for longer than it may be silent. */
	turn_until(NULL, 2 * ALIVE_MS);
	assert_int_equal(take(&ask, "m", limits, 0, 1), STORE_NO_PLACE);
	assert_int_equal(open_run("its-run"), STORE_HAS_LINK);
	kill_keeper(&keeper);
	turn_until(NULL, ALIVE_MS + 100);
	assert_int_equal(read_meter("m").concurrent, 0);
	assert_int_equal(read_meter("m").reserved, 30);
	assert_int_equal(take(&ask, "m", limits, 0, 71), STORE_NO_MONEY);
	assert_int_equal(take(&ask, "m", limits, 0, 70), STORE_GRANTED);
	settle(&ask, 0, true, 0);
	assert_int_equal(open_run("its-run"), STORE_GRANTED);
	/* And what it left is found when everything has been reconciled. */
	all_is_read(store);
	assert_int_equal(read_meter("m").reserved, 0);
	assert_int_equal(read_meter("m").bytes, 30); /* which may have been used */
	assert_int_equal(redis_server_ask_number(&server, WORDS("SCARD", "warder:keepers")), 1);
	assert_int_equal(redis_server_ask_number(&server, WORDS("ZCARD", "warder:kept")), 0);
	assert_int_equal(redis_server_ask_number(&server, WORDS("EXISTS", "warder:places:m")), 0);
}

/* Buried, it is gone; and yet it may have been only slow, and have something to settle. */
static void a_keeper_that_was_only_stopped_goes_on(void **state)
{
	struct store *first = store, *slow;
	struct ask ask;

	(void)state;
	slow = connect_store(ALIVE_MS / 3);
	store = slow;
	assert_int_equal(open_run("slow"), STORE_GRANTED);
	assert_int_equal(take(&ask, "m", (struct limits){ .concurrent = 1 }, 10, 10),
			 STORE_GRANTED);
	usleep(ALIVE_MS / 2 * 1000); /* nobody turns its loop */
	/* As others would have it, who were not stopped. */
	redis_server_ask(&server, WORDS("SET", "warder:awake", "1"), (char[8]){ 0 }, 8);
	store = first;
	log_is_read(first, LOG, 0, 1); /* buries, releases nothing */
	first->ops->flush(first, clock_now_ms());
	usleep(50000);
	assert_int_equal(redis_server_ask_number(&server, WORDS("SCARD", "warder:keepers")), 1);
	assert_int_equal(redis_server_ask_number(&server, WORDS("ZCARD", "warder:kept")), 1);
	store = slow;
	settle(&ask, 4, true, 3);
	assert_int_equal(read_meter("m").reserved, 0);
	assert_int_equal(read_meter("m").spent, 3);
	assert_int_equal(read_meter("m").bytes, 4);
	assert_int_equal(read_meter("m").concurrent, 0);
	assert_true(slow->is_reachable);
	assert_int_equal(slow->failure_count, 0);
	slow->ops->close(slow);
	store = first;
}

/* ---- races of processes ---- */

static void two_processes_race_for_ten(void **state)
{
	static const struct {
		struct limits limits;
		uint64_t spend;
	} rows[] = {
		{ { .concurrent = 10 }, 0 },
		{ { .spend = 10 * BIG }, BIG },
		{ { .spend = 10 * MONEY_UNIT + 999 }, MONEY_UNIT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned int granted = 0;
		char meter[16];
		struct keeper keepers[2];

		snprintf(meter, sizeof(meter), "race-%zu", i);
		for (size_t j = 0; j < 2; j++)
			keepers[j] = start_keeper(j ? "right" : "left", meter, rows[i].limits, 500,
						  rows[i].spend);
		for (size_t j = 0; j < 2; j++)
			let_it_take(&keepers[j]);
		for (size_t j = 0; j < 2; j++)
			granted += read_count(&keepers[j]);
		assert_int_equal(granted, 10);
		for (size_t j = 0; j < 2; j++)
			kill_keeper(&keepers[j]);
		turn_until(NULL, ALIVE_MS + 100); /* their runs are free */
	}
}

/* ---- all stores ---- */

static struct store *open_for_conformance(struct loop *its_loop)
{
	struct store *made = store_redis_new(its_loop, server.url, NULL);
	uint64_t end_ms = clock_now_ms() + PATIENCE_MS;

	while (made && !made->is_reachable && clock_now_ms() < end_ms)
		assert_int_equal(loop_turn(its_loop, 10), 0);
	return made;
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_url_says_where_and_who),
		cmocka_unit_test(a_wrong_url_is_refused_and_not_shown),
		cmocka_unit_test(a_meter_is_watched_while_a_run_counts_on_it),
		cmocka_unit_test(a_run_is_watched_as_long_as_anybody_has_it),
		FRESH(amounts_beyond_doubles_are_exact),
		FRESH(sums_are_those_of_c),
		FRESH(nothing_is_counted_past_the_end),
		FRESH(who_waits_for_a_minute_is_served_once_a_minute),
		FRESH(a_clock_that_steps_back_costs_no_more_than_the_rate),
		FRESH(what_is_nothing_leaves_nothing),
		FRESH(money_does_not_expire_and_calls_do),
		FRESH(runs_that_are_over_expire_with_their_meters),
		FRESH(what_stays_hides_nothing_that_is_released),
		FRESH(a_killed_keeper_takes_no_places_and_keeps_its_money),
		FRESH(a_keeper_that_was_only_stopped_goes_on),
		FRESH(two_processes_race_for_ten),
	};
	const struct backend redis = {
		.name = "redis",
		.open = open_for_conformance,
		.is_lasting = true,
		.is_shared = true,
		.has_own_clock = true,
	};
	int failed;

	redis_server_init(&server);
	redis_server_start(&server, NULL);
	failed = cmocka_run_group_tests_name("redis", tests, NULL, NULL);
	failed += conformance_run(&redis);
	redis_server_fini(&server);
	return failed;
}
