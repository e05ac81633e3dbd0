/* SPDX-License-Identifier: MIT */
/* Reading and writing the link. Any fault ends it, and with it whoever lives by it. */
#include "link/port.h"

#include <errno.h>
#include <sys/socket.h>

#define READ_SIZE 65536

/* Everything in one read. */
static int read_port(struct link_port *port, uint64_t now_ms)
{
	static char data[READ_SIZE];
	ssize_t n = recv(port->source.fd, data, sizeof(data), 0);
	struct bytes input, payload;
	enum link_event event;
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	input = (struct bytes){ data, (size_t)n };
	do {
		event = link_read(&port->reader, &input, &payload);
		if (event == LINK_BROKEN)
			return -EPROTO;
		if (event != LINK_NEEDS_MORE)
			r = port->on_message(port, event, payload, now_ms);
	} while (r == 0 && event != LINK_NEEDS_MORE && port->source.fd >= 0);
	return r;
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct link_port *port = OWNER_OF(source, struct link_port, source);

	if (!(ready & LOOP_READ) || read_port(port, now_ms) == 0)
		return;
	if (port->on_over)
		port->on_over(port, now_ms);
	else
		loop_end(port->loop);
}

int link_port_open(struct link_port *port, struct loop *loop, int fd, enum link_side side,
		   size_t out_max, link_port_message *on_message)
{
	enum link_side other = side == LINK_SIDE_GATE ? LINK_SIDE_KEEPER : LINK_SIDE_GATE;

	*port = (struct link_port){ .loop = loop, .on_message = on_message };
	port->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	buf_init(&port->out, out_max);
	link_reader_init(&port->reader, other);
	return loop_add(loop, &port->source, fd, LOOP_READ);
}

void link_port_close(struct link_port *port)
{
	int fd = port->source.fd;

	loop_remove(port->loop, &port->source);
	close_fd(&fd);
}

void link_port_fini(struct link_port *port)
{
	link_reader_fini(&port->reader);
	buf_fini(&port->out);
}

static size_t out_len(const struct link_port *port)
{
	return port->out.len - port->out_start;
}

/* Moves what is left to the front, now and then. */
static void make_room(struct link_port *port)
{
	size_t left = out_len(port);

	if (left > 0 && port->out_start <= LINK_PORT_HIGH)
		return;
	if (left > 0)
		memmove(port->out.data, port->out.data + port->out_start, left);
	port->out.len = left;
	port->out_start = 0;
}

int link_port_flush(struct link_port *port)
{
	unsigned int interest = 0;

	while (out_len(port) > 0) {
		ssize_t n = send(port->source.fd, port->out.data + port->out_start, out_len(port),
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		port->out_start += (size_t)n;
	}
	/* Full: a message found no room, and is missing from what is in there. */
	if (port->out.len == port->out.max)
		return -ENOBUFS;
	make_room(port);
	/* Not both ends may do so, or each would wait for the other. */
	if (!port->waits_when_behind || !link_port_is_behind(port))
		interest |= LOOP_READ;
	return loop_change(port->loop, &port->source, interest | (out_len(port) ? LOOP_WRITE : 0));
}
