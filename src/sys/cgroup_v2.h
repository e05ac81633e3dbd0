/* SPDX-License-Identifier: MIT */
/* The unified hierarchy, for the backends that work in it. */
#ifndef SYS_CGROUP_V2_H
#define SYS_CGROUP_V2_H

#include "sys/cgroup.h"

/* The directory of the v2 group that process `pid` ("self" or a number) is in. */
int cgroup_v2_path_of(const char *pid, char *path, size_t size, struct err *err) must_check;

/* Enables the controllers that the limits need for the children of `parent_fd`. */
int cgroup_v2_enable(int parent_fd, const struct cgroup_limits *limits, struct err *err) must_check;

/* Makes the group below group->parent_fds[0] and arms the limits. */
int cgroup_v2_make(struct cgroup *group, const struct cgroup_limits *limits,
		   struct err *err) must_check;

void cgroup_v2_measure(const struct cgroup *group, struct cgroup_usage *ret_usage);

#endif
