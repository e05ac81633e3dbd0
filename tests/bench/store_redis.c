/* SPDX-License-Identifier: MIT */
/*
 * What a reservation and its settlement cost in the store in Redis, one after the other and a
 * hundred at a time. Usage: bench_store_redis URL
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/redis.h"

#define ROUNDS    20000
#define PIPE_MAX  100
#define CONNECT_S 10

static struct loop loop;
static struct store *store;
static size_t waiting;

static void on_done(struct store_reservation *reservation, uint64_t now_ms)
{
	struct store_settlement settlement = {
		.id = reservation->id,
		.bytes = 900,
		.is_cost_known = true,
		.cost = 40000,
		.call_id = "",
	};

	if (reservation->verdict != STORE_GRANTED) {
		fprintf(stderr, "verdict %d: %s\n", reservation->verdict, store->fault);
		exit(1);
	}
	store->ops->settle(store, &settlement, now_ms);
	waiting--;
}

/* As the requests of a run with an account are: two or three meters, with all limits. */
static void ask(struct store_reservation *reservation, size_t claim_count)
{
	static const char *const meters[] = { "run:bench", "account:bench", "host:bench.test" };
	static unsigned int serial;

	*reservation = (struct store_reservation){
		.run_id = "bench",
		.account = "bench",
		.claim_count = claim_count,
		.bytes = 1000,
		.spend = 50000,
		.on_done = on_done,
	};
	snprintf(reservation->id, sizeof(reservation->id), "bench-%.30s-%u", store->keeper_id,
		 serial++);
	for (size_t i = 0; i < claim_count; i++)
		reservation->claims[i] = (struct store_claim){
			meters[i],
			{ .rate = 1000000 * LIMITS_PER_SECOND,
			  .burst = 1000000,
			  .concurrent = 10000,
			  .bytes = INT64_MAX,
			  .spend = INT64_MAX },
		};
	store->ops->reserve(store, reservation, clock_now_ms());
	waiting++;
}

static void turn(void)
{
	store->ops->flush(store, clock_now_ms());
	if (loop_turn(&loop, 1000) < 0)
		exit(1);
}

static void measure(size_t at_once, size_t claim_count)
{
	static struct store_reservation reservations[PIPE_MAX];
	uint64_t begin_ms = clock_now_ms();

	for (size_t done = 0; done < ROUNDS; done += at_once) {
		for (size_t i = 0; i < at_once; i++)
			ask(&reservations[i], claim_count);
		while (waiting > 0)
			turn();
	}
	turn();
	printf("%3zu at once, %zu claims: %6.1f us\n", at_once, claim_count,
	       (double)(clock_now_ms() - begin_ms) * 1000 / ROUNDS);
}

int main(int argc, char **argv)
{
	uint64_t end_ms = clock_now_ms() + CONNECT_S * 1000;
	struct err err = { 0 };

	if (argc != 2 || loop_init(&loop) < 0)
		return 2;
	store = store_redis_new(&loop, argv[1], &err);
	if (!store) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	while (!store->is_reachable && clock_now_ms() < end_ms)
		if (loop_turn(&loop, 10) < 0)
			return 1;
	for (size_t claim_count = 1; claim_count <= STORE_CLAIMS_MAX; claim_count++) {
		measure(1, claim_count);
		measure(PIPE_MAX, claim_count);
	}
	store->ops->close(store);
	loop_fini(&loop);
	return 0;
}
