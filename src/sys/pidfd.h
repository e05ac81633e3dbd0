/* SPDX-License-Identifier: MIT */
/* Processes held by descriptor: no pid can be reused under our hands. */
#ifndef SYS_PIDFD_H
#define SYS_PIDFD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

/*
 * fork() with namespaces. The child has no exit signal, so nobody else's SIGCHLD
 * handling sees it. `cgroup_fd` (or -1) is the v2 group it starts in. Returns the
 * pid, 0 in the child, or -errno; the caller owns *ret_pidfd.
 *
 * The child shares no memory with the parent but inherits its locks as they were:
 * when the parent has threads, the child must not allocate memory.
 */
pid_t pidfd_clone(uint64_t namespaces, int cgroup_fd, int *ret_pidfd) must_check;

int pidfd_kill(int pidfd, int signal);

/* Of a child that was started otherwise. -errno when there is none. */
int pidfd_of(pid_t pid) must_check;

/* Waits for a child; returns its wait status as waitpid has it, or -errno. */
int pidfd_reap(int pidfd) must_check;

#endif
