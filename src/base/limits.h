/* SPDX-License-Identifier: MIT */
/* How much something may be used: a run, a billing account or a host. 0 is no limit. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define LIMITS_PER_SECOND UINT64_C(3600000) /* the rate that is one request a second */

#define LIMITS_DURATION_DAYS 365 /* at most */

struct limits {
	uint64_t rate;  /* requests per hour, in thousandths: exact for a second's or a minute's */
	uint64_t burst; /* requests at once after a pause; 0: one second's, at least one */
	uint64_t concurrent;  /* exchanges at once */
	uint64_t bytes;       /* of bodies, out and back, for ever */
	uint64_t spend;       /* money, as in base/money.h */
	uint64_t duration_ms; /* of a run, from its first beginning */
};

/* Whether anything has to be reserved because of them; for time nothing has. */
static inline bool limits_are_any(const struct limits *limits)
{
	return limits->rate || limits->concurrent || limits->bytes || limits->spend;
}

#endif
