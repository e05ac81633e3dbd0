/* SPDX-License-Identifier: MIT */
/*
 * The event loop: the only place that knows epoll.
 *
 * One turn: wait, dispatch what is ready, run the timers that are due, finish the turn, free
 * what was given up. Finishing is for what is better done once for all of a turn's events,
 * such as writing what they have gathered. A callback may remove anything, itself included, and
 * anything that is ready in the same turn: what it removes is not called any more, and what it
 * frees with loop_defer lives to the end of the turn.
 *
 * The time is taken once per turn and passed on.
 */
#ifndef EVENT_LOOP_H
#define EVENT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum loop_interest {
	LOOP_READ = 1,
	LOOP_WRITE = 2,
	LOOP_HANGUP = 4, /* only told, never asked for: both directions are closed, or an error */
};

/* A descriptor; a part of whatever owns it. */
struct loop_source {
	int fd; /* borrowed; -1 while it is not in a loop */
	unsigned int interest;
	/*
	 * `ready` is a set of enum loop_interest. A hang-up is told whatever was asked for,
	 * turn after turn, and makes the descriptor readable and writable as well.
	 */
	void (*on_ready)(struct loop_source *source, unsigned int ready, uint64_t now_ms);
};

struct loop_timer {
	uint64_t due_ms;
	size_t place; /* in the heap, from 1; 0: not set */
	void (*on_due)(struct loop_timer *timer, uint64_t now_ms);
};

/* Something to be freed at the end of the turn. */
struct loop_deferred {
	struct loop_deferred *next;
	void (*free)(struct loop_deferred *deferred);
};

struct loop {
	int epoll_fd;
	struct loop_timer **heap; /* by due time; heap[0] is not used */
	size_t timer_count, heap_size;
	struct loop_deferred *deferred;
	/* The events of this turn that are still to be dispatched. */
	struct epoll_event *events;
	int event_count, event_next;
	bool is_over;
	void (*on_turn_end)(struct loop *loop, uint64_t now_ms); /* or NULL */
};

int loop_init(struct loop *loop) must_check;
void loop_fini(struct loop *loop);

/* 0 or -errno. The source must stay where it is until it is removed. */
int loop_add(struct loop *loop, struct loop_source *source, int fd,
	     unsigned int interest) must_check;
int loop_change(struct loop *loop, struct loop_source *source, unsigned int interest) must_check;

/* Before its descriptor is closed. What is not in the loop is left alone. */
void loop_remove(struct loop *loop, struct loop_source *source);

/* Sets a timer, anew if it was set already; loop_cancel is fine with one that is not. */
void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t due_ms);
void loop_cancel(struct loop *loop, struct loop_timer *timer);

void loop_defer(struct loop *loop, struct loop_deferred *deferred);

/* One turn, which waits for at most `wait_ms` (-1: for ever). 0 or -errno. */
int loop_turn(struct loop *loop, int wait_ms) must_check;

/* Turns until a callback calls loop_end. */
int loop_run(struct loop *loop) must_check;
void loop_end(struct loop *loop);

#endif
