/* SPDX-License-Identifier: MIT */
/* The conformance tests. */
#include "store/asking.h"

/* ---- what is granted, and what is refused ---- */

static void what_is_granted_is_held_and_what_is_settled_is_used(void **state)
{
	const struct limits limits[] = { { .concurrent = 2, .bytes = 1000, .spend = CENT },
					 { .spend = CENT },
					 { .concurrent = 2 } };
	struct store_meter meter;
	struct ask ask;

	(void)state;
	prepare(&ask, limits, 3, 100, CENT / 2);
	assert_int_equal(make(&ask), STORE_GRANTED);
	for (size_t i = 0; i < 3; i++) {
		meter = read_meter(self.meters[i]);
		assert_int_equal(meter.concurrent, 1);
		assert_int_equal(meter.reserved, i < 2 ? CENT / 2 : 0);
		assert_int_equal(meter.spent, 0);
	}
	settle(&ask, 70, CENT / 4, "call");
	for (size_t i = 0; i < 3; i++) {
		expect_money(self.meters[i], i < 2 ? CENT / 4 : 0, 0); /* a host has none */
		meter = read_meter(self.meters[i]);
		assert_int_equal(meter.concurrent, 0);
		assert_int_equal(meter.bytes, 70);
	}
}

static void a_meter_that_nobody_has_used_is_at_nothing(void **state)
{
	struct store_meter meter = read_meter(self.meters[0]);

	(void)state;
	assert_int_equal(meter.bytes + meter.spent + meter.reserved + meter.concurrent, 0);
}

static void no_claims_are_granted(void **state)
{
	struct ask ask;

	(void)state;
	prepare(&ask, NULL, 0, 0, 0);
	assert_int_equal(make(&ask), STORE_GRANTED);
	settle(&ask, 10, 0, "");
}

static void without_limits_everything_is_counted(void **state)
{
	struct ask asks[20];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		assert_int_equal(take(&asks[i], (struct limits){ 0 }, 1000, CENT), STORE_GRANTED);
	assert_int_equal(read_meter(self.meters[0]).reserved, 20 * CENT);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		settle(&asks[i], 2000, 2 * CENT, "");
	expect_money(self.meters[0], 40 * CENT, 0);
	assert_int_equal(read_meter(self.meters[0]).bytes, 40000);
}

/* However much somebody says that it will be. */
static void without_a_limit_there_is_always_room(void **state)
{
	const struct limits ample[] = { { 0 }, { .bytes = INT64_MAX } };
	struct ask asks[6], ask;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		assert_int_equal(
			take(&asks[i], (struct limits){ .concurrent = 10 }, INT64_MAX, INT64_MAX),
			STORE_GRANTED);
	assert_int_equal(take(&ask, (struct limits){ 0 }, 1000, CENT), STORE_GRANTED);
	settle(&ask, 1000, CENT, "");
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		settle(&asks[i], 10, CENT, "");
	/* Only what has a limit has an end. */
	prepare(&ask, ample, 2, UINT64_MAX, 0);
	ask.reservation.claims[0].limits.bytes = 2000;
	assert_int_equal(make(&ask), STORE_NO_BYTES);
	assert_int_equal(ask.reservation.refused_claim, 0);
	be_somebody_else();
	prepare(&ask, ample, 2, 1000, 0);
	assert_int_equal(make(&ask), STORE_GRANTED);
}

/* Each limit alone lets one request pass, and refuses the next by its name. */
static void every_limit_has_its_verdict(void **state)
{
	static const struct {
		struct limits limits;
		enum store_verdict verdict;
		bool is_by_waiting;
	} rows[] = {
		{ { .rate = LIMITS_PER_SECOND / 10, .burst = 1 }, STORE_NO_RATE, true },
		{ { .concurrent = 1 }, STORE_NO_PLACE, true },
		{ { .bytes = 150 }, STORE_NO_BYTES, false },
		{ { .spend = CENT + CENT / 2 }, STORE_NO_MONEY, false },
	};
	const struct limits ample = { .rate = 1000 * LIMITS_PER_SECOND,
				      .burst = 1000,
				      .concurrent = 1000,
				      .bytes = 1000000,
				      .spend = MONEY_UNIT };
	struct ask ask;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t place = 0; place < STORE_CLAIMS_MAX; place++) {
			struct limits limits[STORE_CLAIMS_MAX] = { ample, ample, ample };

			if (rows[i].limits.spend && !store_has_money(self.meters[place]))
				continue;
			be_somebody_else();
			limits[place] = rows[i].limits;
			prepare(&ask, limits, STORE_CLAIMS_MAX, 100, CENT);
			assert_int_equal(make(&ask), STORE_GRANTED);
			prepare(&ask, limits, STORE_CLAIMS_MAX, 100, CENT);
			assert_int_equal(make(&ask), rows[i].verdict);
			assert_int_equal(ask.reservation.refused_claim, place);
			assert_int_equal(ask.reservation.retry_ms > 0, rows[i].is_by_waiting);
			assert_true(ask.reservation.retry_ms <= 10000);
		}
}

/* A refusal by the last of the claims leaves nothing in the others: not even in their rate. */
static void all_of_it_or_nothing(void **state)
{
	const struct limits once = { .rate = LIMITS_PER_SECOND / 1000,
				     .burst = 1,
				     .concurrent = 1 };
	const struct limits limits[] = { once, once, { .bytes = 600 } };
	struct ask refused, granted;

	(void)state;
	prepare(&refused, limits, 3, 700, CENT);
	assert_int_equal(make(&refused), STORE_NO_BYTES);
	assert_int_equal(refused.reservation.refused_claim, 2);
	for (size_t i = 0; i < 3; i++) {
		struct store_meter meter = read_meter(self.meters[i]);

		assert_int_equal(meter.concurrent + meter.reserved + meter.bytes, 0);
	}
	settle(&refused, 500, CENT, ""); /* there is no such hold */
	expect_money(self.meters[0], 0, 0);
	prepare(&granted, limits, 3, 500, CENT);
	assert_int_equal(make(&granted), STORE_GRANTED);
}

static void limits_are_those_of_the_last_claim(void **state)
{
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, CENT), STORE_GRANTED);
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, 1), STORE_NO_MONEY);
	assert_int_equal(take(&ask, (struct limits){ .spend = 2 * CENT }, 0, CENT), STORE_GRANTED);
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, 1), STORE_NO_MONEY);
	assert_int_equal(take(&ask, (struct limits){ 0 }, 0, CENT), STORE_GRANTED);
	assert_int_equal(take(&ask, (struct limits){ .concurrent = 3 }, 0, 0), STORE_NO_PLACE);
	assert_int_equal(take(&ask, (struct limits){ .concurrent = 4 }, 0, 0), STORE_GRANTED);
}

