/* SPDX-License-Identifier: MIT */
/* One end of the link on an event loop: messages in, bytes out, once per turn. */
#ifndef LINK_PORT_H
#define LINK_PORT_H

#include "event/loop.h"
#include "link/link.h"
#include "net/stream.h"

#define LINK_PORT_HIGH (1 << 20) /* from here on, the other side does not keep up */

struct link_port;

/*
 * For every message, and every piece of DATA: port->reader has its type and exchange. What
 * is not 0 ends the link. It may close the port, whose memory must then last for the turn
 * (loop_defer); the payload is gone with it.
 */
typedef int link_port_message(struct link_port *port, enum link_event event, struct bytes payload,
			      uint64_t now_ms);

struct link_port {
	struct loop_source source;
	struct loop_timer more; /* set while bytes wait that the socket will not tell of */
	struct loop *loop;
	struct stream stream;
	struct link_reader reader;
	struct buf out; /* messages are added here */
	size_t out_start;
	link_port_message *on_message;
	/*
	 * The link is over: -EPIPE, its clean end; -EPROTO, what is no message; what on_message
	 * returned; or the stream's -errno. Called once, and the last thing that is done with the
	 * port, which may be closed and freed in it. NULL: the loop ends.
	 */
	void (*on_over)(struct link_port *port, int error, uint64_t now_ms);
	/* The other side takes more again: to flush it is worth while. NULL: that is done every
	 * turn. */
	void (*on_room)(struct link_port *port, uint64_t now_ms);
	bool waits_when_behind; /* reads no more while the other side takes nothing */
	bool is_paused;         /* reads no more at all: link_port_pause */
	bool has_left;          /* the last flush could not write everything */
};

/*
 * Takes the stream, plain or TLS, as the end of `side`. 0, or -errno: the stream is closed. What
 * has a default is set afterwards.
 */
int link_port_open(struct link_port *port, struct loop *loop, const struct stream *stream,
		   enum link_side side, size_t out_max, link_port_message *on_message) must_check;

/* The stream is closed, too, and what has not been written is lost. Twice is once. */
void link_port_close(struct link_port *port);

/* Whether the other side does not keep up with what has been added so far. */
static inline bool link_port_is_behind(const struct link_port *port)
{
	return port->out.len - port->out_start > LINK_PORT_HIGH;
}

/* Reads nothing until it is told otherwise, but for the end of a link that is cut. 0 or -errno. */
int link_port_pause(struct link_port *port, bool is_paused) must_check;

/*
 * Writes what the other side takes. 0, or -errno when the link is over: -ENOBUFS when more was
 * added than it may hold. on_over is not called from here.
 */
int link_port_flush(struct link_port *port) must_check;

#endif
