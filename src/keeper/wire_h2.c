/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 with an upstream: each exchange is a stream.
 *
 * The head of a request was written as HTTP/1.1, before it was known what the upstream speaks; it
 * is read back here by the same reader that reads an agent's, so that no secret in it can be more
 * than a value. It is kept until something of the body has gone out or the reply begins: an
 * upstream that has not processed a stream says so, and then the request is made again.
 *
 * What has come of a reply and finds no credit waits with its exchange, at most a stream's window.
 */
#include <errno.h>

#include "keeper/exchange.h"
#include "keeper/origin.h"

static void mark_dirty(struct origin *origin)
{
	struct keeper *keeper = origin->keeper;

	if (origin->is_dirty)
		return;
	origin->is_dirty = true;
	origin->next_dirty = keeper->dirty_origins;
	keeper->dirty_origins = origin;
}

/* ---- the request ---- */

static bool is_grpc(const struct http_head *head)
{
	const struct http_field *type = http_find_field(head, BYTES("content-type"));

	return type && grpc_is_type(type->value);
}

static bool begin(struct exchange *exchange)
{
	static struct http_head head; /* large, and needed only in here */
	struct origin *origin = exchange->origin;
	struct bytes text = { exchange->request.data, exchange->head_len };
	bool has_body = exchange->request.len > exchange->head_len || !exchange->is_request_over;
	struct h2_message message;

	if (http_read_request(text, &head) != FAULT_NONE)
		return false;
	/* Trailers are passed on, and gRPC wants to be told so. */
	if (is_grpc(&head) && head.field_count < HTTP_FIELDS_MAX)
		head.fields[head.field_count++] = (struct http_field){ BYTES("te"),
								       BYTES("trailers") };
	message = (struct h2_message){
		.method = head.method,
		.scheme = BYTES("https"),
		.host = head.host,
		.path = head.path,
		.has_length = head.framing == FRAMING_LENGTH,
		.length = head.length,
		.fields = head.fields,
		.field_count = head.field_count,
	};
	exchange->stream = h2_request(origin->h2, &message, exchange, !has_body);
	exchange->request_start = exchange->head_len;
	mark_dirty(origin);
	return exchange->stream != NULL;
}

static void add_body(struct exchange *exchange, struct bytes data)
{
	buf_add(&exchange->request, data.data, data.len);
}

/* It is sent with what is left of the body. */
static void end_body(struct exchange *exchange)
{
	(void)exchange;
}

static void flush(struct exchange *exchange, uint64_t now_ms)
{
	struct bytes rest = { exchange->request.data + exchange->request_start,
			      exchange->request.len - exchange->request_start };

	if (!exchange->stream)
		return; /* the reply is complete, and waits for credit */
	if (rest.len > 0 || exchange->is_request_over) {
		size_t taken = h2_send_data(exchange->stream, rest, exchange->is_request_over);

		mark_dirty(exchange->origin);
		exchange->request_start += taken;
		if (taken > 0) {
			exchange->head_len = 0; /* it cannot be made again any more */
			exchange->last_ms = now_ms;
		}
	}
	if (exchange->request_start < exchange->request.len)
		return;
	if (exchange->head_len == 0)
		exchange_wipe_request(exchange);
	exchange_grant(exchange);
}

/* ---- the reply ---- */

static uint64_t now_of(void *owner)
{
	return ((struct origin *)owner)->now_ms;
}

/* What the exchange took of it, its stream may send again. */
static void consume(struct exchange *exchange, size_t len)
{
	if (!exchange->stream || len == 0)
		return;
	h2_consume(exchange->stream, len);
	mark_dirty(exchange->origin);
}

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	struct exchange *exchange = stream->exchange;

	if (!exchange)
		return;
	exchange->head_len = 0;
	if (exchange->request_start == exchange->request.len)
		exchange_wipe_request(exchange);
	exchange->last_ms = now_of(owner);
	exchange_on_reply_head(exchange, head, now_of(owner));
	if (is_end && exchange->state == EXCHANGE_RELAY)
		exchange_on_reply_end(exchange, NULL, now_of(owner));
}

static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct exchange *exchange = stream->exchange;
	size_t waiting;

	if (!exchange)
		return;
	waiting = exchange->coded.len + data.len;
	exchange->last_ms = now_of(owner);
	exchange_on_reply_data(exchange, data, now_of(owner));
	if (exchange->state == EXCHANGE_RELAY)
		consume(exchange, waiting - exchange->coded.len);
}

static void on_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	if (stream->exchange)
		exchange_on_reply_end(stream->exchange, trailer, now_of(owner));
}

static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	(void)head;
	if (stream->exchange)
		exchange_fail(stream->exchange, REFUSAL_GARBAGE, http_fault_info(fault)->text,
			      now_of(owner));
}