/* What was used may be more than was asked for; the next one finds it gone. */
static void what_was_really_used_counts(void **state)
{
	const struct limits limits = { .bytes = 1000, .spend = 10 * CENT };
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, limits, 10, CENT), STORE_GRANTED);
	settle(&ask, 1000, CENT, "");
	expect_money(self.meters[0], CENT, 0);
	assert_int_equal(take(&ask, limits, 1, 0), STORE_NO_BYTES);
	assert_int_equal(take(&ask, (struct limits){ .spend = 10 * CENT }, 0, CENT), STORE_GRANTED);
	settle(&ask, 0, 20 * CENT, "");
	expect_money(self.meters[0], 21 * CENT, 0);
	assert_int_equal(take(&ask, (struct limits){ .spend = 10 * CENT }, 0, 1), STORE_NO_MONEY);
}

static void a_hold_is_settled_once(void **state)
{
	struct ask ask, other;

	(void)state;
	assert_int_equal(take(&ask, (struct limits){ .spend = MONEY_UNIT }, 100, CENT),
			 STORE_GRANTED);
	assert_int_equal(take(&other, (struct limits){ .spend = MONEY_UNIT }, 100, CENT),
			 STORE_GRANTED);
	settle(&ask, 50, CENT, "call-1");
	settle(&ask, 50, CENT, "call-1");
	settle(&ask, 70, CENT, "call-2");
	settle_without_cost(&ask, 80, "");
	expect_money(self.meters[0], CENT, CENT);
	assert_int_equal(read_meter(self.meters[0]).concurrent, 1);
	settle(&other, 0, 0, "");
	expect_money(self.meters[0], CENT, 0);
	assert_int_equal(read_meter(self.meters[0]).bytes, 50);
	assert_int_equal(read_meter(self.meters[0]).concurrent, 0);
}

/* ---- bytes that nobody knows the number of ---- */

static enum store_verdict take_more(struct ask *ask, struct limits limits, uint64_t bytes,
				    uint64_t more)
{
	prepare(ask, &limits, 1, bytes, 0);
	ask->reservation.more = more;
	return make(ask);
}

/* So much more for what an ask has; other limits than those of bytes are not looked at. */
static enum store_verdict extend(struct ask *ask, const struct ask *of, uint64_t more)
{
	*ask = *of;
	ask->is_done = false;
	ask->reservation.next = NULL;
	ask->reservation.bytes = ask->reservation.spend = 0;
	ask->reservation.more = more;
	ask->reservation.is_more = true;
	return make(ask);
}

static void as_many_bytes_as_there_are(void **state)
{
	const struct limits limits = { .bytes = 1000 };
	struct ask asks[4];

	(void)state;
	assert_int_equal(take_more(&asks[0], limits, 100, 300), STORE_GRANTED);
	assert_int_equal(asks[0].reservation.granted_bytes, 400);
	assert_int_equal(take_more(&asks[1], limits, 500, 300), STORE_GRANTED);
	assert_int_equal(asks[1].reservation.granted_bytes, 600); /* all that was left */
	assert_int_equal(take_more(&asks[2], limits, 0, 300), STORE_NO_BYTES);
	assert_int_equal(asks[2].reservation.retry_ms, 0);
	assert_int_equal(take(&asks[2], limits, 0, 0), STORE_GRANTED); /* who wants none gets it */
	assert_int_equal(read_meter(self.meters[0]).bytes, 1000);
	settle(&asks[0], 150, 0, "");
	expect_money(self.meters[0], 0, 0);
	assert_int_equal(take_more(&asks[3], limits, 251, 1), STORE_NO_BYTES);
	assert_int_equal(take_more(&asks[3], limits, 250, 1), STORE_NO_BYTES);
	assert_int_equal(take_more(&asks[3], limits, 249, 100), STORE_GRANTED);
	assert_int_equal(asks[3].reservation.granted_bytes, 250);
	be_somebody_else();
	assert_int_equal(take_more(&asks[0], (struct limits){ .concurrent = 5 }, 1, 300),
			 STORE_GRANTED);
	assert_int_equal(asks[0].reservation.granted_bytes, 301);
}

static void a_hold_may_become_larger(void **state)
{
	const struct limits limits[] = {
		{ .rate = LIMITS_PER_SECOND / 1000, .burst = 1, .concurrent = 1, .bytes = 5000 },
		{ .bytes = 1000, .spend = CENT },
		{ .concurrent = 1 },
	};
	struct ask ask, more;

	(void)state;
	prepare(&ask, limits, 3, 100, CENT);
	ask.reservation.more = 200;
	assert_int_equal(make(&ask), STORE_GRANTED);
	assert_int_equal(ask.reservation.granted_bytes, 300);
	assert_int_equal(extend(&more, &ask, 300), STORE_GRANTED);
	assert_int_equal(more.reservation.granted_bytes, 300);
	assert_int_equal(extend(&more, &ask, 700), STORE_GRANTED); /* the account has fewer */
	assert_int_equal(more.reservation.granted_bytes, 400);
	assert_int_equal(extend(&more, &ask, 1), STORE_NO_BYTES);
	assert_int_equal(more.reservation.refused_claim, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(read_meter(self.meters[i]).bytes, 1000);
		assert_int_equal(read_meter(self.meters[i]).concurrent, 1); /* one place */
		assert_int_equal(read_meter(self.meters[i]).reserved, i < 2 ? CENT : 0);
	}
	settle(&ask, 120, CENT / 2, "");
	for (size_t i = 0; i < 3; i++) {
		expect_money(self.meters[i], i < 2 ? CENT / 2 : 0, 0);
		assert_int_equal(read_meter(self.meters[i]).bytes, 120);
		assert_int_equal(read_meter(self.meters[i]).concurrent, 0);
	}
	/* What is over gets no more. */
	assert_int_equal(extend(&more, &ask, 100), STORE_NO_BYTES);
	assert_int_equal(read_meter(self.meters[0]).bytes, 120);
	assert_int_equal(read_meter(self.meters[0]).concurrent, 0);
}

static void a_revoked_run_gets_no_more(void **state)
{
	struct ask ask, more;

	(void)state;
	assert_int_equal(take_more(&ask, (struct limits){ .bytes = 1000 }, 0, 100), STORE_GRANTED);
	revoke_run();
	assert_int_equal(extend(&more, &ask, 100), STORE_IS_REVOKED);
	settle(&ask, 50, 0, "");
	expect_money(self.meters[0], 0, 0);
	assert_int_equal(read_meter(self.meters[0]).bytes, 50);
}

