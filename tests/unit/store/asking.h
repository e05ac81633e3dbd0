/* SPDX-License-Identifier: MIT */
/* How the conformance tests ask a store, whether its answers come at once or later. */
#ifndef STORE_ASKING_H
#define STORE_ASKING_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/money.h"
#include "store/conformance.h"
#include "store/logs.h"

#define PATIENCE_MS 5000 /* more than STORE_ANSWER_MS: who has not answered by then never does */
#define CENT        (MONEY_UNIT / 100)
#define CROWD       1000
#define NAME_MAX_   96

static const struct backend *backend;
static struct loop loop;
static struct store *store;
static uint64_t told_ms; /* the time that is passed in, where the backend goes by it */
static unsigned int serial;

/* Whose requests a test makes; new names for each. */
static struct {
	char run[NAME_MAX_], account[NAME_MAX_];
	char meters[STORE_CLAIMS_MAX][NAME_MAX_]; /* the run's, the account's, a host's */
} self;

static struct {
	unsigned int count[2]; /* by kind */
	char about[NAME_MAX_]; /* the last */
} news;

/* ---- time ---- */

static uint64_t now(void)
{
	return backend->has_own_clock ? clock_now_ms() : told_ms;
}

static void flush(void)
{
	if (store->ops->flush)
		store->ops->flush(store, now());
}

/* Turns the loop for a while, or until something has happened. */
static void turn_until(const bool *is_over, uint64_t wait_ms)
{
	uint64_t end = clock_now_ms() + wait_ms;

	while (!(is_over && *is_over) && clock_now_ms() < end)
		assert_int_equal(loop_turn(&loop, 5), 0);
}

static void wait_for(const bool *is_done)
{
	flush();
	turn_until(is_done, PATIENCE_MS);
	assert_true(*is_done);
}

static void pass_ms(uint64_t ms)
{
	if (backend->has_own_clock)
		turn_until(NULL, ms);
	else
		told_ms += ms;
}

/* ---- asking ---- */

struct ask {
	struct store_reservation reservation;
	bool is_done;
};

static void on_reserved(struct store_reservation *reservation, uint64_t now_ms)
{
	struct ask *ask = OWNER_OF(reservation, struct ask, reservation);

	(void)now_ms;
	assert_false(ask->is_done); /* once each */
	ask->is_done = true;
}

static void mint(char *ret_id, size_t size, const char *what)
{
	char ulid[RUNID_ULID_LEN + 1];

	assert_int_equal(runid_new(ulid), 0);
	snprintf(ret_id, size, "%s-%s-%u", what, ulid, ++serial);
}

/* A request that has not been made: claims on the run's meter, then the account's, then a host's.
 */
static void prepare(struct ask *ask, const struct limits *limits, size_t count, uint64_t bytes,
		    uint64_t spend)
{
	*ask = (struct ask){ .reservation = { .run_id = self.run,
					      .account = self.account,
					      .attempt = 1,
					      .is_of_money = true,
					      .claim_count = count,
					      .bytes = bytes,
					      .spend = spend,
					      .verdict = STORE_UNREACHABLE,
					      .on_done = on_reserved } };
	mint(ask->reservation.id, sizeof(ask->reservation.id) - STORE_LOG_LEN, "hold");
	strcat(ask->reservation.id, LOG);
	for (size_t i = 0; i < count; i++) {
		ask->reservation.claims[i].meter = self.meters[i];
		memcpy(&ask->reservation.claims[i].limits, &limits[i], sizeof(*limits));
	}
}

static enum store_verdict make(struct ask *ask)
{
	store->ops->reserve(store, &ask->reservation, now());
	wait_for(&ask->is_done);
	return ask->reservation.verdict;
}

/* One claim, on the run's meter. */
static enum store_verdict take(struct ask *ask, struct limits limits, uint64_t bytes,
			       uint64_t spend)
{
	prepare(ask, &limits, 1, bytes, spend);
	return make(ask);
}

/* The same for the run and its account, with no limits of the run's. */
static enum store_verdict take_of_account(struct ask *ask, struct limits limits, uint64_t spend)
{
	const struct limits both[] = { { 0 }, limits };

	prepare(ask, both, 2, 0, spend);
	return make(ask);
}

static void settle(const struct ask *ask, uint64_t bytes, uint64_t cost, const char *call_id)
{
	store->ops->settle(store,
			   &(struct store_settlement){ .id = ask->reservation.id,
						       .bytes = bytes,
						       .is_cost_known = true,
						       .cost = cost,
						       .call_id = call_id },
			   now());
	flush();
}

static void settle_without_cost(const struct ask *ask, uint64_t bytes, const char *call_id)
{
	store->ops->settle(store,
			   &(struct store_settlement){
				   .id = ask->reservation.id, .bytes = bytes, .call_id = call_id },
			   now());
	flush();
}

struct reading {
	struct store_meter meter;
	bool is_done;
};

static void on_read(struct store_meter *meter, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(meter, struct reading, meter)->is_done = true;
}

