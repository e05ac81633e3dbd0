/* SPDX-License-Identifier: MIT */
/*
 * What the upstream sends becomes what the gate gets: a reply as it was, without the secret
 * (INV-NO-REFLECTION) and without what concerns only one connection.
 */
#include <errno.h>

#include "http/h1_write.h"
#include "keeper/exchange.h"
#include "keeper/limiter.h"
#include "keeper/origin.h"

/* ---- the head ---- */

#define INTERIM_MAX  32 /* replies before the reply */
#define DECODE_PIECE 16384

static void emit(void *owner, struct bytes data)
{
	struct exchange *exchange = owner;

	for (size_t i = data.len > 2 ? data.len - 2 : 0; i < data.len; i++) {
		exchange->tail[0] = exchange->tail[1];
		exchange->tail[1] = data.data[i];
	}
	while (data.len > 0) {
		size_t len = data.len < LINK_DATA_MAX ? data.len : LINK_DATA_MAX;

		link_write_data(peer_out(exchange->peer), exchange->id, bytes_take(&data, len));
	}
}

/* The identity of the call, for the records; never shown to be more than plain text. */
static void note_text(char *ret_text, size_t most, struct bytes value)
{
	size_t len = value.len < most ? value.len : most;

	for (size_t i = 0; i < len; i++)
		ret_text[i] = value.data[i];
	ret_text[len] = '\0';
}

/* Whose cost is looked for: what is of another type may be the agent's own text, as a file is. */
static bool may_name_cost(const struct exchange *exchange, const struct http_field *type)
{
	return exchange->is_events ||
	       (type && bytes_has_prefix_nocase(type->value, BYTES("application/json")));
}

static void note_fields(struct exchange *exchange, const struct http_head *head,
			const struct http_field *type)
{
	const struct http_field *field;

	if (!exchange->upstream->llm || !exchange->upstream->llm->provider->is_litellm)
		return;
	field = http_find_field(head, BYTES("x-litellm-call-id"));
	if (field && !scrub_is_in(exchange->scrubs, field->value))
		note_text(exchange->call_id, EXCHANGE_CALL_ID_MAX, field->value);
	field = http_find_field(head, BYTES("x-litellm-response-cost"));
	if (field && !scrub_is_in(exchange->scrubs, field->value))
		note_text(exchange->cost.last, COST_MAX - 1, field->value);
	/* A stream's cost comes at its end, in its last event. */
	exchange->finds_cost = !field && may_name_cost(exchange, type);
	exchange->cost.is_events = exchange->is_events;
}

static bool is_passed_on(const struct exchange *exchange, const struct http_head *head,
			 const struct http_field *field)
{
	if (exchange->decoder && bytes_equal_nocase(field->name, BYTES("content-encoding")))
		return false;
	return !http_is_hop_by_hop(head, field->name) &&
	       !bytes_equal_nocase(field->name, BYTES("content-length")) &&
	       !bytes_equal_nocase(field->name, BYTES("sec-websocket-accept")) &&
	       !scrub_is_in(exchange->scrubs, field->name);
}

/* Where a secret is in a value, the placeholder takes its place. */
static size_t copy_fields(const struct exchange *exchange, const struct http_head *head,
			  struct http_field *ret_fields)
{
	static char clean[HTTP_HEAD_MAX]; /* until the message is written, which is next */
	size_t count = 0, used = 0;

	for (size_t i = 0; i < head->field_count; i++) {
		struct http_field field = head->fields[i];

		if (!is_passed_on(exchange, head, &field))
			continue;
		if (scrub_is_in(exchange->scrubs, field.value)) {
			if (field.value.len > sizeof(clean) - used)
				continue;
			scrub_text(exchange->scrubs, field.value, clean + used);
			field.value.data = clean + used;
			used += field.value.len;
		}
		ret_fields[count++] = field;
	}
	return count;
}

