/* SPDX-License-Identifier: MIT */
/*
 * The store in PostgreSQL: what every backend does, and what is this one's own. Run beside a
 * server, whose URL is in WARDER_TEST_POSTGRES (tests/support/postgres.py).
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/money.h"
#include "store/conformance.h"
#include "store/logs.h"
#include "store/pgtext.h"
#include "store/postgres.h"

#define CROWD       2500 /* more than goes out at once */
#define PATIENCE_MS 20000

static const char *server_url;
static struct loop loop;
static struct store *store;

static struct store *open_store(struct loop *of_loop)
{
	struct err err = { 0 };
	struct store *opened = store_postgres_new(of_loop, server_url, &err);
	uint64_t end = clock_now_ms() + PATIENCE_MS;

	while (opened && !opened->is_reachable && clock_now_ms() < end)
		assert_int_equal(loop_turn(of_loop, 10), 0);
	if (opened && !opened->is_reachable)
		fail_msg("%s", opened->fault);
	return opened;
}

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	store = open_store(&loop);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (store)
		store->ops->close(store);
	loop_fini(&loop);
	return 0;
}

/* ---- names ---- */

static void every_name_is_ascii_and_comes_back(void **state)
{
	static const char *const names[] = { "",
					     "plain-1.2_3:x",
					     "a b",
					     "\"\\{},%",
					     "%41",
					     "\xff\xfe\x01\n",
					     "gr\xc3\xbc\xc3\x9f" };
	struct buf text;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		buf_init(&text, 4096);
		pgtext_escape(&text, names[i]);
		buf_add(&text, "", 0);
		for (size_t j = 0; j < text.len; j++)
			assert_in_range(text.data[j], '!', '~');
		if (text.len > 0) {
			pgtext_unescape(text.data);
			assert_string_equal(text.data, names[i]);
		}
		buf_fini(&text);
	}
}

static void arrays_are_as_postgresql_reads_them(void **state)
{
	struct buf text;

	(void)state;
	buf_init(&text, 4096);
	pgtext_add(&text, "a\"b");
	pgtext_add_escaped(&text, "%41");
	pgtext_add(&text, "");
	pgtext_end(&text);
	assert_string_equal(text.data, "{\"a%22b\",\"%41\",\"\"}");
	buf_fini(&text);
	buf_init(&text, 4096);
	pgtext_add_number(&text, 7);
	pgtext_add_number(&text, UINT64_MAX);
	pgtext_add_bool(&text, true);
	pgtext_end(&text);
	assert_string_equal(text.data, "{7,1000000000000000000,t}");
	buf_fini(&text);
	buf_init(&text, 4096);
	pgtext_end(&text);
	assert_string_equal(text.data, "{}");
	buf_fini(&text);
}

/* ---- asking ---- */

struct ask {
	struct store_reservation reservation;
	char meter[96];
};

static size_t done, granted, unreachable;

static void on_done(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	done++;
	granted += reservation->verdict == STORE_GRANTED;
	unreachable += reservation->verdict == STORE_UNREACHABLE;
}

static void prepare(struct ask *ask, const char *name, uint64_t bytes, uint64_t spend)
{
	static unsigned int serial;

	*ask = (struct ask){ .reservation = { .run_id = name,
					      .account = name,
					      .claim_count = 1,
					      .is_of_money = true,
					      .bytes = bytes,
					      .spend = spend,
					      .on_done = on_done } };
	snprintf(ask->reservation.id, STORE_ID_MAX, "%.40s-%u" LOG, store->keeper_id, ++serial);
	snprintf(ask->meter, sizeof(ask->meter), "run:%s", name);
	ask->reservation.claims[0].meter = ask->meter;
}

static void turn_until(const size_t *count, size_t wanted)
{
	uint64_t end = clock_now_ms() + PATIENCE_MS;

	store->ops->flush(store, clock_now_ms());
	while (*count < wanted && clock_now_ms() < end)
		assert_int_equal(loop_turn(&loop, 20), 0);
	assert_int_equal(*count, wanted);
}

