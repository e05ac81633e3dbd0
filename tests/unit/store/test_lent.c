/* SPDX-License-Identifier: MIT */
/* A store that another process has: it does what all have to do, and is told what lives. */
#include "store/desk.h"

#include <sys/socket.h>

#include "store/conformance.h"
#include "store/lent.h"

/* Both ends are in one loop here; each test has a pair of its own. */
static struct {
	struct loop *loop;
	struct store *real;
	struct lender *lender;
} pair;

static void on_news(struct store *store, enum store_news news, const char *about, uint64_t now_ms)
{
	(void)store;
	(void)now_ms;
	if (pair.lender)
		lender_tell(pair.lender, news, about);
}

static void on_over(void *owner)
{
	(void)owner;
	pair.lender = NULL;
}

/* What was there before it is closed: its borrower is. */
static void drop(void)
{
	if (!pair.real)
		return;
	lender_free(pair.lender);
	pair.real->ops->close(pair.real);
	pair.real = NULL;
	pair.lender = NULL;
}

static struct store *open_lent(struct loop *loop)
{
	struct store *lent;
	int fds[2];

	drop();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return NULL;
	pair.loop = loop;
	pair.real = store_local_new(loop, NULL);
	pair.real->on_news = on_news;
	pair.lender = lender_new(pair.real, fds[1]);
	lender_set_on_over(pair.lender, on_over, NULL);
	lent = store_lent_new(loop, fds[0]);
	store_lent_go(lent, 0);
	return lent;
}

/* ---- one that is slow to serve ---- */

#define HOUR_MS 3600000

static void on_opened(struct store_run *run, uint64_t now_ms)
{
	(void)run;
	(void)now_ms;
}

static enum store_verdict open_at(struct store *store, const char *run_id, bool has_no_link,
				  uint64_t *ret_begun_ms)
{
	struct store_run run = { .run_id = run_id,
				 .account = "",
				 .has_no_link = has_no_link,
				 .verdict = STORE_GRANTED,
				 .on_done = on_opened };

	store->ops->open_run(store, &run, clock_now_ms());
	*ret_begun_ms = run.begun_ms;
	return run.verdict;
}

/* All that can be done is. */
static void settle_down(struct loop *loop)
{
	for (int i = 0; i < 32; i++)
		assert_true(loop_turn(loop, 0) >= 0);
}

/* It serves late; or, if it has gone on, does not answer for as long. */
static void tell_late(struct store *real, bool has_gone, struct loop *loop)
{
	struct store_claim claim = { "run:linked", { .concurrent = 1 } };
	struct store_reservation hold = { .id = "hold",
					  .run_id = "linked",
					  .account = "",
					  .claims = { claim },
					  .claim_count = 1 };
	struct store_run waiting = { .run_id = "waiting", .account = "", .on_done = on_opened };
	uint64_t wall_ms = clock_ms(CLOCK_REALTIME), begun_ms;
	uint64_t before_ms = clock_now_ms() - 2 * (uint64_t)STORE_ANSWER_MS;
	struct lender *lender;
	struct store *lent;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	lent = store_lent_new(loop, fds[0]);
	store_reopen_run(lent, "linked", wall_ms - HOUR_MS, false, before_ms);
	store_reopen_run(lent, "named", wall_ms - HOUR_MS, true, before_ms);
	store_retake(lent, &hold, before_ms);
	lent->ops->open_run(lent, &waiting, before_ms);
	if (has_gone)
		store_lent_go(lent, before_ms);
	settle_down(loop);
	assert_int_equal(waiting.verdict, STORE_UNREACHABLE); /* the control: it took too long */
	lender = lender_new(real, fds[1]);
	if (!has_gone)
		store_lent_go(lent, clock_now_ms());
	settle_down(loop);
	assert_int_equal(open_at(real, "linked", false, &begun_ms), STORE_HAS_LINK);
	assert_int_equal(open_at(real, "waiting", false, &begun_ms), STORE_GRANTED);
	assert_int_equal(open_at(real, "linked", true, &begun_ms), STORE_GRANTED);
	assert_in_range(wall_ms - begun_ms, HOUR_MS - 60000, HOUR_MS);
	assert_int_equal(open_at(real, "named", true, &begun_ms), STORE_GRANTED);
	assert_in_range(wall_ms - begun_ms, HOUR_MS - 60000, HOUR_MS);
	assert_int_equal(desk_read(real, "run:linked").concurrent, 1);
	lender_free(lender);
	lent->ops->close(lent);
}

static void tell_both(struct store *(*open)(struct loop *loop))
{
	for (int has_gone = 0; has_gone < 2; has_gone++) {
		struct store *real;
		struct loop loop;

		assert_int_equal(desk_make_dir(NULL), 0);
		assert_int_equal(loop_init(&loop), 0);
		real = open(&loop);
		tell_late(real, has_gone, &loop);
		real->ops->close(real);
		loop_fini(&loop);
		assert_int_equal(desk_remove_dir(NULL), 0);
	}
}

static struct store *open_in_memory(struct loop *loop)
{
	return store_local_new(loop, NULL);
}

static void what_lives_is_told_however_long_it_takes(void **state)
{
	(void)state;
	tell_both(open_in_memory);
}

static void what_lives_is_told_to_one_with_a_file(void **state)
{
	(void)state;
	tell_both(desk_open);
}

static int run_own(void)
{
	RUN_TESTS(cmocka_unit_test(what_lives_is_told_however_long_it_takes),
		  cmocka_unit_test(what_lives_is_told_to_one_with_a_file));
}

int main(void)
{
	static const struct backend backend = { .name = "lent",
						.open = open_lent,
						.has_own_clock = true };

	return run_own() + conformance_run(&backend);
}
