/* SPDX-License-Identifier: MIT */
/* The store in memory: what all have to do, and what it forgets. */
#include "store/desk.h"

#include "store/conformance.h"
#include "store/local.h"

static struct loop loop;
static struct store *store;
static unsigned int news_count;

static int set_up(void **state)
{
	(void)state;
	news_count = 0;
	if (loop_init(&loop) < 0)
		return -1;
	store = store_local_new(&loop, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	store->ops->close(store);
	loop_fini(&loop);
	return 0;
}

static struct local *local(void)
{
	return OWNER_OF(store, struct local, store);
}

static void a_meter_that_is_claimed_twice_counts_twice(void **state)
{
	const struct store_claim claim = { "run:x", { .concurrent = 3, .spend = 3 * CENT } };
	struct store_reservation asked = { .id = "a",
					   .run_id = "run",
					   .account = "",
					   .claims = { claim, claim },
					   .claim_count = 2,
					   .is_of_money = true,
					   .spend = CENT,
					   .on_done = desk_on_reserved };

	(void)state;
	store->ops->reserve(store, &asked, 1);
	assert_int_equal(asked.verdict, STORE_GRANTED);
	assert_int_equal(desk_read(store, "run:x").reserved, 2 * CENT);
	strcpy(asked.id, "b");
	store->ops->reserve(store, &asked, 1);
	assert_int_equal(asked.verdict, STORE_NO_MONEY);
	assert_int_equal(asked.refused_claim, 1);
	assert_int_equal(desk_read(store, "run:x").reserved, 2 * CENT);
	assert_int_equal(desk_read(store, "run:x").concurrent, 2);
	desk_settle(store, "a", 5, CENT, "");
	assert_int_equal(desk_read(store, "run:x").spent, 2 * CENT);
	assert_int_equal(desk_read(store, "run:x").concurrent, 0);
}

/* An agent can name hosts without end; meters that nothing is known about are not kept. */
static void meters_at_rest_are_forgotten(void **state)
{
	const struct limits limits = { .rate = 1000 * LIMITS_PER_SECOND,
				       .burst = 10,
				       .concurrent = 5 };
	char id[STORE_ID_MAX], meter[64];

	(void)state;
	desk_reserve(store, "stays", "host:stays", limits, 0, 0);
	desk_reserve(store, "used", "host:used", limits, 0, 0);
	desk_settle(store, "used", 7, 0, "");
	for (uint64_t i = 0; i < 50000; i++) {
		struct store_reservation asked = { .run_id = "run",
						   .account = "",
						   .claims = { { meter, limits } },
						   .claim_count = 1,
						   .on_done = desk_on_reserved };

		snprintf(meter, sizeof(meter), "host:h%ju.test", (uintmax_t)i);
		snprintf(id, sizeof(id), "hold-%ju", (uintmax_t)i);
		memcpy(asked.id, id, sizeof(id));
		store->ops->reserve(store, &asked, i * 10);
		assert_int_equal(asked.verdict, STORE_GRANTED);
		desk_settle(store, id, 0, 0, "");
	}
	assert_true(local()->tallies.count < 100);
	assert_int_equal(local()->holds.count, 1);
	assert_int_equal(desk_read(store, "host:stays").concurrent, 1);
	assert_int_equal(desk_read(store, "host:used").bytes, 7);
}

/* Else each one that comes would look through all of them to find room for itself. */
static void where_few_are_at_rest_room_is_made(void **state)
{
	char id[STORE_ID_MAX], meter[64];
	size_t size = local()->tallies.size;

	(void)state;
	for (size_t i = 0; i <= size; i++) {
		snprintf(meter, sizeof(meter), "host:rests%zu", i);
		desk_read(store, meter);
	}
	assert_int_equal(local()->tallies.size, size); /* the control: all are */
	for (size_t i = 0; i <= size; i++) {
		snprintf(meter, sizeof(meter), "host:h%zu", i);
		snprintf(id, sizeof(id), "%zu", i);
		desk_reserve(store, id, meter, (struct limits){ 0 }, 0, 0);
		if (i == size - 2)
			desk_settle(store, "0", 0, 0, "");
	}
	assert_int_equal(local()->tallies.size, 2 * size);
}

static void calls_are_remembered_up_to_a_number(void **state)
{
	char call[STORE_CALL_ID_MAX];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		snprintf(call, sizeof(call), "call-%d", i);
		assert_false(desk_reconcile(store, call, "x", 1).was_known);
	}
	assert_true(local()->calls.count <= 65536);
	assert_true(desk_reconcile(store, "call-99999", "x", 1).was_known);
	assert_false(desk_reconcile(store, "call-0", "x", 1).was_known);
}

