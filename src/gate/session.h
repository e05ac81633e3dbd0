/* SPDX-License-Identifier: MIT */
/*
 * A session: one connection of the agent, one exchange at a time.
 *
 * Requests that were sent ahead wait until it is their turn, so replies are in order by
 * themselves. The body of a request moves as the keeper grants credit, that of a reply as
 * the agent takes it: a slow reader on either side slows the other one, and nothing is held
 * beyond the limits that are here.
 *
 * Thousands of sessions may be waiting for a model to speak, so one that waits holds next to
 * nothing: input is read into one buffer for all and kept only when it cannot go on, output
 * is kept only until it is written.
 */
#ifndef GATE_SESSION_H
#define GATE_SESSION_H

#include "gate/call.h"
#include "gate/connection.h"
#include "gate/endpoint.h"
#include "tls/ws_key.h"

#define SESSION_IN_MAX  GATE_INPUT_SIZE
#define SESSION_OUT_MAX (HTTP_HEAD_MAX + 2 * LINK_CREDIT_FIRST)

/* How long, and for how many bytes, an agent is listened to after the last reply. */
#define SESSION_LINGER_MS    1000
#define SESSION_LINGER_BYTES (1 << 20)

/* How long it may be silent when it is its turn: between requests or in one, or with a reply to
 * take. While a model thinks, it is not. */
#define SESSION_IDLE_MS 300000

enum session_state {
	SESSION_READ,    /* between exchanges, or in the head of a request */
	SESSION_RELAY,   /* an exchange is under way */
	SESSION_HAND_ON, /* the reply to CONNECT is being written; then it is a target's */
	SESSION_DRAIN,   /* the last reply is being written; then the connection ends */
	SESSION_LINGER,  /* it is written: what still comes in is thrown away, because closing
			    with input unread would take the reply away from the agent */
};

struct session {
	struct connection connection; /* first */
	struct loop_timer timer;      /* of the agent's silence */
	struct endpoint endpoint;     /* where it leads */
	enum session_state state;
	struct h1_reader reader;
	struct buf in; /* what has come and has to wait */
	struct buf out;
	size_t out_start;
	size_t chunk_at, chunk_len; /* the last chunk in there, while nothing of it is written */
	struct call call;
	size_t linger_left; /* bytes that are still thrown away */
	bool is_spoilt;     /* its output cannot be completed */
	bool is_upgrading;  /* to WebSocket: nothing is read before the reply */
	bool is_upgraded;   /* ... from here on bytes go both ways as they are */
	char accept[WS_ACCEPT_TEXT_LEN + 1];
	bool is_request_read;  /* to its end, so that nothing of it is left in the socket */
	bool is_reply_chunked; /* ... to the agent */
	bool is_reply_to_end;  /* ... which ends with the connection */
	bool is_head;          /* the request is HEAD */
	bool is_old;           /* ... and of HTTP/1.0 */
	bool keeps_alive;      /* as the agent asked */
	bool has_input_ended;
};

/* Takes a new connection over, of which `first` has been read already. */
void session_open(struct gate *gate, const struct stream *stream, const struct endpoint *endpoint,
		  struct bytes first, uint64_t now_ms);

#endif
