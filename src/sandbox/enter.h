/* SPDX-License-Identifier: MIT */
/* From a process in new namespaces to the agent in its sandbox. */
#ifndef SANDBOX_ENTER_H
#define SANDBOX_ENTER_H

#include <limits.h>

#include "sandbox/plan.h"
#include "sys/cgroup.h"

struct entry {
	struct plan *plan;
	const struct cgroup *cgroup;
	int control_fd;         /* to the supervisor */
	int std_fds[3];         /* the agent's 0, 1 and 2; -1: its terminal */
	mode_t umask;           /* the caller's */
	int exit_status;        /* what to report when a stage fails */
	char command[PATH_MAX]; /* the file to execute */
};

/*
 * Goes through the stages, starts the agent and becomes the init of its PID
 * namespace. Runs in the cloned process; allocates nothing; never returns.
 */
void enter_sandbox(struct entry *entry) does_not_return;

#endif
