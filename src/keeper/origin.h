/* SPDX-License-Identifier: MIT */
/*
 * A connection to an upstream. With HTTP/1.1 it is in use by one exchange or waits for one; with
 * HTTP/2 it is shared by many. What differs is a table of functions, the wire.
 */
#ifndef KEEPER_ORIGIN_H
#define KEEPER_ORIGIN_H

#include "http/h1_read.h"
#include "http/h2.h"
#include "keeper/peer.h"
#include "net/stream.h"

#define ORIGIN_IDLE_MAX  256   /* per upstream */
#define ORIGIN_IDLE_MS   4000  /* shorter than servers wait: a request must not meet their close */
#define ORIGIN_SHARED_MS 60000 /* of HTTP/2, where a request that does is made again */

struct wire {
	/*
	 * The exchange has the origin. What is in `request` is the head and then the body, as far
	 * as it has come; false when it cannot be sent at all.
	 */
	bool (*begin)(struct exchange *exchange);
	/* More of the request's body, and its end. */
	void (*add_body)(struct exchange *exchange, struct bytes data);
	void (*end_body)(struct exchange *exchange);
	/* Sends what is in `request`, as far as it is taken. */
	void (*flush)(struct exchange *exchange, uint64_t now_ms);
	/* The gate takes more of the reply: goes on with what had to wait. */
	void (*resume)(struct exchange *exchange, uint64_t now_ms);
	/* Watches for what the exchange can go on with. */
	void (*watch)(struct exchange *exchange);
	/* The exchange is over, in order or not, and does without the origin. */
	void (*release)(struct exchange *exchange, bool is_complete, uint64_t now_ms);
	/* The socket is ready. */
	void (*on_ready)(struct origin *origin, uint64_t now_ms);
	/* The connection is lost or not wanted; whoever uses it is told. */
	void (*lose)(struct origin *origin);
};

extern const struct wire wire_h1, wire_h2;

struct origin {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct loop_timer timer; /* of an idle one */
	struct keeper *keeper;
	struct peer *peer; /* whose run it was made for; while that has exchanges */
	struct upstream *upstream;
	struct origin *next, **at; /* in the upstream's list of idle or of shared ones */
	const struct wire *wire;
	struct stream stream;
	/* HTTP/1.1, and tunnels */
	struct exchange *exchange; /* or NULL: idle */
	struct h1_reader reader;
	struct buf in; /* what has come and has to wait */
	/* HTTP/2 */
	struct h2 *h2;   /* NULL: lost */
	uint64_t now_ms; /* of the call under way */
	struct origin *next_dirty;
	bool is_dirty; /* has something to write at the end of the turn */
	bool is_over;  /* ... and then ends */
};

/* Takes the stream over. NULL when it cannot be watched: the stream is closed. */
struct origin *origin_new(struct peer *peer, struct upstream *upstream, const struct stream *stream,
			  const struct wire *wire);

/* One that waits, or is shared and has room; or NULL. */
struct origin *origin_find(struct upstream *upstream);

/* It waits for the next exchange, at most so long. */
void origin_set_idle(struct origin *origin, uint64_t until_ms);
void origin_set_busy(struct origin *origin);

void origin_close(struct origin *origin);

/* What to wait for. */
void origin_set_interest(struct origin *origin, bool wants_read, bool wants_write);

/* ---- HTTP/2 ---- */

/* Begins it on a new one. */
void origin_start_h2(struct origin *origin);

/* Writes what the turn has brought for its streams. */
void origin_finish_turn(struct origin *origin, uint64_t now_ms);

#endif
