/* SPDX-License-Identifier: MIT */
/* Moments as logs write them (RFC 3339), in milliseconds since 1970. */
#ifndef BASE_TIMESTAMP_H
#define BASE_TIMESTAMP_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"

#define TIMESTAMP_TEXT_MAX 32

/*
 * Reads "2026-11-15", "2026-11-15T14:50:42Z" or "2026-11-15 14:50:42.144831+01:00". Without a
 * zone it is UTC, without a time midnight; what is finer than a millisecond is left away.
 * 0 or -EINVAL.
 */
int timestamp_parse(struct bytes text, uint64_t *ret_ms) must_check;

/* "2026-11-15T14:50:42.144Z". */
void timestamp_format(uint64_t ms, char ret_text[TIMESTAMP_TEXT_MAX]);

#endif
