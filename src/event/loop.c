/* SPDX-License-Identifier: MIT */
/* epoll, a heap of timers, and a list of what to free. */
#include "event/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/die.h"

#define EVENTS_MAX 256
#define FIRST_HEAP 64

int loop_init(struct loop *loop)
{
	*loop = (struct loop){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	if (loop->epoll_fd < 0)
		return -errno;
	loop->events = calloc(EVENTS_MAX, sizeof(*loop->events));
	if (!loop->events)
		die_no_memory();
	return 0;
}

static void free_deferred(struct loop *loop)
{
	while (loop->deferred) {
		struct loop_deferred *deferred = loop->deferred;

		loop->deferred = deferred->next;
		deferred->free(deferred);
	}
}

void loop_fini(struct loop *loop)
{
	free_deferred(loop);
	close_fd(&loop->epoll_fd);
	free(loop->events);
	free(loop->heap);
}

/* ---- descriptors ---- */

static int control(struct loop *loop, int operation, struct loop_source *source)
{
	struct epoll_event event = { .data.ptr = source };

	if (source->interest & LOOP_READ)
		event.events |= EPOLLIN | EPOLLRDHUP;
	if (source->interest & LOOP_WRITE)
		event.events |= EPOLLOUT;
	return epoll_ctl(loop->epoll_fd, operation, source->fd, &event) < 0 ? -errno : 0;
}

int loop_add(struct loop *loop, struct loop_source *source, int fd, unsigned int interest)
{
	int r;

	source->fd = fd;
	source->interest = interest;
	r = control(loop, EPOLL_CTL_ADD, source);
	if (r < 0)
		source->fd = -1;
	return r;
}

int loop_change(struct loop *loop, struct loop_source *source, unsigned int interest)
{
	if (source->interest == interest)
		return 0;
	source->interest = interest;
	return control(loop, EPOLL_CTL_MOD, source);
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
	if (source->fd < 0)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = -1;
	/* It may be ready in this turn, and gone before its event is reached. */
	for (int i = loop->event_next; i < loop->event_count; i++)
		if (loop->events[i].data.ptr == source)
			loop->events[i].data.ptr = NULL;
}

/* ---- timers ---- */

static void put(struct loop *loop, size_t place, struct loop_timer *timer)
{
	loop->heap[place] = timer;
	timer->place = place;
}

static void sift_up(struct loop *loop, size_t place, struct loop_timer *timer)
{
	while (place > 1 && loop->heap[place / 2]->due_ms > timer->due_ms) {
		put(loop, place, loop->heap[place / 2]);
		place /= 2;
	}
	put(loop, place, timer);
}

static void sift_down(struct loop *loop, size_t place, struct loop_timer *timer)
{
	for (;;) {
		size_t child = place * 2;

		if (child < loop->timer_count &&
		    loop->heap[child + 1]->due_ms < loop->heap[child]->due_ms)
			child++;
		if (child > loop->timer_count || loop->heap[child]->due_ms >= timer->due_ms)
			break;
		put(loop, place, loop->heap[child]);
		place = child;
	}
	put(loop, place, timer);
}

void loop_cancel(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer *last;
	size_t place = timer->place;

	if (!place)
		return;
	timer->place = 0;
	last = loop->heap[loop->timer_count--];
	if (last == timer)
		return;
	/* The last one takes the place, and may have to go either way from there. */
	if (place > 1 && loop->heap[place / 2]->due_ms > last->due_ms)
		sift_up(loop, place, last);
	else
		sift_down(loop, place, last);
}

void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t due_ms)
{
	loop_cancel(loop, timer);
	if (loop->timer_count + 2 > loop->heap_size) {
		size_t size = loop->heap_size ? loop->heap_size * 2 : FIRST_HEAP;
		struct loop_timer **heap = realloc(loop->heap, size * sizeof(struct loop_timer *));

		if (!heap)
			die_no_memory();
		loop->heap = heap;
		loop->heap_size = size;
	}
	timer->due_ms = due_ms;
	sift_up(loop, ++loop->timer_count, timer);
}

static void run_timers(struct loop *loop, uint64_t now_ms)
{
	/* Those that are set by one of these run in the next turn: no timer can hold the loop. */
	size_t most = loop->timer_count;

	while (most-- > 0 && loop->timer_count > 0 && loop->heap[1]->due_ms <= now_ms) {
		struct loop_timer *timer = loop->heap[1];

		loop_cancel(loop, timer);
		timer->on_due(timer, now_ms);
	}
}

/* How long to wait: not beyond the first timer. */
static int wait_time(const struct loop *loop, int wait_ms, uint64_t now_ms)
{
	uint64_t left_ms;

	if (loop->timer_count == 0)
		return wait_ms;
	left_ms = loop->heap[1]->due_ms > now_ms ? loop->heap[1]->due_ms - now_ms : 0;
	if (wait_ms >= 0 && (uint64_t)wait_ms < left_ms)
		return wait_ms;
	return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* ---- turns ---- */

void loop_defer(struct loop *loop, struct loop_deferred *deferred)
{
	deferred->next = loop->deferred;
	loop->deferred = deferred;
}

static unsigned int ready_of(uint32_t events)
{
	unsigned int ready = 0;

	if (events & (EPOLLIN | EPOLLRDHUP))
		ready |= LOOP_READ;
	if (events & EPOLLOUT)
		ready |= LOOP_WRITE;
	if (events & (EPOLLERR | EPOLLHUP))
		ready |= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
	return ready;
}

int loop_turn(struct loop *loop, int wait_ms)
{
	uint64_t now_ms = clock_now_ms();
	int count = epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX,
			       wait_time(loop, wait_ms, now_ms));

	if (count < 0 && errno != EINTR)
		return -errno;
	now_ms = clock_now_ms();
	loop->event_count = count < 0 ? 0 : count;
	for (loop->event_next = 0; loop->event_next < loop->event_count;) {
		const struct epoll_event *event = &loop->events[loop->event_next++];
		struct loop_source *source = event->data.ptr;

		if (source)
			source->on_ready(source, ready_of(event->events), now_ms);
	}
	loop->event_count = 0;
	run_timers(loop, now_ms);
	if (loop->on_turn_end)
		loop->on_turn_end(loop, now_ms);
	free_deferred(loop);
	return 0;
}

int loop_run(struct loop *loop)
{
	int r = 0;

	while (r == 0 && !loop->is_over)
		r = loop_turn(loop, -1);
	loop->is_over = false;
	return r;
}

void loop_end(struct loop *loop)
{
	loop->is_over = true;
}