/* ---- crowds ---- */

static struct {
	size_t done, granted, refused;
	enum store_verdict reason;
	bool is_over;
	char granted_ids[CROWD][STORE_ID_MAX];
} crowd;

/* Whoever asked may free what it asked with as soon as it has the answer. */
static void forget(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	if (reservation->verdict == STORE_GRANTED)
		snprintf(crowd.granted_ids[crowd.granted++], STORE_ID_MAX, "%s", reservation->id);
	else if (reservation->verdict == crowd.reason)
		crowd.refused++;
	crowd.is_over = ++crowd.done == CROWD;
	free(OWNER_OF(reservation, struct ask, reservation));
}

static struct store_reservation *new_member(struct limits limits, uint64_t bytes, uint64_t spend)
{
	const struct limits both[] = { { 0 }, limits };
	struct ask *ask = malloc(sizeof(*ask));

	assert_non_null(ask);
	prepare(ask, both, 2, bytes, spend);
	ask->reservation.on_done = forget;
	return &ask->reservation;
}

/* All in one list, or one by one in one turn; taken in turn by the stores there are. */
static void race(struct store **stores, size_t count, bool is_list, struct limits limits,
		 uint64_t bytes, uint64_t spend, enum store_verdict reason)
{
	memset(&crowd, 0, sizeof(crowd));
	crowd.reason = reason;
	if (is_list) {
		struct store_reservation *first = NULL;

		for (size_t i = 0; i < CROWD; i++) {
			struct store_reservation *member = new_member(limits, bytes, spend);

			member->next = first;
			first = member;
		}
		stores[0]->ops->reserve(stores[0], first, now());
	} else {
		for (size_t i = 0; i < CROWD; i++) {
			struct store *one = stores[i % count];

			one->ops->reserve(one, new_member(limits, bytes, spend), now());
		}
	}
	for (size_t i = 0; i < count; i++)
		if (stores[i]->ops->flush)
			stores[i]->ops->flush(stores[i], now());
	turn_until(&crowd.is_over, 30000);
	assert_int_equal(crowd.done, CROWD);
}

static void settle_crowd(uint64_t bytes, uint64_t cost)
{
	for (size_t i = 0; i < crowd.granted; i++) {
		struct ask ask;

		snprintf(ask.reservation.id, STORE_ID_MAX, "%s", crowd.granted_ids[i]);
		settle(&ask, bytes, cost, "");
	}
}

static void a_thousand_race_for_ten(void **state)
{
	static const struct {
		struct limits limits;
		uint64_t bytes, spend;
		enum store_verdict reason;
	} rows[] = {
		{ { .concurrent = 10 }, 0, 0, STORE_NO_PLACE },
		{ { .bytes = 1000 }, 100, 0, STORE_NO_BYTES },
		{ { .spend = 10 * CENT }, 0, CENT, STORE_NO_MONEY },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int is_list = 0; is_list < 2; is_list++) {
			be_somebody_else();
			race(&store, 1, is_list, rows[i].limits, rows[i].bytes, rows[i].spend,
			     rows[i].reason);
			assert_int_equal(crowd.granted, 10);
			assert_int_equal(crowd.refused, CROWD - 10);
			/* What was not used is there again. */
			settle_crowd(rows[i].bytes / 2, rows[i].spend / 2);
			expect_money(self.meters[1], 10 * (rows[i].spend / 2), 0);
			race(&store, 1, is_list, rows[i].limits, rows[i].bytes, rows[i].spend,
			     rows[i].reason);
			assert_int_equal(crowd.granted, rows[i].reason == STORE_NO_PLACE ? 10 : 5);
		}
}

static void the_first_in_a_list_come_first(void **state)
{
	struct ask asks[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		prepare(&asks[i], &(struct limits){ .concurrent = 2 }, 1, 0, 0);
		if (i > 0)
			asks[i - 1].reservation.next = &asks[i].reservation;
	}
	store->ops->reserve(store, &asks[0].reservation, now());
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		wait_for(&asks[i].is_done);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		assert_int_equal(asks[i].reservation.verdict,
				 i < 2 ? STORE_GRANTED : STORE_NO_PLACE);
}

static struct ask follow_up;

static void on_follow_up(struct store_reservation *reservation, uint64_t now_ms)
{
	store->ops->settle(
		store, &(struct store_settlement){ .id = reservation->id, .call_id = "" }, now_ms);
	on_reserved(reservation, now_ms);
}

static void on_first(struct store_reservation *reservation, uint64_t now_ms)
{
	on_follow_up(reservation, now_ms);
	store->ops->reserve(store, &follow_up.reservation, now_ms);
}

static void an_answer_may_lead_to_the_next_question(void **state)
{
	const struct limits limits = { .concurrent = 1 };
	struct ask first;

	(void)state;
	prepare(&follow_up, &limits, 1, 0, 0);
	follow_up.reservation.on_done = on_follow_up;
	prepare(&first, &limits, 1, 0, 0);
	first.reservation.on_done = on_first;
	assert_int_equal(make(&first), STORE_GRANTED);
	wait_for(&follow_up.is_done);
	assert_int_equal(follow_up.reservation.verdict, STORE_GRANTED);
	expect_money(self.meters[0], 0, 0);
	assert_int_equal(read_meter(self.meters[0]).concurrent, 0);
}

/* ---- rates ---- */

static unsigned int count_granted(struct limits limits, unsigned int asked, uint64_t *ret_retry_ms)
{
	unsigned int granted = 0;

	for (unsigned int i = 0; i < asked; i++) {
		struct ask ask;
		enum store_verdict verdict = take(&ask, limits, 0, 0);

		assert_true(verdict == STORE_GRANTED || verdict == STORE_NO_RATE);
		granted += verdict == STORE_GRANTED;
		if (verdict == STORE_NO_RATE)
			*ret_retry_ms = ask.reservation.retry_ms;
		settle(&ask, 0, 0, "");
	}
	return granted;
}

/* One with a clock of its own goes on while it is asked: what may come in that time is allowed. */
static void expect_granted(struct limits limits, unsigned int asked, unsigned int wanted)
{
	const uint64_t token = 1000 * LIMITS_PER_SECOND;
	uint64_t begin = clock_now_ms(), retry_ms = 0;
	unsigned int granted = count_granted(limits, asked, &retry_ms), more = 0;

	if (backend->has_own_clock)
		more = (unsigned int)((clock_now_ms() - begin) * limits.rate / token + 1);
	assert_in_range(granted, wanted, wanted + more);
	assert_in_range(retry_ms, 1, (token + limits.rate - 1) / limits.rate);
}