static void send_head(struct exchange *exchange, const struct http_head *head)
{
	static struct link_reply reply; /* large, and needed only in here */

	reply.status = head->status;
	reply.reason = scrub_is_in(exchange->scrubs, head->reason) ? BYTES("") : head->reason;
	reply.framing = (uint8_t)head->framing;
	reply.length = head->framing == FRAMING_LENGTH || exchange->is_head ? head->length : 0;
	if (exchange->decoder) { /* nobody knows how much it will be */
		reply.framing = head->framing == FRAMING_LENGTH ? FRAMING_CHUNKED
								: (uint8_t)head->framing;
		reply.length = 0;
	}
	reply.field_count = copy_fields(exchange, head, reply.fields);
	link_write_reply(peer_out(exchange->peer), exchange->id, &reply);
}

/*
 * INV-NO-REFLECTION: what cannot be read cannot be searched for the secret. What is decoded here
 * is passed on decoded, which a client has to expect. 0 or -errno.
 */
static int prepare_decoder(struct exchange *exchange, const struct http_head *head)
{
	static const struct encoding_limits no_limits = { UINT64_MAX, UINT32_MAX };
	enum encoding found = ENCODING_IDENTITY, encoding;

	for (size_t i = 0; exchange->scrubs && i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];

		if (bytes_equal_nocase(field->name, BYTES("grpc-encoding")) &&
		    !bytes_equal_nocase(field->value, BYTES("identity")))
			return -ENOTSUP; /* of each message; it was not asked for */
		if (!bytes_equal_nocase(field->name, BYTES("content-encoding")))
			continue;
		if (encoding_parse(field->value, &encoding) < 0 || found != ENCODING_IDENTITY)
			return -ENOTSUP;
		found = encoding;
	}
	/* What grows without bound only waits for credit. */
	if (found != ENCODING_IDENTITY && head->status >= 200)
		exchange->decoder = decoder_new(found, &no_limits);
	return 0;
}

/* An upgrade that was not asked for, or that does not answer our request. */
static const char *find_upgrade_fault(const struct exchange *exchange, const struct http_head *head)
{
	const struct http_field *accept = http_find_field(head, BYTES("sec-websocket-accept"));

	if (!exchange->websocket || !http_is_upgraded(head) || !accept ||
	    !websocket_is_accepted(exchange->websocket, accept->value))
		return "it switched protocols, and not as it was asked to";
	return http_find_field(head, BYTES("sec-websocket-extensions"))
		       ? "it uses an extension of WebSocket that was not offered"
		       : NULL;
}

/* What cannot be passed on, and why; or NULL. */
static const char *find_fault(struct exchange *exchange, const struct http_head *head)
{
	if (head->status == 101)
		return find_upgrade_fault(exchange, head);
	if (exchange->scrubs && head->status == 206)
		return "it is a part, and the whole was asked for";
	if (head->status < 200 && exchange->interim_count == INTERIM_MAX)
		return "it has no end of interim replies";
	return prepare_decoder(exchange, head) < 0 ? "it is encoded in a way that cannot be read"
						   : NULL;
}

/* The upstream has confirmed it: from here on frames go both ways. */
static void begin_websocket(struct exchange *exchange, const struct http_head *head,
			    uint64_t now_ms)
{
	static struct link_reply reply;

	reply.status = exchange->status = head->status;
	reply.reason = BYTES(""); /* every 101 says the same */
	reply.framing = FRAMING_CLOSE;
	reply.field_count = copy_fields(exchange, head, reply.fields);
	exchange->is_reply_begun = exchange->is_tunnel = true;
	exchange->first_byte_ms = now_ms;
	link_write_reply(peer_out(exchange->peer), exchange->id, &reply);
}

void exchange_close_websocket(struct exchange *exchange, enum refusal refusal)
{
	static const struct link_end no_trailer;
	struct buf frame;

	buf_init(&frame, WS_CONTROL_MAX);
	websocket_write_close(refusal == REFUSAL_MISPLACED ? WS_CODE_POLICY : WS_CODE_INTERNAL,
			      &frame);
	/* There is always credit for so little: it is what WEBSOCKET_RESERVE is for. */
	if (!exchange->websocket->from_origin.has_closed)
		emit(exchange, (struct bytes){ frame.data, frame.len });
	buf_fini(&frame);
	link_write_end(peer_out(exchange->peer), exchange->id, &no_trailer);
}

