/* SPDX-License-Identifier: MIT */
/* One end of the link on an event loop: messages in, bytes out, once per turn. */
#ifndef LINK_PORT_H
#define LINK_PORT_H

#include "event/loop.h"
#include "link/link.h"

#define LINK_PORT_HIGH (1 << 20) /* from here on, the other side does not keep up */

struct link_port;

/*
 * For every message, and every piece of DATA: port->reader has its type and exchange. What
 * is not 0 ends the link.
 */
typedef int link_port_message(struct link_port *port, enum link_event event, struct bytes payload,
			      uint64_t now_ms);

struct link_port {
	struct loop_source source;
	struct loop *loop;
	struct link_reader reader;
	struct buf out; /* messages are added here */
	size_t out_start;
	link_port_message *on_message;
	/* It is over, because of what came or because nothing more will. NULL: so is the loop. */
	void (*on_over)(struct link_port *port, uint64_t now_ms);
	bool waits_when_behind; /* reads no more while the other side takes nothing */
};

/* Takes the descriptor, which must not block, as the end of `side`. 0 or -errno. */
int link_port_open(struct link_port *port, struct loop *loop, int fd, enum link_side side,
		   size_t out_max, link_port_message *on_message) must_check;

/* The descriptor is closed, too. Also from within on_message; what has come is heard no more. */
void link_port_close(struct link_port *port);

/* After it is closed, and not within one of its callbacks: frees what it has. */
void link_port_fini(struct link_port *port);

static inline bool link_port_has_more(const struct link_port *port)
{
	return port->out.len > port->out_start;
}

/* Whether the other side does not keep up with what has been added so far. */
static inline bool link_port_is_behind(const struct link_port *port)
{
	return port->out.len - port->out_start > LINK_PORT_HIGH;
}

/*
 * Writes what the other side takes. 0, or -errno when the link is over.
 */
int link_port_flush(struct link_port *port) must_check;

#endif
