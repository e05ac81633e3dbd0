/* SPDX-License-Identifier: MIT */
/* What this process uses of the machine. */
#ifndef SYS_USAGE_H
#define SYS_USAGE_H

#include <stdint.h>

#include "base/attr.h"

struct usage {
	uint64_t start_time_ms; /* since 1970 */
	uint64_t cpu_us;        /* its own and the kernel's for it */
	uint64_t resident_bytes;
	uint64_t open_fds;
	uint64_t max_fds;
};

/* 0 or -errno. Needs /proc. */
int usage_read(struct usage *ret_usage) must_check;

#endif
