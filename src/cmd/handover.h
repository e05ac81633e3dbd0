/* SPDX-License-Identifier: MIT */
/*
 * One keeper takes another's place, for a new version or another command line, without a
 * connection being refused.
 *
 *   the successor, with all that may take its time, asks at the control socket  H ──▶
 *   the one before stops accepting, and sends its listeners, each by its name   ◀── L name, …
 *   ... and those that are the service manager's                                ◀── M name, …
 *   a store that only one process can have is given up, and borrowed back       ◀── L store
 *   that was all                                                                ◀── DONE
 *   the successor has opened everything and serves                               GO ──▶
 *
 * After GO the one before lets nobody in any more. Whoever was let in already may still have a run,
 * within some seconds; then it takes no more, serves those that it has, and ends with the last.
 * A successor that ends before GO changes nothing: the store is opened again and the listeners
 * are heard again, on which nobody has been refused meanwhile, only waited. So have requests that
 * need the store. One that hangs is not waited for any longer than 15 s; it gives up by itself
 * after 10.
 */
#ifndef CMD_HANDOVER_H
#define CMD_HANDOVER_H

#include "base/err.h"
#include "keeper/keeper.h"
#include "sys/listen_fds.h"

#define HANDOVER_PARTS_MAX 8

/* ---- the successor ---- */

/*
 * Asks the keeper at `path` for its place. *ret_fd is the conversation, -1 when nobody listens
 * there; its listeners are in *ret_given, and the other end of the store that it borrows is
 * *ret_store_fd, or -1.
 */
int handover_ask(const char *path, int *ret_fd, struct listen_fds *ret_given, int *ret_store_fd,
		 struct err *err) must_check;

/* Everything is open: the place is ours. */
int handover_finish(int fd, struct err *err) must_check;

/* ---- the one before ---- */

struct handover;

struct handover_ops {
	/* Stops accepting; goes on with it, as before, when nothing came of it; or never again. */
	void (*pause)(void *owner);
	void (*stay)(void *owner, const char *why, uint64_t now_ms);
	void (*leave)(void *owner, pid_t successor, uint64_t now_ms);
	/* Gives the store up for a borrowed one. What stands against it is told to the successor.
	 */
	int (*lend)(void *owner, int *ret_fd, struct err *err);
};

struct handover_part {
	const char *name;
	int fd; /* borrowed */
	bool is_managed;
};

/*
 * Takes the conversation. NULL when the other end was told why it is not possible now; then
 * `stay` has been called.
 */
struct handover *handover_begin(struct loop *loop, int fd, pid_t pid,
				const struct handover_part *parts, size_t count,
				const struct handover_ops *ops, void *owner, uint64_t now_ms);

/* Until when the successor is waited for, instead of 15 s: for tests. */
void handover_set_patience(struct handover *handover, uint64_t due_ms);
void handover_free(struct handover *handover); /* NULL is fine */

#endif
