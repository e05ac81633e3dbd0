/* SPDX-License-Identifier: MIT */
/* Landlock: which files may be read and which may be written, whatever the mounts say. */
#ifndef SYS_LANDLOCK_H
#define SYS_LANDLOCK_H

#include "base/attr.h"

/* The first version that allows renaming between directories to be granted. */
#define LANDLOCK_ABI_MIN 2

/* The kernel's Landlock version; 0 when it has none. */
int landlock_abi(void);

/*
 * Restricts this process and its descendants: reading and executing below
 * `readable` (NULL: nowhere), everything below each of `writable` (ends with NULL; one that does
 * not exist is passed over). Needs no_new_privs. 0 or -errno.
 */
int landlock_restrict(int abi, const char *readable, const char *const *writable) must_check;

#endif
