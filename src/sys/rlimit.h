/* SPDX-License-Identifier: MIT */
/* Resource limits. Hard ones are only ever lowered. */
#ifndef SYS_RLIMIT_H
#define SYS_RLIMIT_H

#include <stdint.h>

#include "base/attr.h"

/* Sets both limits to `value`, or to the hard limit where that is stricter. 0 or -errno. */
int rlimit_lower(int resource, uint64_t value) must_check;

/* The soft limit, or UINT64_MAX where there is none. */
uint64_t rlimit_get(int resource);

/* Raises the soft limit to `value`, or to the hard limit where that is lower. */
void rlimit_raise(int resource, uint64_t value);

#endif
