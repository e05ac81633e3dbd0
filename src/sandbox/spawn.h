/* SPDX-License-Identifier: MIT */
/* Starting the sandbox's first process, and what the supervisor owes it. */
#ifndef SANDBOX_SPAWN_H
#define SANDBOX_SPAWN_H

#include "sandbox/plan.h"
#include "sys/cgroup.h"

struct spawned {
	int pidfd;      /* the sandbox's init */
	int control_fd; /* messages to and from it */
};

/*
 * Clones into new namespaces with the agent's descriptors `std_fds`, maps ids where
 * that takes privileges, and moves it into its control group. The caller owns what
 * is in *ret_spawned, also after a failure; -1 is nothing.
 */
int spawn_sandbox(struct plan *plan, struct cgroup *cgroup, const int std_fds[3],
		  struct spawned *ret_spawned, struct err *err) must_check;

#endif