static void a_rate_has_a_burst_and_then_its_pace(void **state)
{
	const struct limits limits = { .rate = 5 * LIMITS_PER_SECOND, .burst = 5 };

	(void)state;
	expect_granted(limits, 20, 5);
	pass_ms(200);
	expect_granted(limits, 20, 1);
	pass_ms(600);
	expect_granted(limits, 20, 3);
	pass_ms(1500); /* more than fills it */
	expect_granted(limits, 20, 5);
}

static void waiting_as_told_is_enough(void **state)
{
	const struct limits limits = { .rate = 3 * LIMITS_PER_SECOND, .burst = 1 };
	uint64_t retry_ms = 0;
	struct ask ask;

	(void)state;
	count_granted(limits, 10, &retry_ms);
	for (int i = 0; i < 3; i++) {
		/* A refusal costs nothing: else whoever asks all the time never gets through. */
		while (take(&ask, limits, 0, 0) == STORE_GRANTED)
			settle(&ask, 0, 0, "");
		assert_in_range(ask.reservation.retry_ms, 1, 334);
		pass_ms(ask.reservation.retry_ms);
		assert_int_equal(take(&ask, limits, 0, 0), STORE_GRANTED);
	}
}

static void a_burst_of_none_is_a_second(void **state)
{
	(void)state;
	expect_granted((struct limits){ .rate = 8 * LIMITS_PER_SECOND }, 20, 8);
	be_somebody_else();
	expect_granted((struct limits){ .rate = LIMITS_PER_SECOND / 10 }, 5,
		       1); /* one every ten seconds */
}

static void a_slow_rate_tells_a_long_wait(void **state)
{
	uint64_t retry_ms = 0;

	(void)state;
	assert_int_equal(
		count_granted((struct limits){ .rate = LIMITS_PER_SECOND / 10, .burst = 1 }, 2,
			      &retry_ms),
		1);
	assert_in_range(retry_ms, 5000, 10000);
}

/* One that has its own clock may have gone on since; it is never more than a minute. */
static void once_a_minute_is_once_a_minute(void **state)
{
	uint64_t retry_ms = 0;

	(void)state;
	assert_int_equal(
		count_granted((struct limits){ .rate = LIMITS_PER_SECOND / 60 }, 2, &retry_ms), 1);
	assert_in_range(retry_ms, backend->has_own_clock ? 1 : 60000, 60000);
}

/* ---- money whose amount is not known ---- */

static void what_has_no_cost_yet_stays_reserved(void **state)
{
	const struct limits limits = { .concurrent = 1, .bytes = 1000, .spend = CENT };
	struct ask ask;

	(void)state;
	assert_int_equal(take_of_account(&ask, limits, CENT), STORE_GRANTED);
	settle_without_cost(&ask, 30, "");
	expect_money(self.meters[1], 0, CENT);
	assert_int_equal(read_meter(self.meters[1]).concurrent, 0); /* its place is free */
	assert_int_equal(read_meter(self.meters[1]).bytes, 30);
	assert_int_equal(take_of_account(&ask, limits, 1), STORE_NO_MONEY); /* its money is not */
	assert_int_equal(take_of_account(&ask, limits, 0), STORE_GRANTED);
}

static void where_no_money_was_reserved_none_is_kept(void **state)
{
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, (struct limits){ .concurrent = 1 }, 10, 0), STORE_GRANTED);
	settle_without_cost(&ask, 10, "call");
	expect_money(self.meters[0], 0, 0);
	assert_int_equal(take(&ask, (struct limits){ .concurrent = 1 }, 10, 0), STORE_GRANTED);
}

static void what_was_kept_is_reconciled_by_its_call(void **state)
{
	struct store_call call;
	struct ask ask, other;
	char id[NAME_MAX_], other_id[NAME_MAX_];

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	mint(other_id, STORE_CALL_ID_MAX, "call");
	assert_int_equal(take_of_account(&ask, (struct limits){ .spend = MONEY_UNIT }, 10 * CENT),
			 STORE_GRANTED);
	assert_int_equal(take_of_account(&other, (struct limits){ .spend = MONEY_UNIT }, 5 * CENT),
			 STORE_GRANTED);
	settle_without_cost(&ask, 0, id);
	settle_without_cost(&other, 0, other_id);
	expect_money(self.meters[1], 0, 15 * CENT);
	call = reconcile(id, 3 * CENT);
	assert_true(call.was_known);
	assert_int_equal(call.counted, 0); /* it was reserved, not counted as spent */
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], 3 * CENT, 5 * CENT);
	for (int again = 0; again < 2; again++) { /* changes nothing */
		call = reconcile(id, 3 * CENT);
		assert_true(call.was_known);
		assert_int_equal(call.counted, 3 * CENT);
		for (size_t i = 0; i < 2; i++)
			expect_money(self.meters[i], 3 * CENT, 5 * CENT);
	}
}

/* Whoever the log says that it was: what is charged is what was held. */
static void what_was_kept_is_paid_by_its_own_meters(void **state)
{
	const struct limits limits[] = { { .spend = MONEY_UNIT },
					 { .spend = MONEY_UNIT },
					 { .concurrent = 5, .spend = CENT } };
	char id[NAME_MAX_], somebody[NAME_MAX_];
	struct store_call call;
	struct ask ask;

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	prepare(&ask, limits, 3, 0, 10 * CENT); /* more than the host's, which is nothing to it */
	assert_int_equal(make(&ask), STORE_GRANTED);
	settle_without_cost(&ask, 0, id);
	for (size_t i = 0; i < 3; i++)
		expect_money(self.meters[i], 0, i < 2 ? 10 * CENT : 0);
	mint(self.account, sizeof(self.account), "a");
	snprintf(somebody, sizeof(somebody), "account:%.64s", self.account);
	call = reconcile(id, 3 * CENT);
	assert_true(call.was_known);
	for (size_t i = 0; i < 3; i++)
		expect_money(self.meters[i], i < 2 ? 3 * CENT : 0, 0);
	expect_money(somebody, 0, 0);
}

