/* SPDX-License-Identifier: MIT */
/* The loop: what is ready is called, what was removed is not, timers come in order. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/loop.h"

static struct loop loop;

static int set_up(void **state)
{
	(void)state;
	return loop_init(&loop);
}

static int tear_down(void **state)
{
	(void)state;
	loop_fini(&loop);
	return 0;
}

/* ---- descriptors ---- */

struct peer {
	struct loop_source source;
	struct peer *removes; /* what its callback removes */
	int fds[2];
	int calls;
	unsigned int ready;
};

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct peer *peer = (struct peer *)source;

	assert_true(now_ms > 0);
	peer->calls++;
	peer->ready = ready;
	if (peer->removes)
		loop_remove(&loop, &peer->removes->source);
}

static void open_peer(struct peer *peer, bool has_input)
{
	*peer = (struct peer){ .source = { .fd = -1, .on_ready = on_ready } };
	assert_int_equal(pipe(peer->fds), 0);
	assert_int_equal(loop_add(&loop, &peer->source, peer->fds[0], LOOP_READ), 0);
	if (has_input)
		assert_int_equal(write(peer->fds[1], "x", 1), 1);
}

static void close_peer(struct peer *peer)
{
	loop_remove(&loop, &peer->source);
	loop_remove(&loop, &peer->source); /* twice does no harm */
	close(peer->fds[0]);
	if (peer->fds[1] >= 0)
		close(peer->fds[1]);
}

static void only_what_is_ready_is_called(void **state)
{
	struct peer idle, busy;

	(void)state;
	open_peer(&idle, false);
	open_peer(&busy, true);
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(idle.calls, 0);
	assert_int_equal(busy.calls, 1);
	assert_int_equal(busy.ready, LOOP_READ);
	assert_int_equal(loop_change(&loop, &busy.source, 0), 0);
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(busy.calls, 1);
	close_peer(&idle);
	close_peer(&busy);
}

static void the_other_side_hanging_up_is_ready(void **state)
{
	struct peer peer;

	(void)state;
	open_peer(&peer, false);
	close(peer.fds[1]);
	peer.fds[1] = -1;
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(peer.calls, 1);
	assert_true(peer.ready & LOOP_READ);
	close_peer(&peer);
}

/* Both are ready in one turn; whichever is first removes the other. */
static void what_was_removed_in_a_turn_is_not_called_in_it(void **state)
{
	struct peer a, b;

	(void)state;
	open_peer(&a, true);
	open_peer(&b, true);
	a.removes = &b;
	b.removes = &a;
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(a.calls + b.calls, 1);
	close_peer(&a);
	close_peer(&b);
}

static void a_callback_may_remove_itself(void **state)
{
	struct peer peer;

	(void)state;
	open_peer(&peer, true);
	peer.removes = &peer;
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(peer.calls, 1);
	close_peer(&peer);
}

/* ---- freeing ---- */

struct thing {
	struct loop_deferred deferred;
	struct loop_source source;
	int fds[2];
};

static int freed;

static void free_thing(struct loop_deferred *deferred)
{
	struct thing *thing = (struct thing *)deferred;

	close(thing->fds[0]);
	close(thing->fds[1]);
	free(thing);
	freed++;
}

static struct thing *things[2];

/* Gives up both things, while the other one's event may still be waiting in this turn. */
static void give_up(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	(void)source;
	(void)ready;
	(void)now_ms;
	for (int i = 0; i < 2; i++) {
		loop_remove(&loop, &things[i]->source);
		loop_defer(&loop, &things[i]->deferred);
	}
	assert_int_equal(freed, 0);
}

static void what_is_given_up_lives_to_the_end_of_the_turn(void **state)
{
	(void)state;
	freed = 0;
	for (int i = 0; i < 2; i++) {
		things[i] = calloc(1, sizeof(*things[i]));
		assert_non_null(things[i]);
		things[i]->deferred.free = free_thing;
		things[i]->source.on_ready = give_up;
		assert_int_equal(pipe(things[i]->fds), 0);
		assert_int_equal(write(things[i]->fds[1], "x", 1), 1);
		assert_int_equal(loop_add(&loop, &things[i]->source, things[i]->fds[0], LOOP_READ),
				 0);
	}
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(freed, 2);
}

/* ---- timers ---- */

#define TIMERS 500

struct clock_timer {
	struct loop_timer timer;
	struct clock_timer *cancels;
};

static uint64_t last_due;
static int due_count;

static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct clock_timer *own = (struct clock_timer *)timer;

	assert_true(timer->due_ms <= now_ms);
	assert_true(timer->due_ms >= last_due);
	last_due = timer->due_ms;
	due_count++;
	if (own->cancels)
		loop_cancel(&loop, &own->cancels->timer);
}

static void timers_come_in_order_and_cancelled_ones_do_not(void **state)
{
	static struct clock_timer timers[TIMERS];
	uint64_t base = clock_now_ms() - 10 * TIMERS;
	int expected = 0;

	(void)state;
	last_due = 0;
	due_count = 0;
	srand(1);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < TIMERS; i++) { /* set, and set anew */
			timers[i].timer.on_due = on_due;
			loop_set_timer(&loop, &timers[i].timer, base + (uint64_t)(rand() % TIMERS));
		}
	for (int i = 0; i < TIMERS; i++) {
		if (i % 3 == 0)
			loop_cancel(&loop, &timers[i].timer);
		else
			expected++;
	}
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(due_count, expected);
	assert_int_equal(loop.timer_count, 0);
}

static void a_timer_may_cancel_another_that_is_due(void **state)
{
	struct clock_timer first = { .timer.on_due = on_due }, second = { .timer.on_due = on_due };

	(void)state;
	last_due = 0;
	due_count = 0;
	first.cancels = &second;
	loop_set_timer(&loop, &first.timer, 1);
	loop_set_timer(&loop, &second.timer, 2);
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(due_count, 1);
}

static void end_loop(struct loop_timer *timer, uint64_t now_ms)
{
	(void)timer;
	(void)now_ms;
	loop_end(&loop);
}

static void a_timer_ends_the_wait(void **state)
{
	struct loop_timer timer = { .on_due = end_loop };
	uint64_t start = clock_now_ms();

	(void)state;
	loop_set_timer(&loop, &timer, start + 20);
	assert_int_equal(loop_run(&loop), 0);
	assert_true(clock_now_ms() - start >= 20);
}

/* One that is always due again must not keep the loop from its descriptors. */
static void set_again(struct loop_timer *timer, uint64_t now_ms)
{
	due_count++;
	loop_set_timer(&loop, timer, now_ms);
}

static void a_busy_timer_runs_once_a_turn(void **state)
{
	struct loop_timer timer = { .on_due = set_again };

	(void)state;
	due_count = 0;
	loop_set_timer(&loop, &timer, 1);
	assert_int_equal(loop_turn(&loop, -1), 0);
	assert_int_equal(due_count, 1);
	loop_cancel(&loop, &timer);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(only_what_is_ready_is_called), FRESH(the_other_side_hanging_up_is_ready),
		  FRESH(what_was_removed_in_a_turn_is_not_called_in_it),
		  FRESH(a_callback_may_remove_itself),
		  FRESH(what_is_given_up_lives_to_the_end_of_the_turn),
		  FRESH(timers_come_in_order_and_cancelled_ones_do_not),
		  FRESH(a_timer_may_cancel_another_that_is_due), FRESH(a_timer_ends_the_wait),
		  FRESH(a_busy_timer_runs_once_a_turn));
}
