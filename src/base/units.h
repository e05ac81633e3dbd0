/* SPDX-License-Identifier: MIT */
/* Numbers as people write them: 512M, 1.5G, 10m, 250ms, 1.5, 30/m. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

#include "base/attr.h"

/*
 * Each accepts the whole text or nothing, and returns 0, -EINVAL (not of this
 * form) or -ERANGE (does not fit). No signs, no spaces, no exponents.
 */
int units_parse_count(const char *text, uint64_t *ret_count) must_check;
int units_parse_size(const char *text,
		     uint64_t *ret_bytes) must_check; /* K M G T: powers of 1024 */
int units_parse_duration(const char *text,
			 uint64_t *ret_ms) must_check; /* ms s m h d; none: seconds */
int units_parse_milli(const char *text, uint64_t *ret_milli) must_check; /* 1.5 is 1500 */

/* How often: 10 and 10/s a second, 30/m a minute, 100/h an hour; as struct limits has it. */
int units_parse_rate(const char *text, uint64_t *ret_rate) must_check;

#endif