void exchange_on_reply_head(struct exchange *exchange, const struct http_head *head,
			    uint64_t now_ms)
{
	const char *fault = find_fault(exchange, head);
	const struct http_field *type;

	if (fault) {
		exchange_fail(exchange, REFUSAL_GARBAGE, fault, now_ms);
		return;
	}
	if (head->status == 101) {
		begin_websocket(exchange, head, now_ms);
		return;
	}
	if (head->status < 200) {
		exchange->interim_count++;
		if (head->status != 100) /* our own was enough */
			send_head(exchange, head);
		return;
	}
	exchange->status = head->status;
	exchange->first_byte_ms = now_ms;
	exchange->is_reply_begun = true;
	type = http_find_field(head, BYTES("content-type"));
	exchange->is_grpc = exchange->scrubs && type && grpc_is_type(type->value);
	exchange->is_events = type &&
			      bytes_has_prefix_nocase(type->value, BYTES("text/event-stream"));
	note_fields(exchange, head, type);
	send_head(exchange, head);
}

/* ---- the body ---- */

size_t exchange_may_take(const struct exchange *exchange, size_t len)
{
	size_t most = exchange->credit, reserve;

	if (exchange->websocket) {
		/* What was held back is not taken off the credit before it goes out. */
		reserve = WEBSOCKET_RESERVE + exchange->websocket->scrub.held_len;
		most = most > reserve ? most - reserve : 0;
		most = most < WEBSOCKET_PIECE ? most : WEBSOCKET_PIECE;
	}
	return len < most ? len : most;
}

/* Frames, written anew. */
static int pass_frames_on(struct exchange *exchange, struct bytes data)
{
	struct buf frames;
	int r;

	buf_init(&frames, LINK_CREDIT_FIRST);
	/* What came before a fault is as good as any. */
	r = websocket_read_origin(exchange->websocket, data, &frames);
	if (frames.len > exchange->credit) {
		r = -E2BIG;
	} else {
		exchange->credit -= (uint32_t)frames.len;
		emit(exchange, (struct bytes){ frames.data, frames.len });
	}
	buf_fini(&frames);
	return r;
}

/* 0, or -EBADMSG when it cannot be searched. */
static int pass_on(struct exchange *exchange, struct bytes data)
{
	if (exchange->websocket && exchange->is_tunnel)
		return pass_frames_on(exchange, data);
	exchange->credit -= (uint32_t)data.len;
	if (exchange->finds_cost)
		cost_push(&exchange->cost, data);
	while (data.len > 0) {
		struct bytes part;
		bool is_end = false;

		if (!exchange->is_grpc)
			part = bytes_take(&data, data.len);
		else if (grpc_take(&exchange->grpc, &data, &part, &is_end) < 0)
			return -EBADMSG;
		scrub_push(&exchange->scrub, exchange->scrubs, part, emit, exchange);
		if (is_end)
			scrub_finish(&exchange->scrub, exchange->scrubs, emit, exchange);
	}
	return 0;
}

/* Decodes as much as the gate takes. 0, or -EBADMSG. */
static int decode(struct exchange *exchange, struct bytes *data)
{
	char piece[DECODE_PIECE];
	int state = ENCODING_NEEDS_ROOM;

	while (state == ENCODING_NEEDS_ROOM && exchange->credit > 0) {
		size_t room = exchange->credit < sizeof(piece) ? exchange->credit : sizeof(piece);
		size_t len;

		state = decoder_push(exchange->decoder, data, piece, room, &len);
		if (len > 0 && pass_on(exchange, (struct bytes){ piece, len }) < 0)
			state = -EBADMSG;
	}
	explicit_bzero(piece, sizeof(piece)); /* there may be a secret in it */
	exchange->has_decoded = state == ENCODING_NEEDS_ROOM;
	return state < 0 ? state : 0;
}

