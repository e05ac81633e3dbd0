/* SPDX-License-Identifier: MIT */
/* The mount API of Linux 5.12: trees as descriptors, attributes in one call. */
#ifndef SYS_MOUNT_H
#define SYS_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

struct mount_option {
	const char *key;
	const char *value; /* NULL: a flag */
};

/* All return a descriptor or 0, and -errno on failure. */

/* A private copy of the mounts at `path`, not attached anywhere; the caller owns it. */
int mount_clone(int dir_fd, const char *path) must_check;

/* A new file system, not attached anywhere; the caller owns it. */
int mount_new(const char *type, const struct mount_option *options, uint64_t attributes) must_check;

/*
 * Adds MOUNT_ATTR_* to the mount at `fd`, and to those below it when `recursive`, and cuts
 * them off from the mounts they are copies of.
 */
int mount_restrict(int fd, uint64_t attributes, bool recursive) must_check;

/* Shows the files of an unattached tree under the ids of `userns_fd`. */
int mount_idmap(int fd, int userns_fd) must_check;

/* Attaches an unattached tree at a directory or file. */
int mount_attach(int tree_fd, int target_fd) must_check;

/* Cuts every mount of this namespace off from the propagation of others. */
int mount_make_private(void) must_check;

/* Makes `root_fd` the root, detaches the old one, and moves to the new "/". */
int mount_pivot(int root_fd) must_check;

/*
 * Opens a path below `root_fd` without leaving it and without following any
 * symbolic link, however the path or the tree was prepared.
 */
int mount_open_beneath(int root_fd, const char *path, int flags) must_check;

#endif