static void what_was_counted_is_corrected(void **state)
{
	struct store_call call;
	char id[NAME_MAX_];
	struct ask ask;

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	assert_int_equal(take_of_account(&ask, (struct limits){ .spend = MONEY_UNIT }, 10 * CENT),
			 STORE_GRANTED);
	settle(&ask, 0, 4 * CENT, id);
	expect_money(self.meters[1], 4 * CENT, 0);
	call = reconcile(id, 6 * CENT);
	assert_true(call.was_known);
	assert_int_equal(call.counted, 4 * CENT);
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], 6 * CENT, 0);
	call = reconcile(id, CENT);
	assert_int_equal(call.counted, 6 * CENT);
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], CENT, 0);
	call = reconcile(id, CENT);
	assert_int_equal(call.counted, CENT);
	expect_money(self.meters[1], CENT, 0);
}

static void a_call_behind_our_back_is_counted_once(void **state)
{
	struct store_call call;
	char id[NAME_MAX_];

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	call = reconcile(id, 7 * CENT);
	assert_false(call.was_known);
	assert_int_equal(call.counted, 0);
	call = reconcile(id, 7 * CENT);
	assert_true(call.was_known);
	assert_int_equal(call.counted, 7 * CENT);
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], 7 * CENT, 0);
}

static void without_an_account_only_the_run_is_corrected(void **state)
{
	char id[NAME_MAX_];

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	self.account[0] = '\0';
	reconcile(id, CENT);
	expect_money(self.meters[0], CENT, 0);
	expect_money(self.meters[1], 0, 0);
	expect_money("account:", 0, 0);
}

/* The upstream's log may be read before the end of the reply is: the call counts once. */
static void the_log_may_be_quicker_than_the_reply(void **state)
{
	const struct limits limits[] = { { 0 }, { .spend = MONEY_UNIT }, { .concurrent = 5 } };
	char ids[2][NAME_MAX_];
	struct ask asks[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		mint(ids[i], STORE_CALL_ID_MAX, "call");
		prepare(&asks[i], limits, 3, 0, 5 * CENT);
		assert_int_equal(make(&asks[i]), STORE_GRANTED);
		assert_false(reconcile(ids[i], CENT).was_known);
	}
	expect_money(self.meters[1], 2 * CENT, 10 * CENT);
	settle(&asks[0], 0, CENT, ids[0]);
	expect_money(self.meters[1], 2 * CENT, 5 * CENT);
	settle_without_cost(&asks[1], 0, ids[1]);
	for (size_t i = 0; i < 3; i++)
		expect_money(self.meters[i], i < 2 ? 2 * CENT : 0, 0);
}

static void what_was_kept_is_released_when_all_is_reconciled(void **state)
{
	struct ask kept, open;

	(void)state;
	assert_int_equal(take_of_account(&kept, (struct limits){ .spend = MONEY_UNIT }, 5 * CENT),
			 STORE_GRANTED);
	assert_int_equal(take_of_account(&open, (struct limits){ .spend = MONEY_UNIT }, CENT),
			 STORE_GRANTED);
	settle_without_cost(&kept, 0, "call-of-which-no-log-says-anything");
	expect_money(self.meters[1], 0, 6 * CENT);
	log_is_read(store, LOG, 0, now_s() - 3600); /* not as old as that */
	flush();
	expect_money(self.meters[1], 0, 6 * CENT);
	all_is_read(store);
	flush();
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], 0, CENT); /* what is under way stays */
	settle(&kept, 0, CENT, "");
	settle(&open, 0, CENT, "");
	expect_money(self.meters[1], CENT, 0);
}

/* Who was not asked, or not about that time, has said nothing. */
static void what_no_log_was_read_for_stays(void **state)
{
	static const struct {
		const char *logs;
		int since_s, before_s; /* from now */
		bool is_released;
	} rows[] = {
		{ "", -3600, 60, false },   { OTHER_LOG, -3600, 60, false },
		{ LOG, 30, 60, false }, /* it may have begun before */
		{ LOG, -3600, -30, false }, { OTHER_LOG LOG, -3600, 60, true },
	};
	struct ask ask, other;

	(void)state;
	assert_int_equal(take_of_account(&ask, (struct limits){ .spend = MONEY_UNIT }, 5 * CENT),
			 STORE_GRANTED);
	settle_without_cost(&ask, 0, "");
	/* Nobody's log will ever have this one. */
	prepare(&other, &(struct limits){ .spend = MONEY_UNIT }, 1, 0, CENT);
	mint(other.reservation.id, sizeof(other.reservation.id), "hold");
	assert_int_equal(make(&other), STORE_GRANTED);
	settle_without_cost(&other, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		expect_money(self.meters[0], 0, 6 * CENT);
		log_is_read(store, rows[i].logs, now_s() + (uint64_t)rows[i].since_s,
			    now_s() + (uint64_t)rows[i].before_s);
		flush();
		turn_until(NULL, 50);
		expect_money(self.meters[0], 0, rows[i].is_released ? CENT : 6 * CENT);
	}
}

/* It is in the log when it has ended: what has lasted long may not be there yet. */
static void what_was_kept_late_is_released_late(void **state)
{
	uint64_t made_s = now_s();
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, (struct limits){ .spend = MONEY_UNIT }, 0, CENT),
			 STORE_GRANTED);
	while (now_s() < made_s + 3)
		turn_until(NULL, 100);
	settle_without_cost(&ask, 0, "");
	log_is_read(store, LOG, 0, made_s + 2);
	flush();
	turn_until(NULL, 50);
	expect_money(self.meters[0], 0, CENT);
	all_is_read(store);
	flush();
	expect_money(self.meters[0], 0, 0);
}

/* ---- runs ---- */

static void a_run_has_one_link(void **state)
{
	const uint64_t before_ms = clock_ms(CLOCK_REALTIME);
	uint64_t first = 0, again = 0;

	(void)state;
	assert_int_equal(open_attempt(1, &first), STORE_GRANTED);
	assert_in_range(first, before_ms, clock_ms(CLOCK_REALTIME));
	assert_int_equal(open_attempt(1, NULL), STORE_HAS_LINK);
	assert_int_equal(open_attempt(2, NULL), STORE_HAS_LINK); /* it is the same run */
	close_run();
	turn_until(NULL, 10); /* time has gone on */
	assert_int_equal(open_attempt(2, &again), STORE_GRANTED);
	assert_int_equal(again, first);
	close_run();
}