/* As much as the gate takes. */
static void take_data(struct exchange *exchange, struct bytes *data, uint64_t now_ms)
{
	size_t len = data->len;
	int r = 0;

	if (len > 0 && limiter_is_out(exchange, 1)) {
		exchange_run_out(exchange, limiter_last_word(exchange), now_ms);
		return;
	}
	if (exchange->decoder)
		r = decode(exchange, data);
	else if (exchange->credit > 0 && len > 0)
		r = pass_on(exchange,
			    bytes_take(data, len < exchange->credit ? len : exchange->credit));
	exchange->received_bytes += len - data->len;
	limiter_count(exchange);
	if (r < 0)
		exchange_fail(exchange, REFUSAL_GARBAGE,
			      exchange->websocket ? "it sent no frames of WebSocket"
						  : "its content coding is broken",
			      now_ms);
}

void exchange_on_reply_data(struct exchange *exchange, struct bytes data, uint64_t now_ms)
{
	if (!exchange_holds_reply(exchange))
		take_data(exchange, &data, now_ms);
	if (exchange->state == EXCHANGE_RELAY)
		buf_add(&exchange->coded, data.data, data.len);
}

/* Everything was passed on: the end. */
static void end_reply(struct exchange *exchange, const struct http_head *trailer, uint64_t now_ms)
{
	static struct link_end end;

	if (exchange->decoder && decoder_finish(exchange->decoder) < 0) {
		exchange_fail(exchange, REFUSAL_GARBAGE, "its content coding has no end", now_ms);
		return;
	}
	scrub_finish(&exchange->scrub, exchange->scrubs, emit, exchange);
	exchange->is_reply_over = true;
	if (exchange->finds_cost)
		cost_finish(&exchange->cost);
	end.field_count = trailer ? copy_fields(exchange, trailer, end.fields) : 0;
	link_write_end(peer_out(exchange->peer), exchange->id, &end);
	/* Of a tunnel, the agent may have more to say. */
	if (exchange->is_tunnel && !exchange->websocket &&
	    (!exchange->is_request_over || exchange->request.len > 0))
		exchange->origin->wire->watch(exchange);
	else
		exchange_finish(exchange, now_ms);
}

/* The end comes behind what waits, and so does the trailer. */
static void keep_trailer(struct exchange *exchange, const struct http_head *trailer)
{
	exchange->is_reply_complete = true;
	for (size_t i = 0; trailer && i < trailer->field_count; i++)
		h1_write_field(&exchange->trailer, trailer->fields[i].name,
			       trailer->fields[i].value);
	buf_add_text(&exchange->trailer, "\r\n");
}

void exchange_on_reply_end(struct exchange *exchange, const struct http_head *trailer,
			   uint64_t now_ms)
{
	if (exchange_holds_reply(exchange))
		keep_trailer(exchange, trailer);
	else
		end_reply(exchange, trailer, now_ms);
}

void exchange_on_reply_room(struct exchange *exchange, uint64_t now_ms)
{
	static struct http_head trailer; /* large, and needed only in here */
	struct bytes rest = { exchange->coded.data, exchange->coded.len };

	take_data(exchange, &rest, now_ms);
	if (exchange->state != EXCHANGE_RELAY)
		return;
	buf_keep(&exchange->coded, rest);
	if (exchange_holds_reply(exchange) || !exchange->is_reply_complete)
		return;
	http_head_clear(&trailer);
	if (http_read_fields((struct bytes){ exchange->trailer.data, exchange->trailer.len },
			     &trailer) != FAULT_NONE)
		trailer.field_count = 0; /* it was read before */
	end_reply(exchange, &trailer, now_ms);
}

void exchange_on_credit(struct exchange *exchange, uint32_t credit, uint64_t now_ms)
{
	exchange->credit += credit;
	limiter_count(exchange);
	/* One message of the gate's may let 64 KiB through, and many come in one read. */
	if (exchange->state == EXCHANGE_RELAY && !peer_is_behind(exchange->peer))
		exchange->origin->wire->resume(exchange, now_ms);
}

void exchange_begin_tunnel(struct exchange *exchange, uint64_t now_ms)
{
	static struct link_reply reply;

	reply.status = exchange->status = 200;
	reply.reason = BYTES("Connected");
	reply.framing = FRAMING_CLOSE;
	exchange->is_reply_begun = true;
	exchange->first_byte_ms = now_ms;
	link_write_reply(peer_out(exchange->peer), exchange->id, &reply);
}
