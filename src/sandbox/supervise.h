/* SPDX-License-Identifier: MIT */
/* Watching over a run from its start to its end. */
#ifndef SANDBOX_SUPERVISE_H
#define SANDBOX_SUPERVISE_H

#include <termios.h>

#include "sandbox/message.h"
#include "sandbox/relay.h"
#include "sandbox/spawn.h"

#define RELAYS_MAX 3

struct supervision {
	const struct plan *plan;
	const struct cgroup *cgroup;
	struct spawned *spawned;
	int signal_fd; /* signals to pass on, or -1 */
	struct relay *relays;
	size_t relay_count;
	struct budget *budget;
	int tty_fd;               /* the caller's terminal, whose size the agent's follows, or -1 */
	struct termios *tty_mode; /* what to restore it to while stopped, or NULL */
	uint64_t start_ms;

	/* What came of it. */
	bool has_failed; /* the agent was not started: `failure` */
	struct message failure;
	bool has_exited;
	int wait_status;
	bool has_timed_out;
	int init_status; /* how the sandbox's init itself ended, for when it said nothing */
	int master_fd;   /* the agent's terminal; owned */
};

/* Returns when the sandbox's init is gone and reaped, and with it every process. */
void supervise(struct supervision *run);

#endif