static void two_replies_with_one_id_are_two_costs(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		desk_reserve(store, "a", "run:x", (struct limits){ 0 }, 0, 5 * CENT);
		desk_settle(store, "a", 0, 2 * CENT, "call");
	}
	assert_int_equal(desk_read(store, "run:x").spent, 4 * CENT);
	assert_int_equal(desk_reconcile(store, "call", "x", 3 * CENT).counted, 4 * CENT);
	assert_int_equal(desk_read(store, "run:x").spent, 3 * CENT);
}

static void a_call_without_an_id_is_not_counted(void **state)
{
	(void)state;
	assert_int_equal(desk_reconcile(store, "", "x", CENT).verdict, STORE_GRANTED);
	assert_int_equal(desk_read(store, "run:x").spent, 0);
}

/* Ids that are longer than is kept are still each other's. */
static void long_call_ids_match(void **state)
{
	char call[2 * STORE_CALL_ID_MAX];

	(void)state;
	memset(call, 'c', sizeof(call));
	call[sizeof(call) - 1] = '\0';
	desk_reserve(store, "a", "run:x", (struct limits){ 0 }, 0, 5 * CENT);
	desk_settle_without_cost(store, "a", 0, call);
	assert_true(desk_reconcile(store, call, "x", CENT).was_known);
	assert_int_equal(desk_read(store, "run:x").reserved, 0);
	assert_int_equal(desk_reconcile(store, call, "x", CENT).counted, CENT);
	assert_int_equal(desk_read(store, "run:x").spent, CENT);
}

/* ---- news ---- */

static void on_news(struct store *from, enum store_news news, const char *about, uint64_t now_ms)
{
	(void)now_ms;
	assert_int_equal(news, STORE_NEWS_NO_MONEY);
	assert_string_equal(about, "run:x");
	news_count++;
	/* Whoever is told ends what is under way. */
	desk_settle(from, "b", 0, CENT, "");
	desk_settle(from, "c", 0, CENT, "");
}

static void news_may_lead_to_settlements(void **state)
{
	const struct limits limits = { .spend = 3 * CENT };

	(void)state;
	store->on_news = on_news;
	desk_reserve(store, "a", "run:x", limits, 0, CENT);
	desk_reserve(store, "b", "run:x", limits, 0, CENT);
	desk_reserve(store, "c", "run:x", limits, 0, CENT);
	desk_settle(store, "a", 0, 3 * CENT, "");
	assert_int_equal(news_count, 1);
	assert_int_equal(desk_read(store, "run:x").spent, 5 * CENT);
	assert_int_equal(desk_read(store, "run:x").reserved, 0);
}

static void a_limit_that_is_lowered_is_news(void **state)
{
	(void)state;
	store->on_news = on_news;
	desk_reserve(store, "a", "run:x", (struct limits){ .spend = 3 * CENT }, 0, CENT);
	desk_settle(store, "a", 0, CENT, "");
	assert_int_equal(desk_reserve(store, "d", "run:x", (struct limits){ .spend = CENT }, 0, 1),
			 STORE_NO_MONEY);
	assert_int_equal(news_count, 1);
	desk_reserve(store, "e", "run:x", (struct limits){ .spend = CENT }, 0, 1);
	assert_int_equal(news_count, 1);
	desk_reserve(store, "f", "run:x", (struct limits){ .spend = 2 * CENT }, 0, CENT);
	desk_settle(store, "f", 0, CENT, "");
	assert_int_equal(news_count, 2);
}

static struct store *open_memory(struct loop *in)
{
	return store_local_new(in, NULL);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(a_meter_that_is_claimed_twice_counts_twice),
		FRESH(meters_at_rest_are_forgotten),
		FRESH(where_few_are_at_rest_room_is_made),
		FRESH(calls_are_remembered_up_to_a_number),
		FRESH(two_replies_with_one_id_are_two_costs),
		FRESH(a_call_without_an_id_is_not_counted),
		FRESH(long_call_ids_match),
		FRESH(news_may_lead_to_settlements),
		FRESH(a_limit_that_is_lowered_is_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) +
	       conformance_run(&(struct backend){ .name = "memory", .open = open_memory });
}
