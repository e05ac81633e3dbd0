/* SPDX-License-Identifier: MIT */
/* Resource limits, which are only ever lowered. */
#ifndef SYS_RLIMIT_H
#define SYS_RLIMIT_H

#include <stdint.h>

#include "base/attr.h"

/* Sets both limits to `value`, or to the hard limit where that is stricter. 0 or -errno. */
int rlimit_lower(int resource, uint64_t value) must_check;

#endif