static void the_time_of_a_run_begins_once_whatever_it_comes_by(void **state)
{
	const uint64_t before_ms = clock_ms(CLOCK_REALTIME);
	uint64_t by_token, by_link = 0, others;

	(void)state;
	by_token = ask_begun_ms(1);
	assert_in_range(by_token, before_ms, clock_ms(CLOCK_REALTIME));
	assert_int_equal(ask_begun_ms(2), by_token); /* it is the same run */
	assert_int_equal(open_attempt(1, &by_link), STORE_GRANTED);
	assert_int_equal(by_link, by_token);
	assert_int_equal(ask_begun_ms(1), by_token);
	assert_int_equal(open_run(), STORE_HAS_LINK); /* who takes no link leaves it alone */
	close_run();
	assert_int_equal(ask_begun_ms(1), by_token);
	be_somebody_else();
	others = ask_begun_ms(1);
	assert_true(others > by_token); /* the control */
	be_somebody_else();
	assert_int_equal(open_attempt(1, &by_link), STORE_GRANTED);
	assert_true(by_link > others);
	turn_until(NULL, 10);
	assert_int_equal(ask_begun_ms(1), by_link);
	close_run();
	assert_int_equal(ask_begun_ms(1), by_link);
}

/* Somebody has known it for longer: from then on it is as old for everybody. */
static void a_run_is_as_old_as_anybody_knows(void **state)
{
	const uint64_t hour_ms = 3600000;
	uint64_t begun_ms, older_ms = 0;

	(void)state;
	for (int has_link = 0; has_link < 2; has_link++) {
		be_somebody_else();
		begun_ms = ask_begun_ms(1);
		if (has_link)
			assert_int_equal(open_run(), STORE_GRANTED);
		assert_int_equal(ask_for_run(1, true, hour_ms, &older_ms), STORE_GRANTED);
		assert_in_range(begun_ms - older_ms, hour_ms - 60000, hour_ms);
		assert_int_equal(ask_begun_ms(2), older_ms);
		assert_int_equal(open_run(), has_link ? STORE_HAS_LINK : STORE_GRANTED);
		close_run();
		assert_int_equal(ask_begun_ms(1), older_ms);
		if (backend->is_lasting)
			reopen();
		assert_int_equal(ask_begun_ms(1), older_ms);
	}
	be_somebody_else();
	assert_int_equal(ask_for_run(1, false, hour_ms, &older_ms), STORE_GRANTED);
	assert_in_range(clock_ms(CLOCK_REALTIME) - older_ms, hour_ms, hour_ms + 60000);
	assert_int_equal(ask_begun_ms(1), older_ms);
}

static void a_run_without_a_link_can_be_revoked(void **state)
{
	(void)state;
	ask_begun_ms(1);
	revoke_run();
	assert_int_equal(ask_for_run(1, true, 0, NULL), STORE_IS_REVOKED);
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_REVOKED], 0); /* that nobody has open here */
}

static void a_run_that_is_revoked_is_over(void **state)
{
	struct ask ask;

	(void)state;
	assert_int_equal(open_run(), STORE_GRANTED);
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, CENT / 2), STORE_GRANTED);
	revoke_run();
	expect_news(STORE_NEWS_REVOKED, 1, self.run);
	assert_int_equal(take(&ask, (struct limits){ 0 }, 0, 0), STORE_IS_REVOKED);
	assert_int_equal(ask.reservation.retry_ms, 0);
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, 1), STORE_IS_REVOKED);
	close_run();
	assert_int_equal(open_run(), STORE_IS_REVOKED);
	revoke_run(); /* does no harm */
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_REVOKED], 1);
}

static void what_was_held_by_a_revoked_run_is_settled(void **state)
{
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, (struct limits){ .spend = CENT }, 0, CENT), STORE_GRANTED);
	revoke_run();
	settle(&ask, 0, CENT / 2, "");
	expect_money(self.meters[0], CENT / 2, 0);
}

static void a_run_can_be_revoked_before_it_begins(void **state)
{
	(void)state;
	revoke_run();
	assert_int_equal(open_run(), STORE_IS_REVOKED);
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_REVOKED], 0); /* nobody here has it open */
}

/* ---- news of money ---- */

static void money_that_is_used_up_is_told_once(void **state)
{
	const struct limits limits = { .spend = 10 * CENT };
	struct ask asks[4];
	char id[NAME_MAX_];

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	assert_int_equal(open_run(), STORE_GRANTED);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		assert_int_equal(take_of_account(&asks[i], limits, 2 * CENT), STORE_GRANTED);
	settle(&asks[0], 0, 9 * CENT, "");
	expect_money(self.meters[1], 9 * CENT, 6 * CENT);
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_NO_MONEY], 0); /* what is reserved is not spent */
	settle(&asks[1], 0, CENT, id);
	expect_news(STORE_NEWS_NO_MONEY, 1, self.meters[1]);
	settle(&asks[2], 0, CENT, "");
	expect_money(self.meters[1], 11 * CENT, 2 * CENT);
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_NO_MONEY], 1);
	reconcile(id, 0); /* and it is used up still */
	expect_money(self.meters[1], 10 * CENT, 2 * CENT);
	turn_until(NULL, 50);
	assert_int_equal(news.count[STORE_NEWS_NO_MONEY], 1);
}

static void money_may_be_used_up_twice(void **state)
{
	const struct limits limits = { .spend = 10 * CENT };
	struct ask asks[2];
	char id[NAME_MAX_];

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	assert_int_equal(open_run(), STORE_GRANTED);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(take_of_account(&asks[i], limits, 2 * CENT), STORE_GRANTED);
	settle(&asks[0], 0, 10 * CENT, id);
	expect_news(STORE_NEWS_NO_MONEY, 1, self.meters[1]);
	reconcile(id, CENT);
	expect_money(self.meters[1], CENT, 2 * CENT);
	turn_until(NULL, backend->has_own_clock ? 1100 : 0); /* seen below it, by polling, too */
	settle(&asks[1], 0, 9 * CENT, "");
	expect_news(STORE_NEWS_NO_MONEY, 2, self.meters[1]);
}

/* A request to a host: it has the limits of its run and account, and costs no money. */
static void prepare_free(struct ask *ask, struct limits limits)
{
	const struct limits both[] = { { 0 }, limits };

	prepare(ask, both, 2, 0, 0);
	ask->reservation.is_of_money = false;
}