static struct store_meter read_meter(const char *name)
{
	struct reading reading = { .meter = { .meter = name, .on_done = on_read } };

	store->ops->read_meter(store, &reading.meter, now());
	wait_for(&reading.is_done);
	assert_int_equal(reading.meter.verdict, STORE_GRANTED);
	return reading.meter;
}

/* What is settled has no answer, so the meter may get there a little later. */
static void expect_money(const char *name, uint64_t spent, uint64_t reserved)
{
	uint64_t end = clock_now_ms() + PATIENCE_MS;
	struct store_meter meter = read_meter(name);

	while ((meter.spent != spent || meter.reserved != reserved) && clock_now_ms() < end) {
		turn_until(NULL, 5);
		meter = read_meter(name);
	}
	assert_int_equal(meter.spent, spent);
	assert_int_equal(meter.reserved, reserved);
}

struct opening {
	struct store_run run;
	bool is_done;
};

static void on_opened(struct store_run *run, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(run, struct opening, run)->is_done = true;
}

static enum store_verdict ask_for_run(uint32_t attempt, bool has_no_link, uint64_t age_ms,
				      uint64_t *ret_begun_ms)
{
	struct opening opening = { .run = { .run_id = self.run,
					    .account = self.account,
					    .attempt = attempt,
					    .has_no_link = has_no_link,
					    .age_ms = age_ms,
					    .on_done = on_opened } };

	store->ops->open_run(store, &opening.run, now());
	wait_for(&opening.is_done);
	if (ret_begun_ms)
		*ret_begun_ms = opening.run.begun_ms;
	return opening.run.verdict;
}

static enum store_verdict open_attempt(uint32_t attempt, uint64_t *ret_begun_ms)
{
	return ask_for_run(attempt, false, 0, ret_begun_ms);
}

/* When a run began that comes by tokens, which has to be granted; time has gone on since. */
static uint64_t ask_begun_ms(uint32_t attempt)
{
	uint64_t begun_ms = 0;

	assert_int_equal(ask_for_run(attempt, true, 0, &begun_ms), STORE_GRANTED);
	turn_until(NULL, 10);
	return begun_ms;
}

static enum store_verdict open_run(void)
{
	return open_attempt(1, NULL);
}

static void close_run(void)
{
	store->ops->close_run(store, self.run, now());
	flush();
}

struct telling {
	struct store_call call;
	bool is_done;
};

static void on_reconciled(struct store_call *call, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(call, struct telling, call)->is_done = true;
}

static struct store_call reconcile(const char *call_id, uint64_t cost)
{
	struct telling telling = { .call = { .call_id = call_id,
					     .run_id = self.run,
					     .account = self.account,
					     .attempt = 1,
					     .cost = cost,
					     .on_done = on_reconciled } };

	store->ops->reconcile(store, &telling.call, now());
	wait_for(&telling.is_done);
	assert_int_equal(telling.call.verdict, STORE_GRANTED);
	return telling.call;
}

struct revoking {
	struct store_revocation revocation;
	bool is_done;
};

static void on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(revocation, struct revoking, revocation)->is_done = true;
}

static void revoke_run(void)
{
	struct revoking revoking = { .revocation = { .run_id = self.run, .on_done = on_revoked } };

	store->ops->revoke(store, &revoking.revocation, now());
	wait_for(&revoking.is_done);
	assert_int_equal(revoking.revocation.verdict, STORE_GRANTED);
}

static void on_news(struct store *from, enum store_news kind, const char *about, uint64_t now_ms)
{
	(void)from;
	(void)now_ms;
	news.count[kind]++;
	snprintf(news.about, sizeof(news.about), "%s", about);
}

/* Within a second of its happening; a little more for a machine that is busy. */
static void expect_news(enum store_news kind, unsigned int count, const char *about)
{
	uint64_t end = clock_now_ms() + 2000;

	while (news.count[kind] < count && clock_now_ms() < end)
		turn_until(NULL, 5);
	assert_int_equal(news.count[kind], count);
	assert_string_equal(news.about, about);
}

/* ---- a keeper for each test ---- */

static struct store *open_store(void)
{
	struct store *opened = backend->open(&loop);

	assert_non_null(opened);
	opened->on_news = on_news;
	return opened;
}

/* Whoever was there before has used nothing of these. */
static void be_somebody_else(void)
{
	mint(self.run, sizeof(self.run), "r");
	mint(self.account, sizeof(self.account), "a");
	snprintf(self.meters[0], NAME_MAX_, "run:%.64s", self.run);
	snprintf(self.meters[1], NAME_MAX_, "account:%.64s", self.account);
	snprintf(self.meters[2], NAME_MAX_, "host:%.64s.test", self.run);
}

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	told_ms = clock_now_ms();
	memset(&news, 0, sizeof(news));
	be_somebody_else();
	store = open_store();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (store)
		store->ops->close(store);
	store = NULL;
	loop_fini(&loop);
	return 0;
}

static void reopen(void)
{
	store->ops->close(store);
	store = open_store();
}

#endif
