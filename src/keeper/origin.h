/* SPDX-License-Identifier: MIT */
/* A connection to an upstream: in use by one exchange, or waiting for one. */
#ifndef KEEPER_ORIGIN_H
#define KEEPER_ORIGIN_H

#include "http/h1_read.h"
#include "keeper/keeper.h"
#include "net/stream.h"

#define ORIGIN_IDLE_MAX 256  /* per upstream */
#define ORIGIN_IDLE_MS  4000 /* shorter than servers wait: a request must not meet their close */

struct origin {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct loop_timer timer; /* of an idle one */
	struct keeper *keeper;
	struct upstream *upstream;
	struct origin *next, **at; /* in the upstream's list of idle ones */
	struct exchange *exchange; /* or NULL: idle */
	struct stream stream;
	struct h1_reader reader;
	struct buf in;                        /* what has come and has to wait */
	unsigned int read_waits, write_waits; /* what the transport needs for either; 0: nothing */
};

/* Takes the stream over, for this exchange. NULL when it cannot be watched: the stream is closed.
 */
struct origin *origin_new(struct exchange *exchange, const struct stream *stream);

/* One that waits, for this exchange; or NULL. */
struct origin *origin_find(struct exchange *exchange);

/* The exchange is over, and the connection can be used again. */
void origin_give_back(struct origin *origin, uint64_t now_ms);
void origin_close(struct origin *origin);

/* What to wait for. */
void origin_set_interest(struct origin *origin, bool wants_read, bool wants_write);

#endif
