/* SPDX-License-Identifier: MIT */
/*
 * Trying out what a kernel allows, by doing it in a process of its own that is thrown
 * away. Each returns 0 when it works and -errno when it does not.
 */
#ifndef SYS_PROBE_H
#define SYS_PROBE_H

#include "base/attr.h"

int probe_user_namespace(void);   /* make one and map one's own id in it */
int probe_mount_in_userns(void);  /* ... and change the mounts of a namespace in it */
int probe_other_namespaces(void); /* PID, network, IPC, UTS and cgroup */
int probe_proc(void);             /* mount a new /proc in them */
int probe_overlayfs(void);        /* mount overlayfs in them */
int probe_nat(void);              /* load an nftables NAT chain in them */
int probe_seccomp(void);
int probe_pidfd(void);
int probe_idmap(const char *path); /* show a directory under other ids; needs root */

#endif