/* Whatever is asked in one turn, of whatever kind: news come once, and the turn ends. */
static void what_costs_nothing_makes_no_news(void **state)
{
	const struct limits limits = { .spend = 10 * CENT }, both[] = { { 0 }, limits };
	struct ask asks[8], ask;

	(void)state;
	assert_int_equal(open_run(), STORE_GRANTED);
	assert_int_equal(take_of_account(&ask, limits, CENT), STORE_GRANTED);
	settle(&ask, 0, 10 * CENT, "");
	expect_news(STORE_NEWS_NO_MONEY, 1, self.meters[1]);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		if (i % 2 == 0)
			prepare_free(&asks[i], limits);
		else
			prepare(&asks[i], both, 2, 0, CENT);
		if (i > 0)
			asks[i - 1].reservation.next = &asks[i].reservation;
	}
	store->ops->reserve(store, &asks[0].reservation, now());
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		wait_for(&asks[i].is_done);
		assert_int_equal(asks[i].reservation.verdict,
				 i % 2 == 0 ? STORE_GRANTED : STORE_NO_MONEY);
	}
	turn_until(NULL, backend->has_own_clock ? 1100 : 0);
	assert_int_equal(news.count[STORE_NEWS_NO_MONEY], 1);
}

static void what_costs_nothing_keeps_no_news_away(void **state)
{
	const struct limits limits = { .spend = 10 * CENT };
	struct ask paid, under_way, ask;

	(void)state;
	assert_int_equal(open_run(), STORE_GRANTED);
	assert_int_equal(take_of_account(&under_way, limits, CENT), STORE_GRANTED);
	assert_int_equal(take_of_account(&paid, limits, CENT), STORE_GRANTED);
	/* With the limit or without: it is nothing to it. */
	prepare_free(&ask, limits);
	assert_int_equal(make(&ask), STORE_GRANTED);
	prepare_free(&ask, (struct limits){ .concurrent = 10 });
	assert_int_equal(make(&ask), STORE_GRANTED);
	settle(&paid, 0, 10 * CENT, "");
	expect_news(STORE_NEWS_NO_MONEY, 1, self.meters[1]);
}

/* ---- after the keeper ---- */

static void what_was_counted_outlives_the_keeper(void **state)
{
	const struct limits limits = { .bytes = 1000, .spend = 10 * CENT };
	const struct limits both[] = { limits, limits };
	uint64_t begun_ms = 0, again = 0;
	char id[NAME_MAX_];
	struct ask asks[2], ask;

	(void)state;
	mint(id, STORE_CALL_ID_MAX, "call");
	assert_int_equal(open_attempt(1, &begun_ms), STORE_GRANTED);
	for (size_t i = 0; i < 2; i++) {
		prepare(&asks[i], both, 2, 100, 3 * CENT);
		assert_int_equal(make(&asks[i]), STORE_GRANTED);
	}
	settle(&asks[0], 60, 4 * CENT, "");
	settle_without_cost(&asks[1], 40, id);
	expect_money(self.meters[1], 4 * CENT, 3 * CENT);
	close_run();
	flush();
	turn_until(NULL, 100);
	reopen();
	for (size_t i = 0; i < 2; i++) {
		expect_money(self.meters[i], 4 * CENT, 3 * CENT);
		assert_int_equal(read_meter(self.meters[i]).bytes, 100);
		assert_int_equal(read_meter(self.meters[i]).concurrent, 0);
	}
	assert_int_equal(take_of_account(&ask, limits, 4 * CENT), STORE_NO_MONEY);
	assert_int_equal(open_attempt(2, &again), STORE_GRANTED);
	assert_int_equal(again, begun_ms);
	reconcile(id, CENT);
	close_run();
	turn_until(NULL, 100);
	reopen();
	for (size_t i = 0; i < 2; i++)
		expect_money(self.meters[i], 5 * CENT, 0);
	assert_int_equal(reconcile(id, CENT).counted, CENT);
	revoke_run();
	reopen();
	assert_int_equal(take(&ask, (struct limits){ 0 }, 0, 0), STORE_IS_REVOKED);
	assert_int_equal(open_run(), STORE_IS_REVOKED);
}

static void the_time_of_a_run_goes_on_without_the_keeper(void **state)
{
	uint64_t begun_ms;

	(void)state;
	begun_ms = ask_begun_ms(1);
	reopen();
	assert_int_equal(ask_begun_ms(1), begun_ms);
	assert_int_equal(open_run(), STORE_GRANTED);
	assert_int_equal(ask_begun_ms(1), begun_ms);
	reopen(); /* with its link: that of a keeper which is gone */
	assert_int_equal(ask_begun_ms(2), begun_ms);
	be_somebody_else();
	assert_true(ask_begun_ms(1) > begun_ms); /* the control */
}

static void what_a_hold_has_got_more_outlives_the_keeper(void **state)
{
	const struct limits limits = { .bytes = 1000 };
	struct ask ask, more;

	(void)state;
	assert_int_equal(take_more(&ask, limits, 100, 100), STORE_GRANTED);
	assert_int_equal(extend(&more, &ask, 500), STORE_GRANTED);
	reopen();
	assert_int_equal(read_meter(self.meters[0]).bytes, 700);
	assert_int_equal(take(&ask, limits, 301, 0), STORE_NO_BYTES);
	assert_int_equal(take(&ask, limits, 300, 0), STORE_GRANTED);
}

static void what_a_keeper_left_counts_until_it_is_released(void **state)
{
	const struct limits limits = { .spend = 10 * CENT };
	struct ask ask;

	(void)state;
	assert_int_equal(take_of_account(&ask, limits, 8 * CENT), STORE_GRANTED);
	reopen();
	expect_money(self.meters[1], 0, 8 * CENT);
	assert_int_equal(take_of_account(&ask, limits, 3 * CENT), STORE_NO_MONEY);
}

/* Nobody knows what became of its bytes: they count, where its money comes back. */
static void what_a_keeper_left_has_used_its_bytes(void **state)
{
	const struct limits limits = { .bytes = 100, .spend = 10 * CENT };
	struct ask ask;

	(void)state;
	assert_int_equal(take(&ask, limits, 60, 8 * CENT), STORE_GRANTED);
	reopen();
	all_is_read(store);
	flush();
	expect_money(self.meters[0], 0, 0);
	assert_int_equal(read_meter(self.meters[0]).bytes, 60);
	assert_int_equal(take(&ask, limits, 41, CENT), STORE_NO_BYTES);
	reopen();
	assert_int_equal(read_meter(self.meters[0]).bytes, 60);
	assert_int_equal(take(&ask, limits, 41, CENT), STORE_NO_BYTES);
	assert_int_equal(take(&ask, limits, 40, CENT), STORE_GRANTED);
}

/* ---- several keepers ---- */

