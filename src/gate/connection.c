/* SPDX-License-Identifier: MIT */
/* Connections of the agent. */
#include "gate/connection.h"

#include "base/list.h"

static void free_connection(struct loop_deferred *deferred)
{
	struct connection *connection = (struct connection *)(void *)deferred;

	connection->ops->free(connection);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct connection *connection = OWNER_OF(source, struct connection, source);

	connection->last_ms = now_ms;
	connection->ops->on_ready(connection, ready, now_ms);
}

int connection_open(struct connection *connection, struct gate *gate, const struct stream *stream,
		    const struct connection_ops *ops, uint64_t now_ms)
{
	int r;

	connection->deferred.free = free_connection;
	connection->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	connection->stream = *stream;
	connection->last_ms = now_ms;
	connection->gate = gate;
	connection->ops = ops;
	r = loop_add(&gate->loop, &connection->source, stream->fd, LOOP_READ);
	if (r < 0) {
		stream_close(&connection->stream);
		ops->free(connection);
		return r;
	}
	LIST_ADD(&gate->connections, connection);
	gate->connection_count++;
	return 0;
}

/* Out of every list but that of the turn. */
static void leave(struct connection *connection)
{
	struct gate *gate = connection->gate;

	LIST_REMOVE(connection);
	gate->connection_count--;
	gate_hear(gate);
	loop_defer(&gate->loop, &connection->deferred);
}

void connection_close(struct connection *connection)
{
	if (!connection_is_open(connection))
		return; /* is being freed */
	loop_remove(&connection->gate->loop, &connection->source);
	stream_close(&connection->stream);
	leave(connection);
}

int connection_take_fd(struct connection *connection)
{
	int fd = connection->stream.fd;

	loop_remove(&connection->gate->loop, &connection->source);
	connection->stream = (struct stream){ .fd = -1 };
	leave(connection);
	return fd;
}

void connection_mark_dirty(struct connection *connection)
{
	if (connection->is_dirty)
		return;
	connection->is_dirty = true;
	connection->next_dirty = connection->gate->dirty;
	connection->gate->dirty = connection;
}

void connection_watch(struct connection *connection, bool wants_read, bool wants_write)
{
	unsigned int interest = stream_interest(&connection->stream, wants_read, wants_write);

	if (loop_change(&connection->gate->loop, &connection->source, interest) < 0)
		connection->ops->reset(connection);
}
