/* SPDX-License-Identifier: MIT */
/* Loading a system call filter that was compiled at build time. */
#ifndef SYS_SECCOMP_H
#define SYS_SECCOMP_H

#include <linux/filter.h>

#include "base/attr.h"

/* Binds this process and its descendants to the filter. Needs no_new_privs. */
int seccomp_load(const struct sock_filter *filter, size_t len) must_check;

#endif