static void reserve(struct ask *asks, size_t count)
{
	done = granted = unreachable = 0;
	for (size_t i = 0; i < count; i++)
		store->ops->reserve(store, &asks[i].reservation, clock_now_ms());
}

static void settle(const struct ask *ask, bool is_cost_known, uint64_t cost, const char *call_id)
{
	store->ops->settle(store,
			   &(struct store_settlement){ .id = ask->reservation.id,
						       .is_cost_known = is_cost_known,
						       .cost = cost,
						       .bytes = cost,
						       .call_id = call_id },
			   clock_now_ms());
}

static void on_read(struct store_meter *meter, uint64_t now_ms)
{
	(void)meter;
	(void)now_ms;
	done++;
}

static struct store_meter read_meter(const char *name)
{
	struct store_meter meter = { .meter = name, .on_done = on_read };

	done = 0;
	store->ops->read_meter(store, &meter, clock_now_ms());
	turn_until(&done, 1);
	assert_int_equal(meter.verdict, STORE_GRANTED);
	return meter;
}

static void on_reconciled(struct store_call *call, uint64_t now_ms)
{
	(void)call;
	(void)now_ms;
	done++;
}

static void any_bytes_may_be_in_a_name(void **state)
{
	static const char name[] = "q\"'\\{%\xff\x80$1 ;--", call_id[] = "\xc3(\"\\,}";
	struct store_call call = { .call_id = call_id,
				   .run_id = name,
				   .account = "",
				   .cost = 7,
				   .on_done = on_reconciled };
	struct ask ask;

	(void)state;
	prepare(&ask, name, 0, 5);
	reserve(&ask, 1);
	turn_until(&granted, 1);
	settle(&ask, false, 0, call_id);
	assert_int_equal(read_meter(ask.meter).reserved, 5);
	done = 0;
	store->ops->reconcile(store, &call, clock_now_ms());
	turn_until(&done, 1);
	assert_true(call.was_known);
	assert_int_equal(read_meter(ask.meter).spent, 7);
	assert_int_equal(read_meter(ask.meter).reserved, 0);
	assert_int_equal(store->failure_count, 0);
}

/* Whatever the amounts, what is asked beside them is answered. */
static void no_amount_is_too_large(void **state)
{
	struct ask asks[20], other;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		prepare(&asks[i], "rich", UINT64_MAX, UINT64_MAX);
		asks[i].reservation.attempt = UINT32_MAX;
	}
	reserve(asks, ARRAY_LEN(asks));
	turn_until(&granted, ARRAY_LEN(asks));
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		settle(&asks[i], true, UINT64_MAX, "much");
	assert_true(read_meter("run:rich").spent >= MONEY_MAX);
	prepare(&other, "rich", UINT64_MAX, UINT64_MAX);
	other.reservation.claims[0].limits = (struct limits){ UINT64_MAX, UINT64_MAX, UINT64_MAX,
							      UINT64_MAX, UINT64_MAX, 0 };
	reserve(&other, 1);
	turn_until(&done, 1);
	assert_int_equal(other.reservation.verdict, STORE_NO_BYTES);
	log_is_read(store, LOG, 0, UINT64_MAX);
	read_meter("run:rich");
	assert_int_equal(store->failure_count, 0);
}

static void more_than_goes_out_at_once_goes_out_in_turn(void **state)
{
	struct ask *asks = calloc(CROWD, sizeof(*asks));

	(void)state;
	if (!asks)
		abort();
	for (size_t i = 0; i < CROWD; i++) {
		prepare(&asks[i], "crowd", 1, 2);
		asks[i].reservation.claims[0].limits.concurrent = CROWD - 1;
	}
	reserve(asks, CROWD);
	turn_until(&done, CROWD);
	assert_int_equal(granted, CROWD - 1);
	assert_int_equal(asks[CROWD - 1].reservation.verdict, STORE_NO_PLACE);
	/* Kept, all of them, and then released: that goes in steps, too. */
	for (size_t i = 0; i < CROWD; i++)
		settle(&asks[i], false, 0, "");
	while (read_meter("run:crowd").concurrent > 0)
		assert_int_equal(loop_turn(&loop, 10), 0);
	assert_int_equal(read_meter("run:crowd").reserved, 2 * (CROWD - 1));
	all_is_read(store);
	for (int i = 0; i < 100 && read_meter("run:crowd").reserved > 0; i++)
		assert_int_equal(loop_turn(&loop, 10), 0);
	assert_int_equal(read_meter("run:crowd").reserved, 0);
	free(asks);
}

