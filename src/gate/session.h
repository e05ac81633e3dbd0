/* SPDX-License-Identifier: MIT */
/*
 * A session: one connection of the agent, one exchange at a time.
 *
 * Requests that were sent ahead wait in the socket until it is their turn, so replies are
 * in order by themselves. The body of a request moves as the keeper grants credit, that of
 * a reply as the agent takes it: a slow reader on either side slows the other one, and
 * nothing is held beyond the buffers that are here.
 */
#ifndef GATE_SESSION_H
#define GATE_SESSION_H

#include "gate/gate.h"
#include "http/h1_read.h"

#define SESSION_IN_MAX  16384
#define SESSION_OUT_MAX (HTTP_HEAD_MAX + 2 * LINK_CREDIT_FIRST)

enum session_state {
	SESSION_READ_HEAD, /* between exchanges, or in the head of a request */
	SESSION_RELAY,     /* an exchange is under way */
	SESSION_DRAIN,     /* the last reply is being written; then the connection ends */
};

struct session {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct gate *gate;
	struct session *next, **at; /* in the gate's list */
	enum session_state state;
	struct h1_reader reader;
	char in[SESSION_IN_MAX];
	size_t in_start, in_end;
	struct buf out;
	size_t out_start;
	uint32_t exchange;    /* 0: none */
	uint32_t credit;      /* bytes of the request that may still be sent */
	uint32_t owed;        /* bytes of the reply that were written, but not yet granted anew */
	bool is_request_over; /* its end has been sent */
	bool is_reply_begun;  /* its final head has been written */
	bool is_reply_chunked;
	bool has_reply_body;
	bool keeps_alive; /* as the agent asked */
	bool has_input_ended;
};

/* Takes a new connection over. */
void session_open(struct gate *gate, int fd);

/* Ends it at once; an exchange under way is aborted. */
void session_close(struct session *session);

/* Messages of the keeper about its exchange. */
void session_on_reply(struct session *session, struct bytes payload);
void session_on_data(struct session *session, struct bytes data);
void session_on_end(struct session *session, struct bytes payload);
void session_on_credit(struct session *session, uint32_t credit);
void session_on_abort(struct session *session);

/* Goes on after the gate was paused. */
void session_resume(struct session *session);

#endif
