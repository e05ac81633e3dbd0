/* SPDX-License-Identifier: MIT */
/*
 * A call: an exchange as the gate sees it, one request and its reply on the link. Who carries it
 * between the agent and here, a connection or a stream of one, is a table of functions.
 */
#ifndef GATE_CALL_H
#define GATE_CALL_H

#include "gate/gate.h"

/*
 * What the keeper says. The exchange is over before on_abort and on_end are called, but that of
 * a tunnel only when the agent has said all, too; what a reply consists of is in order by then:
 * no second head, no data before the first.
 */
struct carrier {
	void (*on_reply)(struct call *call, const struct link_reply *reply);
	void (*on_data)(struct call *call, struct bytes data);
	void (*on_end)(struct call *call, const struct link_end *end);
	void (*on_credit)(struct call *call);
	void (*on_abort)(struct call *call); /* also for a keeper that breaks the rules */
};

struct call {
	const struct carrier *carrier;
	struct gate *gate;
	uint32_t id;       /* 0: none is under way */
	uint32_t credit;   /* bytes of the request that may still be sent */
	uint32_t owed;     /* bytes of the reply that are not granted anew yet */
	bool is_websocket; /* ... and so does a request, once its reply is 101 */
	bool is_tunnel;    /* each side says all it has, whatever the other does */
	bool is_request_over;
	bool is_reply_over;    /* of a tunnel; any other call is over then */
	bool is_reply_begun;   /* its final head has come */
	bool has_reply_body;   /* as its head says */
	bool has_reply_length; /* ... and `reply_left` bytes of it are to come */
	uint64_t reply_left;
};

static inline bool call_is_open(const struct call *call)
{
	return call->id != 0;
}

void call_init(struct call *call, struct gate *gate, const struct carrier *carrier);

/* Begins one. */
void call_open(struct call *call, const struct link_open *open);

/* Says, for the record, that a request was refused here and never became a call. */
void call_refuse(struct gate *gate, const struct link_refused *refused);

/* A piece of the request's body, within the credit; and its end. */
void call_send(struct call *call, struct bytes data);
void call_end_request(struct call *call);

/* The agent has taken everything: the keeper may send as much more. */
void call_grant(struct call *call);

/* The agent has given it up. What is not open is left alone. */
void call_abort(struct call *call);

/* A message of the keeper for this exchange. -EPROTO ends the link. */
int call_on_message(struct call *call, enum link_event event, enum link_type type,
		    struct bytes payload) must_check;

#endif
