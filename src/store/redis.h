/* SPDX-License-Identifier: MIT */
/*
 * The store in a Redis that several keepers share (Redis 5 or later, one server, not a cluster).
 *
 * Redis decides: a script per question, which nothing comes between. What is answered is as safe
 * as that Redis is: with "appendonly yes" it outlives Redis' process, with "appendfsync always"
 * its machine. One that may throw data away for want of memory is refused.
 */
#ifndef STORE_REDIS_H
#define STORE_REDIS_H

#include "base/err.h"
#include "event/loop.h"
#include "store/store.h"

/*
 * `url` as in store/redis_url.h. NULL only for a URL that cannot be; a Redis that is not there is
 * dialled until it is.
 */
struct store *store_redis_new(struct loop *loop, const char *url, struct err *err) must_check;

/* Instead of STORE_ALIVE_MS, before the loop's first turn: for tests. */
void store_redis_set_alive(struct store *store, uint64_t alive_ms);

#endif
