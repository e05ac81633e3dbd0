/* SPDX-License-Identifier: MIT */
/* One directory of a control group file system; shared by the backends. */
#ifndef SYS_CGROUP_DIR_H
#define SYS_CGROUP_DIR_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

#define CGROUP_PREFIX "warder-"

/* Makes and locks `name`, which ends with ".PID"; the caller owns the descriptor. */
int cgroup_dir_make(int parent_fd, const char *name) must_check;

/* Removes it, waiting a moment for the last process to be gone from it. */
void cgroup_dir_remove(int parent_fd, const char *name);

/* Removes every directory of ours below `parent_fd` that nobody holds a lock on. */
void cgroup_dir_sweep(int parent_fd);

/* Writes one number; an absent file is no error when `optional`. */
int cgroup_dir_write(int dir_fd, const char *file, uint64_t value, int optional,
		     struct err *err) must_check;

/* The value of "key N" in a file, or of its only number when key is NULL; 0 if absent. */
uint64_t cgroup_dir_read(int dir_fd, const char *file, const char *key);

#endif
