/* SPDX-License-Identifier: MIT */
/*
 * The control socket of a shared keeper: runs are registered here, listed, shown and revoked.
 *
 * Packets, a letter and words with a NUL each. Who is at the other end is what the kernel says
 * (SO_PEERCRED). A connection that has registered a run is that run's owner: it hears of it as
 * of a private keeper (sys/status.h), and the run ends with it.
 *
 *   register   R  NAME=VALUE…  ◀ LINK (the gate's end of it comes along),
 *              WORDS… (options, as of a file; then placeholders), READY; later the summary
 *   open gate  O  ◀ LINK, READY; every request on it has a run token
 *   list       L  ◀ RUN (NAME=VALUE…)…, DONE
 *   show       S  RUN  ◀ RUN, DONE
 *   revoke     X  RUN  ◀ DONE
 *   drain      D  ◀ DONE; the keeper ends when the last run has
 *   hand over  H  what follows is between two keepers; see cmd/handover.h
 *
 * Whatever goes wrong is answered by FAILED. A run that may not begin is on record
 * (keeper/refused.h); who is not let in, or says what is no registration, is in the log for the
 * operator only: nobody knows which run that would have been.
 *
 * INV-BOUNDED: a user who is neither ourselves nor root has at most a share of the descriptors in
 * connections, of which every run of its own needs one, and nobody but these two comes in when few
 * are left. A connection without a run, a question or an answer is closed after a while.
 */
#ifndef KEEPER_CONTROL_H
#define KEEPER_CONTROL_H

#include "keeper/keeper.h"

#define CONTROL_PACKET_MAX  65536
#define CONTROL_PATIENCE_MS 10000 /* with who asks nothing, or reads nothing of the answer */
#define CONTROL_USER_SHARE  16    /* one of so many parts of all descriptors */

enum control_request {
	CONTROL_REGISTER = 'R',
	CONTROL_OPEN_GATE = 'O',
	CONTROL_LIST = 'L',
	CONTROL_SHOW = 'S',
	CONTROL_REVOKE = 'X',
	CONTROL_DRAIN = 'D',
	CONTROL_HAND_OVER = 'H',
};

struct control;

/* Somebody who may register runs beside ourselves and root, and who pays for them. */
struct control_user {
	uid_t uid;
	char account[128];
};

struct control_config {
	int listener_fd;                  /* owned by the control from here on */
	const struct control_user *users; /* borrowed */
	size_t user_count;
	const char *audit; /* where the log is, for summaries; borrowed */
	/* No more runs are to begin; once there is none, the keeper is to end. */
	void (*on_drain)(void *owner, uint64_t now_ms);
	/* Somebody wants to take our place; the descriptor is the callee's. */
	void (*on_hand_over)(void *owner, int fd, pid_t pid, uint64_t now_ms);
	void *owner;
};

int control_new(struct keeper *keeper, const struct control_config *config,
		struct control **ret_control, struct err *err) must_check;

/* The listener, which stays the control's. */
int control_listener(const struct control *control);

/*
 * Others may register runs from now on; `users` is borrowed. Whoever is not among them any more is
 * sent away, and their runs end.
 */
void control_set_users(struct control *control, const struct control_user *users, size_t user_count,
		       uint64_t now_ms);

/* No new connections for a while, or for good; those that there are stay. */
void control_pause(struct control *control);
int control_resume(struct control *control) must_check;
void control_stop_listening(struct control *control);

/* Whether somebody has not said yet what it wants, or is about to have a run. */
bool control_is_busy(const struct control *control);

/* Ends every connection. */
void control_free(struct control *control);

#endif
