/* SPDX-License-Identifier: MIT */
/*
 * Control groups: memory, processes and processor time of a whole run.
 *
 * A backend is a struct of functions; "none" is one of them, so that no caller
 * asks whether there is a group. A group is a directory named after its run. Its
 * maker keeps a lock on it: when the maker is gone, however it went, the lock is
 * too, and whoever starts next removes the directory.
 */
#ifndef SYS_CGROUP_H
#define SYS_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

#define CGROUP_NAME_MAX 128

enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_CONTROLLERS,
};

/* 0: no such limit. */
struct cgroup_limits {
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t cpu_milli;
};

struct cgroup_usage {
	uint64_t oom_kills;
	uint64_t memory_peak_bytes;
};

struct cgroup_backend;

struct cgroup {
	const struct cgroup_backend *backend;
	char name[CGROUP_NAME_MAX];
	/* By controller; v2 has one hierarchy and uses only the first. -1: not used. */
	int parent_fds[CGROUP_CONTROLLERS];
	int dir_fds[CGROUP_CONTROLLERS];
	int join_fds[CGROUP_CONTROLLERS]; /* what the process writes to, to move itself in, or -1 */
	int clone_fd;     /* start the process in this group, or -1: attach it afterwards */
	int oom_fd;       /* readable when the kernel has killed for memory, or -1 */
	int holder_fd;    /* what keeps a systemd scope alive lives until this is closed, or -1 */
	int bus_fd;       /* to systemd, or -1 */
	int holder_pidfd; /* ... and is reaped through this */
};

struct cgroup_backend {
	const char *name;
	/* Makes the group and arms the limits; on failure nothing is left behind. */
	int (*open)(struct cgroup *group, const struct cgroup_limits *limits, struct err *err);
	/* Moves a process in, where neither it nor its start can do that. */
	int (*attach)(struct cgroup *group, pid_t pid, struct err *err);
	void (*measure)(const struct cgroup *group, struct cgroup_usage *ret_usage);
	/* Removes the groups whose makers are gone, where this backend would make its own. */
	void (*sweep)(void);
};

extern const struct cgroup_backend cgroup_v2, cgroup_v1, cgroup_systemd, cgroup_none;

/*
 * Opens a group with the backend of that name; "auto" tries each in turn, and is
 * "none" when there is nothing to limit. A limit that cannot be armed is an error
 * that says what would make it possible (INV-FAIL-CLOSED).
 */
int cgroup_open(struct cgroup *group, const char *backend, const char *name,
		const struct cgroup_limits *limits, struct err *err) must_check;

/*
 * Moves the calling process in, where it was neither started in the group nor attached.
 * May be called between clone and exec. 0 or -errno.
 */
int cgroup_join(const struct cgroup *group) must_check;

/* Removes the group, which must be empty by now, and frees what it holds. */
void cgroup_close(struct cgroup *group);

/* Removes the groups of any backend whose makers are gone. */
void cgroup_sweep(void);

#endif
