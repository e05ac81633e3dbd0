/* SPDX-License-Identifier: MIT */
/* Exchanges on the link. */
#include "gate/call.h"

#include <errno.h>

void call_init(struct call *call, struct gate *gate, const struct carrier *carrier)
{
	*call = (struct call){ .gate = gate, .carrier = carrier };
}

/*
 * Numbers go up and wrap around; a number's place in the table is free before it is used, so
 * that finding its exchange is one look.
 */
static uint32_t next_number(struct gate *gate)
{
	do {
		gate->last_exchange++;
	} while (gate->last_exchange == 0 || gate->calls[gate->last_exchange % LINK_EXCHANGES_MAX]);
	return gate->last_exchange;
}

void call_refuse(struct gate *gate, const struct link_refused *refused)
{
	link_write_refused(&gate->link.out, next_number(gate), refused);
}

void call_open(struct call *call, const struct link_open *open)
{
	struct gate *gate = call->gate;

	next_number(gate);
	gate->call_count++;
	gate->calls[gate->last_exchange % LINK_EXCHANGES_MAX] = call;
	*call = (struct call){
		.carrier = call->carrier,
		.gate = gate,
		.id = gate->last_exchange,
		.credit = LINK_CREDIT_FIRST,
		.is_tunnel = open->kind == LINK_KIND_TUNNEL,
		.is_websocket = open->kind == LINK_KIND_WEBSOCKET,
	};
	link_write_open(&gate->link.out, call->id, open);
}

static void forget(struct call *call)
{
	call->gate->calls[call->id % LINK_EXCHANGES_MAX] = NULL;
	call->gate->call_count--;
	call->id = 0;
}

void call_send(struct call *call, struct bytes data)
{
	call->credit -= (uint32_t)data.len;
	link_write_data(&call->gate->link.out, call->id, data);
}

void call_end_request(struct call *call)
{
	static const struct link_end end; /* no trailer */

	link_write_end(&call->gate->link.out, call->id, &end);
	call->is_request_over = true;
	if (call->is_reply_over)
		forget(call);
}

void call_grant(struct call *call)
{
	if (!call->id || call->owed < LINK_CREDIT_FIRST / 4)
		return;
	link_write_credit(&call->gate->link.out, call->id, call->owed);
	call->owed = 0;
}

void call_abort(struct call *call)
{
	if (!call->id)
		return;
	link_write_abort(&call->gate->link.out, call->id);
	forget(call);
}

/* ---- what the keeper says; one that says what it must not is as good as none ---- */

static void break_off(struct call *call)
{
	call_abort(call);
	call->carrier->on_abort(call);
}

static void on_reply(struct call *call, struct bytes payload)
{
	static struct link_reply reply; /* large, and needed only in here */

	if (link_parse_reply(payload, &reply) < 0 || call->is_reply_begun) {
		break_off(call);
		return;
	}
	if (reply.status == 101 && !call->is_websocket) {
		break_off(call);
		return;
	}
	call->is_tunnel = call->is_tunnel || reply.status == 101;
	call->is_reply_begun = reply.status >= 200 || call->is_tunnel;
	call->has_reply_body = reply.framing != FRAMING_NONE;
	call->has_reply_length = reply.framing == FRAMING_LENGTH;
	call->reply_left = reply.length;
	call->carrier->on_reply(call, &reply);
}

static void on_data(struct call *call, struct bytes data)
{
	if (!call->is_reply_begun || !call->has_reply_body ||
	    (call->has_reply_length && data.len > call->reply_left) ||
	    call->owed + data.len > LINK_CREDIT_FIRST) {
		break_off(call);
		return;
	}
	call->reply_left -= call->has_reply_length ? data.len : 0;
	call->owed += (uint32_t)data.len;
	call->carrier->on_data(call, data);
}

static void on_end(struct call *call, struct bytes payload)
{
	static struct link_end end;

	if (link_parse_end(payload, &end) < 0 || !call->is_reply_begun ||
	    (call->has_reply_length && call->reply_left > 0)) {
		break_off(call);
		return;
	}
	call->is_reply_over = true;
	/* A reply that came before the request was whole: what is left of it is not sent. */
	if (!call->is_request_over && !call->is_tunnel)
		link_write_abort(&call->gate->link.out, call->id);
	if (call->is_request_over || !call->is_tunnel)
		forget(call);
	call->carrier->on_end(call, &end);
}

int call_on_message(struct call *call, enum link_event event, enum link_type type,
		    struct bytes payload)
{
	uint32_t credit;

	if (event == LINK_PIECE) {
		on_data(call, payload);
		return 0;
	}
	switch (type) {
	case LINK_REPLY:
		on_reply(call, payload);
		return 0;
	case LINK_END:
		on_end(call, payload);
		return 0;
	case LINK_CREDIT:
		if (link_parse_credit(payload, &credit) < 0 ||
		    credit > LINK_CREDIT_FIRST - call->credit)
			return -EPROTO;
		call->credit += credit;
		call->carrier->on_credit(call);
		return 0;
	case LINK_ABORT:
		forget(call);
		call->carrier->on_abort(call);
		return 0;
	default:
		return -EPROTO;
	}
}
