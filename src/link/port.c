/* SPDX-License-Identifier: MIT */
/* Reading and writing the link. Any fault ends it, and with it whoever lives by it. */
#include "link/port.h"

#include <errno.h>

#define READ_SIZE 65536
#define TURN_SIZE (1 << 18) /* what one turn takes of one port: others wait, too */
#define KEPT_SIZE (1 << 19) /* a larger buffer is given back when it is empty */

/* Not closed, and not over. */
static bool is_open(const struct link_port *port)
{
	return port->source.fd >= 0;
}

static size_t out_len(const struct link_port *port)
{
	return port->out.len - port->out_start;
}

static bool may_read(const struct link_port *port)
{
	/* Not both ends may wait when they are behind, or each would wait for the other. */
	return !port->is_paused && !(port->waits_when_behind && link_port_is_behind(port));
}

/* ---- reading ---- */

/* 0, or -errno when the link is over. */
static int take(struct link_port *port, struct bytes input, uint64_t now_ms)
{
	enum link_event event;
	struct bytes payload;
	int r = 0;

	do {
		event = link_read(&port->reader, &input, &payload);
		if (event == LINK_BROKEN)
			return -EPROTO;
		if (event != LINK_NEEDS_MORE)
			r = port->on_message(port, event, payload, now_ms);
	} while (r == 0 && event != LINK_NEEDS_MORE && is_open(port));
	return r;
}

/* Everything in one read; TLS has as many as there are records. */
static int read_port(struct link_port *port, uint64_t now_ms)
{
	static char data[READ_SIZE];
	size_t total = 0;
	int r;

	do {
		ssize_t n = stream_read(&port->stream, data, sizeof(data));

		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n < 0 ? (int)n : -EPIPE;
		r = take(port, (struct bytes){ data, (size_t)n }, now_ms);
		total += (size_t)n;
	} while (r == 0 && is_open(port) && port->stream.has_pending && total < TURN_SIZE &&
		 may_read(port));
	return r;
}

/* What to wait for. What TLS has read ahead raises no event: the next turn looks at it. */
static int watch(struct link_port *port)
{
	bool wants_read = may_read(port);

	if (!wants_read || !port->stream.has_pending)
		loop_cancel(port->loop, &port->more);
	else if (!port->more.place)
		loop_set_timer(port->loop, &port->more, 0);
	return loop_change(port->loop, &port->source,
			   stream_interest(&port->stream, wants_read, port->has_left));
}

static void leave_loop(struct link_port *port)
{
	loop_cancel(port->loop, &port->more);
	loop_remove(port->loop, &port->source);
}

static void read_and_watch(struct link_port *port, uint64_t now_ms)
{
	int r = read_port(port, now_ms);

	if (!is_open(port))
		return;
	if (r == 0)
		r = watch(port);
	if (r == 0)
		return;
	leave_loop(port);
	if (port->on_over)
		port->on_over(port, r, now_ms);
	else
		loop_end(port->loop);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct link_port *port = OWNER_OF(source, struct link_port, source);
	unsigned int for_read = stream_interest(&port->stream, true, false);
	unsigned int for_write = stream_interest(&port->stream, false, true);

	if (port->has_left && port->on_room && (ready & for_write))
		port->on_room(port, now_ms);
	/* The end is noticed at any time. */
	if (is_open(port) && (ready & for_read) && (may_read(port) || (ready & LOOP_HANGUP)))
		read_and_watch(port, now_ms);
}

static void on_more(struct loop_timer *timer, uint64_t now_ms)
{
	struct link_port *port = OWNER_OF(timer, struct link_port, more);

	if (may_read(port))
		read_and_watch(port, now_ms);
}

/* ---- opening and closing ---- */

int link_port_open(struct link_port *port, struct loop *loop, const struct stream *stream,
		   enum link_side side, size_t out_max, link_port_message *on_message)
{
	enum link_side other = side == LINK_SIDE_GATE ? LINK_SIDE_KEEPER : LINK_SIDE_GATE;
	int r;

	*port = (struct link_port){ .loop = loop, .stream = *stream, .on_message = on_message };
	port->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	port->more.on_due = on_more;
	buf_init(&port->out, out_max);
	link_reader_init(&port->reader, other);
	r = loop_add(loop, &port->source, stream->fd, LOOP_READ);
	if (r < 0)
		link_port_close(port);
	else if (stream->has_pending)
		loop_set_timer(loop, &port->more, 0);
	return r;
}

void link_port_close(struct link_port *port)
{
	if (!port->loop)
		return;
	leave_loop(port);
	stream_close(&port->stream);
	link_reader_fini(&port->reader);
	buf_fini(&port->out);
	port->out_start = 0;
}

/* ---- writing ---- */

/* Moves what is left to the front, now and then. */
static void make_room(struct link_port *port)
{
	size_t left = out_len(port);

	if (left > 0 && port->out_start <= LINK_PORT_HIGH)
		return;
	if (left > 0)
		memmove(port->out.data, port->out.data + port->out_start, left);
	else if (port->out.size > KEPT_SIZE)
		buf_fini(&port->out);
	port->out.len = left;
	port->out_start = 0;
}

int link_port_flush(struct link_port *port)
{
	if (!is_open(port))
		return -EPIPE;
	/* Full: a message found no room, and is missing from what is in there, or half of it is. */
	if (port->out.len == port->out.max)
		return -ENOBUFS;
	while (out_len(port) > 0) {
		ssize_t n = stream_write(&port->stream, port->out.data + port->out_start,
					 out_len(port));

		if (n == -EAGAIN)
			break;
		if (n < 0)
			return (int)n;
		port->out_start += (size_t)n;
	}
	make_room(port);
	port->has_left = out_len(port) > 0;
	return watch(port);
}

int link_port_pause(struct link_port *port, bool is_paused)
{
	if (port->is_paused == is_paused || !is_open(port))
		return 0;
	port->is_paused = is_paused;
	return watch(port);
}
