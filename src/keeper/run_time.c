/* SPDX-License-Identifier: MIT */
/* When runs began, and when they are over. */
#include "keeper/run_time.h"

#include <stdlib.h>

#include "base/die.h"
#include "store/lent.h"

/* What the store is asked about a run; it goes with the answer. */
struct run_question {
	struct store_run request; /* first */
	struct keeper *keeper;
	struct run *run; /* NULL: gone meanwhile */
	char run_id[RUNID_MAX + 1];
	char *account; /* owned; "" for none */
};

/* ---- its end ---- */

static void on_time_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct run *run = OWNER_OF(timer, struct run, end_timer);
	struct peer *peer = run->peer;

	for (size_t i = 0; i < peer->place_count; i++)
		if (peer->exchanges[i] && peer->exchanges[i]->run == run)
			exchange_cut(peer->exchanges[i], REFUSAL_DURATION, now_ms);
}

void run_time_watch(struct run *run)
{
	struct loop *loop = &run->peer->keeper->loop;
	uint64_t ends_ms = run_ends_ms(run);

	run->end_timer.on_due = on_time_over;
	if (ends_ms)
		loop_set_timer(loop, &run->end_timer, ends_ms);
	else
		loop_cancel(loop, &run->end_timer);
}

/* ---- its beginning ---- */

bool run_time_is_unknown(const struct run *run)
{
	return run->begun_ms == 0 && run_ends_ms(run) && run->peer->keeper->store;
}

/* A run with a link has no such time before the store has said when it began. */
static uint64_t age_of(const struct run *run, uint64_t now_ms)
{
	return run->since_ms > 0 && now_ms > run->since_ms ? run->age_ms + (now_ms - run->since_ms)
							   : run->age_ms;
}

uint64_t run_time_age(const struct keeper *keeper, const char *run_id, uint64_t now_ms)
{
	uint64_t age_ms = 0;

	for (const struct peer *peer = keeper->peers; peer; peer = peer->next)
		for (const struct run *run = peer_next_run_of(peer, run_id, NULL); run;
		     run = peer_next_run_of(peer, run_id, run))
			if (age_of(run, now_ms) > age_ms)
				age_ms = age_of(run, now_ms);
	return age_ms;
}

/* The store's clock may be another one: what was seen here is not undone by it. */
static void set_begun(struct run *run, uint64_t begun_ms, uint64_t age_ms, uint64_t now_ms)
{
	run_set_begun(run, begun_ms, now_ms);
	if (run->age_ms < age_ms)
		run->age_ms = age_ms;
}

void run_time_begin(const struct keeper *keeper, struct run *run, uint64_t begun_ms,
		    uint64_t now_ms)
{
	uint64_t age_ms = run_time_age(keeper, run->run_id, now_ms);

	set_begun(run, begun_ms, age_ms, now_ms);
	for (const struct peer *peer = keeper->peers; peer; peer = peer->next)
		for (struct run *other = peer_next_run_of(peer, run->run_id, NULL); other;
		     other = peer_next_run_of(peer, run->run_id, other)) {
			if (other->begun_ms > begun_ms)
				set_begun(other, begun_ms, age_ms, now_ms);
			if (other->begun_ms > 0)
				run_time_watch(other);
		}
}

/* Only a reload can have let anything through before: that must not go on either. */
static void tell_exchange(struct exchange *exchange, enum store_verdict verdict, uint64_t now_ms)
{
	if (exchange->state == EXCHANGE_RESERVE && !exchange->hold)
		exchange_on_time(exchange, verdict, now_ms);
	else if (exchange->state != EXCHANGE_HOLD && verdict != STORE_GRANTED &&
		 run_time_is_unknown(exchange->run))
		exchange_cut(exchange,
			     verdict == STORE_IS_REVOKED ? REFUSAL_REVOKED : REFUSAL_STORE, now_ms);
}

/* Who grants it says since when. What is no answer to this question is none. */
static enum store_verdict judge_answer(const struct store_run *answer)
{
	if (answer->verdict == STORE_IS_REVOKED ||
	    (answer->verdict == STORE_GRANTED && answer->begun_ms > 0))
		return answer->verdict;
	return STORE_UNREACHABLE;
}

static void on_answer(struct store_run *request, uint64_t now_ms)
{
	struct run_question *question = (struct run_question *)(void *)request;
	struct run *run = question->run;
	enum store_verdict verdict = judge_answer(request);

	question->keeper->metrics.store_requests[verdict]++;
	if (run) {
		run->question = NULL;
		if (verdict == STORE_GRANTED)
			run_time_begin(question->keeper, run, request->begun_ms, now_ms);
		for (size_t i = 0; i < run->peer->place_count; i++)
			if (run->peer->exchanges[i] && run->peer->exchanges[i]->run == run)
				tell_exchange(run->peer->exchanges[i], verdict, now_ms);
	}
	free(question->account);
	free(question);
}

void run_time_ask(struct run *run, uint64_t now_ms)
{
	struct keeper *keeper = run->peer->keeper;
	struct run_question *question;

	if (run->question)
		return;
	question = calloc(1, sizeof(*question));
	if (!question)
		die_no_memory();
	question->keeper = keeper;
	question->run = run;
	question->account = strdup(run->account ? run->account : "");
	if (!question->account)
		die_no_memory();
	memcpy(question->run_id, run->run_id, sizeof(question->run_id));
	question->request = (struct store_run){
		.run_id = question->run_id,
		.account = question->account,
		.attempt = run->attempt,
		.has_no_link = true,
		.age_ms = run_time_age(keeper, run->run_id, now_ms),
		.on_done = on_answer,
	};
	run->question = question;
	keeper->store->ops->open_run(keeper->store, &question->request, now_ms);
}

void run_time_renew(struct run *run, uint64_t now_ms)
{
	run_time_watch(run);
	if (run->exchange_count > 0 && run_time_is_unknown(run))
		run_time_ask(run, now_ms);
}

void run_time_fini(struct run *run)
{
	loop_cancel(&run->peer->keeper->loop, &run->end_timer);
	if (run->question)
		run->question->run = NULL;
}

/* ---- another store ---- */

void run_time_tell(const struct keeper *keeper, uint64_t now_ms)
{
	for (const struct peer *peer = keeper->peers; peer; peer = peer->next) {
		if (peer->run && peer->run->is_enrolled)
			store_reopen_run(keeper->store, peer->run->run_id, peer->run->begun_ms,
					 false, now_ms);
		for (const struct run *run = peer_next_token_run(peer, NULL); run;
		     run = peer_next_token_run(peer, run))
			if (run->begun_ms > 0)
				store_reopen_run(keeper->store, run->run_id, run->begun_ms, true,
						 now_ms);
	}
}
