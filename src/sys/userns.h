/* SPDX-License-Identifier: MIT */
/* User namespaces: one id inside, one id outside. */
#ifndef SYS_USERNS_H
#define SYS_USERNS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

struct userns_map {
	uid_t inside_uid, outside_uid;
	gid_t inside_gid, outside_gid;
};

/*
 * Writes the maps of process `pid` (0: the caller's own). With `deny_groups`
 * setgroups is given up first, as the kernel demands of an ordinary user.
 */
int userns_write_map(pid_t pid, const struct userns_map *map, int deny_groups) must_check;

/* A user namespace with this map and no process in it; needs privileges. */
int userns_open_mapped(const struct userns_map *map) must_check;

/* An id far from any account's, or the highest one this namespace can express. */
uid_t userns_spare_id(const char *map_path, uint32_t seed);

#endif
