/* SPDX-License-Identifier: MIT */
/* The log of an upstream that will have what a test calls, by the ids of its holds; and that it was
 * read. */
#ifndef STORE_LOGS_H
#define STORE_LOGS_H

#include <stdio.h>

#include "base/clock.h"
#include "store/store.h"

#define LOG       ".0a1b2c3d"
#define OTHER_LOG ".4e5f6a7b"

static inline uint64_t now_s(void)
{
	return clock_ms(CLOCK_REALTIME) / 1000;
}

static inline void log_is_read(struct store *at, const char *logs, uint64_t since_s,
			       uint64_t before_s)
{
	struct store_release read = { .since_s = since_s, .before_s = before_s };

	snprintf(read.logs, sizeof(read.logs), "%s", logs);
	at->ops->release(at, &read, clock_now_ms());
}

/* Whatever it has not was no call. */
static inline void all_is_read(struct store *at)
{
	log_is_read(at, LOG, 0, now_s() + 60);
}

#endif
