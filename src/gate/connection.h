/* SPDX-License-Identifier: MIT */
/*
 * A connection of the agent, whatever it speaks: its stream, its place in the gate's lists, and a
 * table of what the gate does with it. Sessions, bundles and tunnels begin with one.
 */
#ifndef GATE_CONNECTION_H
#define GATE_CONNECTION_H

#include "gate/gate.h"
#include "net/stream.h"

struct connection_ops {
	/* The agent can be read from or written to. */
	void (*on_ready)(struct connection *connection, unsigned int ready, uint64_t now_ms);
	/* Goes on after the gate was paused. */
	void (*resume)(struct connection *connection, uint64_t now_ms);
	/* Writes what the turn has brought, and reads on where that had to wait for it. */
	void (*finish_turn)(struct connection *connection, uint64_t now_ms);
	/* Nothing is under way, and it can be done without. */
	bool (*is_idle)(const struct connection *connection);
	/* Ends it at once, so that half a reply does not look like a whole one. */
	void (*reset)(struct connection *connection);
	/* Frees it; the stream is closed by then. */
	void (*free)(struct connection *connection);
};

struct connection {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct stream stream; /* to the agent */
	uint64_t last_ms;     /* when the agent last did something */
	struct gate *gate;
	const struct connection_ops *ops;
	struct connection *next, **at; /* in the gate's list of all */
	struct connection *next_dirty;
	bool is_dirty; /* in the list of those with something to write at the end of the turn */
};

/* Takes the stream over and is counted; -errno when it cannot be watched: all is freed. */
int connection_open(struct connection *connection, struct gate *gate, const struct stream *stream,
		    const struct connection_ops *ops, uint64_t now_ms) must_check;

static inline bool connection_is_open(const struct connection *connection)
{
	return connection->source.fd >= 0;
}

/* Ends it; what is closed already is left alone. It is freed at the end of the turn. */
void connection_close(struct connection *connection);

/* The same, but the descriptor goes on elsewhere. */
int connection_take_fd(struct connection *connection) must_check;

void connection_mark_dirty(struct connection *connection);

/* What to wait for; one that cannot be watched is closed. */
void connection_watch(struct connection *connection, bool wants_read, bool wants_write);

#endif