static void two_keepers_share_one_truth(void **state)
{
	static const struct {
		struct limits limits;
		uint64_t bytes, spend;
		enum store_verdict reason;
	} rows[] = {
		{ { .concurrent = 10 }, 0, 0, STORE_NO_PLACE },
		{ { .bytes = 1000 }, 100, 0, STORE_NO_BYTES },
		{ { .spend = 10 * CENT }, 0, CENT, STORE_NO_MONEY },
	};
	struct store *stores[2];

	(void)state;
	stores[0] = store;
	stores[1] = open_store();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		be_somebody_else();
		race(stores, 2, false, rows[i].limits, rows[i].bytes, rows[i].spend,
		     rows[i].reason);
		assert_int_equal(crowd.granted, 10);
		assert_int_equal(crowd.refused, CROWD - 10);
	}
	stores[1]->ops->close(stores[1]);
}

static void one_link_among_all_keepers(void **state)
{
	struct store *first = store, *second;

	(void)state;
	second = open_store();
	assert_int_equal(open_run(), STORE_GRANTED);
	store = second;
	assert_int_equal(open_run(), STORE_HAS_LINK);
	store = first;
	close_run();
	turn_until(NULL, 100);
	store = second;
	assert_int_equal(open_run(), STORE_GRANTED);
	store = first;
	assert_int_equal(open_run(), STORE_HAS_LINK);
	store = second;
	close_run();
	turn_until(NULL, 50);
	store = first;
	second->ops->close(second);
}

static void the_time_of_a_run_is_the_same_for_all_keepers(void **state)
{
	struct store *first = store, *second = open_store();
	uint64_t begun_ms;

	(void)state;
	begun_ms = ask_begun_ms(1);
	assert_int_equal(open_run(), STORE_GRANTED);
	store = second;
	assert_int_equal(ask_begun_ms(1), begun_ms); /* its link is elsewhere, and stays there */
	assert_int_equal(open_run(), STORE_HAS_LINK);
	be_somebody_else();
	assert_true(ask_begun_ms(1) > begun_ms);
	store = first;
	second->ops->close(second);
}

/* What happens at one keeper is told by the other one, where the run is. */
static void news_come_from_other_keepers(void **state)
{
	struct store *first = store, *second;
	struct ask here, there;

	(void)state;
	second = open_store();
	second->on_news = NULL;
	assert_int_equal(open_run(), STORE_GRANTED);
	assert_int_equal(take_of_account(&here, (struct limits){ .spend = CENT }, CENT / 2),
			 STORE_GRANTED);
	store = second;
	assert_int_equal(take_of_account(&there, (struct limits){ .spend = CENT }, CENT / 2),
			 STORE_GRANTED);
	settle(&there, 0, CENT, "");
	expect_news(STORE_NEWS_NO_MONEY, 1, self.meters[1]);
	revoke_run();
	expect_news(STORE_NEWS_REVOKED, 1, self.run);
	store = first;
	assert_int_equal(take_of_account(&here, (struct limits){ 0 }, 0), STORE_IS_REVOKED);
	close_run();
	turn_until(NULL, 50);
	second->ops->close(second);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int conformance_run(const struct backend *subject)
{
	const struct CMUnitTest all[] = {
		FRESH(what_is_granted_is_held_and_what_is_settled_is_used),
		FRESH(a_meter_that_nobody_has_used_is_at_nothing),
		FRESH(no_claims_are_granted),
		FRESH(without_limits_everything_is_counted),
		FRESH(without_a_limit_there_is_always_room),
		FRESH(every_limit_has_its_verdict),
		FRESH(all_of_it_or_nothing),
		FRESH(limits_are_those_of_the_last_claim),
		FRESH(what_was_really_used_counts),
		FRESH(a_hold_is_settled_once),
		FRESH(as_many_bytes_as_there_are),
		FRESH(a_hold_may_become_larger),
		FRESH(a_revoked_run_gets_no_more),
		FRESH(a_thousand_race_for_ten),
		FRESH(the_first_in_a_list_come_first),
		FRESH(an_answer_may_lead_to_the_next_question),
		FRESH(a_rate_has_a_burst_and_then_its_pace),
		FRESH(waiting_as_told_is_enough),
		FRESH(a_burst_of_none_is_a_second),
		FRESH(a_slow_rate_tells_a_long_wait),
		FRESH(once_a_minute_is_once_a_minute),
		FRESH(what_has_no_cost_yet_stays_reserved),
		FRESH(where_no_money_was_reserved_none_is_kept),
		FRESH(what_was_kept_is_reconciled_by_its_call),
		FRESH(what_was_kept_is_paid_by_its_own_meters),
		FRESH(what_was_counted_is_corrected),
		FRESH(a_call_behind_our_back_is_counted_once),
		FRESH(without_an_account_only_the_run_is_corrected),
		FRESH(the_log_may_be_quicker_than_the_reply),
		FRESH(what_was_kept_is_released_when_all_is_reconciled),
		FRESH(what_no_log_was_read_for_stays),
		FRESH(what_was_kept_late_is_released_late),
		FRESH(a_run_has_one_link),
		FRESH(the_time_of_a_run_begins_once_whatever_it_comes_by),
		FRESH(a_run_is_as_old_as_anybody_knows),
		FRESH(a_run_without_a_link_can_be_revoked),
		FRESH(a_run_that_is_revoked_is_over),
		FRESH(what_was_held_by_a_revoked_run_is_settled),
		FRESH(a_run_can_be_revoked_before_it_begins),
		FRESH(money_that_is_used_up_is_told_once),
		FRESH(money_may_be_used_up_twice),
		FRESH(what_costs_nothing_makes_no_news),
		FRESH(what_costs_nothing_keeps_no_news_away),
	};
	const struct CMUnitTest lasting[] = {
		FRESH(what_was_counted_outlives_the_keeper),
		FRESH(the_time_of_a_run_goes_on_without_the_keeper),
		FRESH(what_a_hold_has_got_more_outlives_the_keeper),
		FRESH(what_a_keeper_left_counts_until_it_is_released),
		FRESH(what_a_keeper_left_has_used_its_bytes),
	};
	const struct CMUnitTest shared[] = {
		FRESH(two_keepers_share_one_truth),
		FRESH(one_link_among_all_keepers),
		FRESH(the_time_of_a_run_is_the_same_for_all_keepers),
		FRESH(news_come_from_other_keepers),
	};
	int failed;

	backend = subject;
	print_message("== store: %s\n", backend->name);
	failed = cmocka_run_group_tests_name("any store", all, NULL, NULL);
	if (backend->is_lasting)
		failed += cmocka_run_group_tests_name("one that lasts", lasting, NULL, NULL);
	if (backend->is_shared)
		failed += cmocka_run_group_tests_name("one that is shared", shared, NULL, NULL);
	return failed;
}
