/* SPDX-License-Identifier: MIT */
/*
 * What each piece of a request costs a shared keeper by itself: `bench_pieces DIRECTORY`, where the
 * audit log and the database are written. One process, one thing after the other; the best of some
 * rounds, as other work only ever makes them slower. Prints JSON: microseconds of processor time.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "audit/log.h"
#include "event/loop.h"
#include "keeper/keyring.h"
#include "store/store.h"

#define ROUNDS   5
#define REQUESTS 8192
#define KEYS     2 /* as while one takes another's place */

struct bench {
	struct keyring ring;
	char token[TOKEN_MAX];
	struct audit_log audit;
	struct loop loop;
	struct store *store;
	size_t at_once; /* requests of a turn */
};

static double processor_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* ---- the pieces: each does what REQUESTS requests need of it ---- */

static void verify_tokens(struct bench *bench)
{
	struct token token;

	for (size_t i = 0; i < REQUESTS; i++)
		if (keyring_verify(&bench->ring, bytes_of(bench->token), 1, &token, NULL) !=
		    TOKEN_VALID)
			errx(1, "the token is not valid");
}

static void write_records(struct bench *bench)
{
	struct audit_decision decision = {
		.run_id = BYTES("01KA3S0Y2V9W5T1ZK6P9M2E7QX"),
		.method = BYTES("POST"),
		.host = BYTES("litellm:4000"),
		.path = BYTES("/v1/chat/completions"),
		.is_allowed = true,
	};
	struct audit_outcome outcome = {
		.run_id = BYTES("01KA3S0Y2V9W5T1ZK6P9M2E7QX"),
		.status = 200,
		.sent_bytes = 2000,
		.received_bytes = 1000,
		.first_byte_ms = 1,
		.duration_ms = 1,
		.ended = BYTES("complete"),
		.model = BYTES("bench"),
		.call_id = BYTES("call-0123456789"),
		.cost = BYTES("0.0001"),
	};

	for (size_t i = 0; i < REQUESTS; i++) {
		decision.exchange = outcome.exchange = (int64_t)i;
		audit_add_decision(&bench->audit, &decision);
		audit_add_outcome(&bench->audit, &outcome);
		if (i % bench->at_once == bench->at_once - 1 && audit_flush(&bench->audit) < 0)
			err(1, "write to the audit log");
	}
}

static void on_reserved(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	if (reservation->verdict != STORE_GRANTED)
		errx(1, "the store grants nothing");
}

static void reserve_and_settle(struct bench *bench)
{
	static struct store_reservation reservations[REQUESTS];
	static uint64_t count;
	struct store *store = bench->store;

	for (size_t i = 0; i < REQUESTS; i++) {
		struct store_reservation *reservation = &reservations[i];

		*reservation = (struct store_reservation){
			.run_id = "run",
			.account = "",
			.claims = { { "run:run",
				      { .rate = 1000000 * LIMITS_PER_SECOND,
					.burst = 1000000,
					.concurrent = 100000,
					.spend = UINT64_MAX / 4 } } },
			.claim_count = 1,
			.spend = 1000,
			.on_done = on_reserved,
		};
		snprintf(reservation->id, sizeof(reservation->id), "hold-%llu",
			 (unsigned long long)++count);
		store->ops->reserve(store, reservation, i);
		store->ops->settle(store,
				   &(struct store_settlement){ .id = reservation->id,
							       .is_cost_known = true,
							       .cost = 10,
							       .call_id = "" },
				   i);
		if (store->ops->flush && i % bench->at_once == bench->at_once - 1)
			store->ops->flush(store, i);
	}
}

/* ---- measuring ---- */

static void measure(struct bench *bench, const char *name, void (*piece)(struct bench *bench))
{
	double best = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double start = processor_us(), taken;

		piece(bench);
		taken = (processor_us() - start) / REQUESTS;
		best = i == 0 || taken < best ? taken : best;
	}
	printf("{\"piece\": \"%s\", \"us\": %.3f}\n", name, best);
}

static void open_ring(struct bench *bench)
{
	struct token token = { .run_id = "01KA3S0Y2V9W5T1ZK6P9M2E7QX", .expiry = 9999999999 };
	struct err error;

	for (int i = 0; i < KEYS; i++) {
		char id[16], source[32];
		struct secret *secret;

		snprintf(id, sizeof(id), "k%d", i);
		snprintf(source, sizeof(source), "env:BENCH_TOKEN_%d", i);
		setenv(source + 4,
		       i ? "another-key-of-thirty-two-bytes!" : "a-key-of-thirty-two-bytes-------",
		       1);
		if (secret_open(source, &secret, &error) < 0 ||
		    keyring_add(&bench->ring, id, secret, &error) < 0)
			errx(1, "%s", error.text);
	}
	keyring_mint(&bench->ring, &token, bench->token);
}

int main(int argc, char **argv)
{
	static struct bench bench;
	struct err error;
	char path[4096];

	if (argc != 2)
		errx(2, "usage: bench_pieces DIRECTORY");
	open_ring(&bench);
	measure(&bench, "a token, with two keys", verify_tokens);
	snprintf(path, sizeof(path), "%s/pieces.jsonl", argv[1]);
	if (audit_open(&bench.audit, path, AUDIT_WRITE, &error) < 0 || loop_init(&bench.loop) < 0)
		errx(1, "%s", error.text);
	bench.at_once = 1;
	measure(&bench, "audit, one request a turn", write_records);
	bench.at_once = 32;
	measure(&bench, "audit, 32 requests a turn", write_records);
	audit_close(&bench.audit);
	bench.store = store_local_new(&bench.loop, NULL);
	measure(&bench, "limits and money in memory", reserve_and_settle);
	bench.store->ops->close(bench.store);
	loop_fini(&bench.loop);
	keyring_fini(&bench.ring);
	return 0;
}
