/* SPDX-License-Identifier: MIT */
/*
 * The admin endpoint: a small HTTP/1.1 server for those who watch the keeper.
 *
 *	GET /metrics    for Prometheus
 *	GET /healthz    200 as long as the loop turns
 *	GET /readyz     200 when runs are taken, 503 and why when not
 *
 * It says what is counted, to whoever can connect: whose business that is, is decided by where the
 * listener is. It takes no body and changes nothing. Connections live in a fixed number of places;
 * each state of one has its time, after which it makes room (INV-BOUNDED). No one of them can keep
 * the loop: a turn reads once from each and makes one reply.
 */
#ifndef KEEPER_ADMIN_H
#define KEEPER_ADMIN_H

#include "base/json.h"
#include "event/loop.h"
#include "http/h1_read.h"
#include "net/stream.h"

#define ADMIN_CONNECTIONS_MAX 16
#define ADMIN_HEAD_MAX        4096
#define ADMIN_LINGER_MAX      65536 /* bytes that may follow a request that ends the connection */

/* Where the answers come from. */
struct admin_source {
	void *owner;
	/* The text of /metrics: at most METRICS_TEXT_MAX. */
	void (*metrics)(void *owner, struct buf *out);
	/*
	 * Whether runs are taken. When not, why: members of an object, such as
	 * json_text(reasons, "store", store->fault).
	 */
	bool (*is_ready)(void *owner, struct json *reasons);
};

enum admin_state {
	ADMIN_FREE,   /* no connection */
	ADMIN_FRESH,  /* nothing has come yet; its place is its own for a moment */
	ADMIN_IDLE,   /* between requests: the first to make room */
	ADMIN_HEAD,   /* a part of a request is there */
	ADMIN_REPLY,  /* a reply is being written */
	ADMIN_LINGER, /* the last one is; what still comes is thrown away, so that it is read */
	ADMIN_STATES,
};

struct admin_connection {
	struct admin *admin;
	enum admin_state state;
	struct loop_source source;
	struct loop_timer timer; /* of the state */
	struct stream stream;
	struct h1_reader reader;
	struct buf in; /* what was sent ahead, while a reply is being written */
	struct buf out;
	size_t out_start;
	size_t head_len; /* of the head so far */
	size_t linger_left;
	bool is_head;      /* the request is HEAD */
	bool is_last;      /* the connection ends with this reply */
	uint64_t since_ms; /* in this state */
};

struct admin {
	struct loop *loop;
	struct admin_source source;
	int listener_fd; /* owned */
	struct loop_source listener;
	struct loop_timer deaf_timer; /* while nothing is accepted for want of descriptors */
	struct admin_connection connections[ADMIN_CONNECTIONS_MAX];
	struct h1_result result; /* for all: an event's, until the next */
	char input[ADMIN_HEAD_MAX];
};

/*
 * Takes the listener, a unix or TCP one, which is made not to block. The struct is large, and stays
 * where it is until admin_close. 0 or -errno; then the listener is the caller's.
 */
int admin_open(struct admin *admin, struct loop *loop, const struct admin_source *source,
	       int listener_fd) must_check;

/* Ends every connection. What was never opened (zeroed) is left alone. */
void admin_close(struct admin *admin);

#endif