static void what_is_settled_twice_at_once_counts_the_first_time(void **state)
{
	struct ask asks[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		prepare(&asks[i], "twice", 0, 5);
	reserve(asks, 2);
	turn_until(&granted, 2);
	settle(&asks[0], true, 2, "one-call");
	settle(&asks[0], true, 4, "one-call");
	settle(&asks[1], true, 1, "one-call"); /* an upstream that says the same of two */
	assert_int_equal(read_meter("run:twice").spent, 3);
	assert_int_equal(read_meter("run:twice").bytes, 3);
}

/* ---- beginning and end ---- */

static void before_there_is_a_connection_the_answer_comes_at_once(void **state)
{
	struct store *connected = store;
	struct err err = { 0 };
	struct ask ask;

	(void)state;
	store = store_postgres_new(&loop, server_url, &err);
	assert_non_null(store);
	assert_false(store->is_reachable);
	assert_true(store->fault[0]);
	prepare(&ask, "early", 0, 0);
	reserve(&ask, 1);
	assert_int_equal(unreachable, 1);
	assert_int_equal(store->failure_count, 1);
	store->ops->close(store);
	store = connected;
}

static void closing_answers_what_is_open(void **state)
{
	struct ask asks[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		prepare(&asks[i], "late", 0, 5);
	reserve(&asks[0], 1);
	store->ops->flush(store, clock_now_ms()); /* this one is under way */
	store->ops->reserve(store, &asks[1].reservation, clock_now_ms());
	store->ops->close(store);
	assert_int_equal(unreachable, 2);
	store = open_store(&loop);
	assert_int_equal(read_meter("run:late").reserved, 0); /* and was undone */
}

static void on_done_that_closes(struct store_reservation *reservation, uint64_t now_ms)
{
	struct store *closed = store;

	on_done(reservation, now_ms);
	store = NULL;
	if (closed)
		closed->ops->close(closed);
}

static void an_answer_may_close_the_store(void **state)
{
	struct ask asks[3];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		prepare(&asks[i], "closing", 0, 0);
		asks[i].reservation.on_done = on_done_that_closes;
	}
	reserve(asks, ARRAY_LEN(asks));
	store->ops->flush(store, clock_now_ms());
	for (int i = 0; i < 1000 && done < ARRAY_LEN(asks); i++)
		assert_int_equal(loop_turn(&loop, 20), 0);
	assert_int_equal(done, ARRAY_LEN(asks));
	assert_null(store);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct backend backend = { .name = "postgresql",
						.open = open_store,
						.is_lasting = true,
						.is_shared = true,
						.has_own_clock = true };
	const struct CMUnitTest own[] = {
		TEST(every_name_is_ascii_and_comes_back),
		TEST(arrays_are_as_postgresql_reads_them),
		FRESH(any_bytes_may_be_in_a_name),
		FRESH(no_amount_is_too_large),
		FRESH(more_than_goes_out_at_once_goes_out_in_turn),
		FRESH(what_is_settled_twice_at_once_counts_the_first_time),
		FRESH(before_there_is_a_connection_the_answer_comes_at_once),
		FRESH(closing_answers_what_is_open),
		FRESH(an_answer_may_close_the_store),
	};

	server_url = getenv("WARDER_TEST_POSTGRES");
	return conformance_run(&backend) + cmocka_run_group_tests(own, NULL, NULL);
}