static void on_writable(void *owner, struct h2_stream *stream)
{
	if (stream->exchange)
		flush(stream->exchange, now_of(owner));
}

/* Whether the upstream has not even looked at it, and how it would have it instead. */
static bool may_ask_again(const struct exchange *exchange, enum h2_code code)
{
	return exchange->head_len > 0 &&
	       (code == H2_REFUSED_STREAM || code == H2_HTTP_1_1_REQUIRED);
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct origin *origin = owner;
	struct exchange *exchange = stream->exchange;

	if (!exchange)
		return;
	exchange->stream = NULL;
	if (exchange->is_reply_complete)
		return; /* it waits for credit */
	if (code == H2_HTTP_1_1_REQUIRED)
		origin->upstream->is_http1_only = true;
	if (may_ask_again(exchange, code))
		exchange_restart(exchange, now_of(owner));
	else
		exchange_fail(exchange, REFUSAL_RESET, NULL, now_of(owner));
}

static void resume(struct exchange *exchange, uint64_t now_ms)
{
	size_t waiting = exchange->coded.len;

	if (exchange_holds_reply(exchange))
		exchange_on_reply_room(exchange, now_ms);
	if (exchange->state == EXCHANGE_RELAY) {
		consume(exchange, waiting - exchange->coded.len);
		mark_dirty(exchange->origin); /* the run may have been stalled */
	}
}

/* ---- the connection ---- */

static void lose(struct origin *origin)
{
	struct h2 *h2 = origin->h2;

	if (!h2)
		return;
	origin->is_over = true; /* whoever asks again does so elsewhere */
	h2_free(h2);
	origin->h2 = NULL;
	origin_close(origin);
}

static bool wants_input(const struct origin *origin)
{
	return !origin->is_over && !peer_is_behind(origin->peer) && !h2_is_full(origin->h2);
}

static void read_input(struct origin *origin, uint64_t now_ms)
{
	char *input = origin->keeper->input;
	ssize_t n;

	do {
		n = stream_read(&origin->stream, input, KEEPER_INPUT_SIZE);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			lose(origin);
			return;
		}
		origin->now_ms = now_ms;
		if (h2_read(origin->h2, (struct bytes){ input, (size_t)n }, now_ms) < 0)
			origin->is_over = true;
		mark_dirty(origin);
	} while (origin->stream.has_pending && wants_input(origin));
}

static void on_ready(struct origin *origin, uint64_t now_ms)
{
	if (wants_input(origin))
		read_input(origin, now_ms);
	if (origin->h2)
		mark_dirty(origin);
}

/* Writes what the upstream takes; false when the connection is gone. */
static bool write_pending(struct origin *origin, bool *ret_has_more)
{
	struct bytes pending;

	*ret_has_more = false;
	while ((pending = h2_pending(origin->h2)).len > 0) {
		ssize_t n = stream_write(&origin->stream, pending.data, pending.len);

		if (n == -EAGAIN) {
			*ret_has_more = true;
			return true;
		}
		if (n < 0) {
			lose(origin);
			return false;
		}
		h2_sent(origin->h2, (size_t)n);
	}
	return true;
}

void origin_finish_turn(struct origin *origin, uint64_t now_ms)
{
	bool has_more;

	origin->is_dirty = false;
	if (!origin->h2)
		return;
	origin->now_ms = now_ms;
	if (!write_pending(origin, &has_more))
		return;
	/* What TLS has read ahead raises no event. */
	if (origin->stream.has_pending && wants_input(origin))
		read_input(origin, now_ms);
	if (!origin->h2)
		return;
	if (!has_more && (origin->is_over || h2_is_over(origin->h2))) {
		lose(origin);
		return;
	}
	if (h2_stream_count(origin->h2) == 0 && !origin->timer.place)
		origin_set_idle(origin, now_ms + ORIGIN_SHARED_MS);
	origin_set_interest(origin, wants_input(origin), has_more);
}

static void watch(struct exchange *exchange)
{
	mark_dirty(exchange->origin);
}

static void release(struct exchange *exchange, bool is_complete, uint64_t now_ms)
{
	struct h2_stream *stream = exchange->stream;
	bool is_sent = exchange->is_request_over &&
		       exchange->request_start == exchange->request.len;

	(void)now_ms;
	mark_dirty(exchange->origin);
	if (!stream)
		return;
	stream->exchange = NULL;
	if (!is_complete || !is_sent)
		h2_reset(stream, H2_CANCEL);
}

const struct wire wire_h2 = {
	begin, add_body, end_body, flush, resume, watch, release, on_ready, lose,
};

void origin_start_h2(struct origin *origin)
{
	static const struct h2_callbacks callbacks = {
		on_head, on_data, on_end, on_fault, on_writable, on_close,
	};
	static const struct h2_options options = { .window = LINK_CREDIT_FIRST };

	origin->h2 = h2_new(&options, &callbacks, origin);
}
