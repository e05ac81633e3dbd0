/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 with an upstream, one exchange at a time; and tunnels, whose bytes are nobody's.
 *
 * No more of a reply is read than the gate has granted: what has come beyond that waits in the
 * origin's `in`, and the socket is not read meanwhile.
 */
#include <errno.h>
#include <sys/socket.h>

#include "http/h1_write.h"
#include "keeper/exchange.h"
#include "keeper/origin.h"

/* ---- the request ---- */

static void add_body(struct exchange *exchange, struct bytes data)
{
	char chunk[H1_CHUNK_HEAD_MAX] = "";

	if (exchange->is_chunked)
		buf_add(&exchange->request, chunk, h1_format_chunk_head(chunk, data.len));
	buf_add(&exchange->request, data.data, data.len);
	if (exchange->is_chunked)
		buf_add_text(&exchange->request, H1_CHUNK_END);
}

static void end_body(struct exchange *exchange)
{
	if (exchange->is_chunked)
		buf_add_text(&exchange->request, H1_LAST_CHUNK);
}

/* What has come of the body by now is framed. */
static void frame(struct exchange *exchange)
{
	struct buf raw = exchange->request;

	buf_init(&exchange->request, raw.max);
	buf_add(&exchange->request, raw.data, exchange->head_len);
	if (raw.len > exchange->head_len)
		add_body(exchange, (struct bytes){ raw.data + exchange->head_len,
						   raw.len - exchange->head_len });
	explicit_bzero(raw.data, raw.len);
	buf_fini(&raw);
}

static bool begin(struct exchange *exchange)
{
	struct origin *origin = exchange->origin;

	origin->exchange = exchange;
	origin->reader.answers_head = exchange->is_head;
	if (exchange->is_chunked && exchange->request.len > exchange->head_len)
		frame(exchange);
	if (exchange->is_request_over)
		end_body(exchange);
	return true;
}

/* Frames do not go out before the upstream has confirmed that it takes them for that. */
static size_t request_len(const struct exchange *exchange)
{
	if (exchange->websocket && !exchange->is_tunnel)
		return exchange->head_len - exchange->request_start;
	return exchange->request.len - exchange->request_start;
}

/* The agent has said all. */
static void end_tunnel(struct exchange *exchange, uint64_t now_ms)
{
	if (exchange->websocket) {
		exchange_on_reply_end(exchange, NULL, now_ms); /* nobody is left to hear more */
		return;
	}
	shutdown(exchange->origin->stream.fd, SHUT_WR);
	if (exchange->is_reply_over)
		exchange_finish(exchange, now_ms);
}

static void flush(struct exchange *exchange, uint64_t now_ms)
{
	while (request_len(exchange) > 0) {
		ssize_t n = stream_write(&exchange->origin->stream,
					 exchange->request.data + exchange->request_start,
					 request_len(exchange));

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			/* It may have answered before it closed: that is read first. */
			exchange->request.len = exchange->request_start = 0;
			exchange->has_write_failed = true;
			break;
		}
		exchange->request_start += (size_t)n;
		exchange->last_ms = now_ms;
	}
	if (exchange->request_start == exchange->request.len) {
		exchange_wipe_request(exchange);
		exchange_grant(exchange);
		if (exchange->is_tunnel && exchange->is_request_over)
			end_tunnel(exchange, now_ms);
	}
	if (exchange->state == EXCHANGE_RELAY)
		wire_h1.watch(exchange);
}

/* ---- the reply ---- */

static bool is_in_body(const struct h1_reader *reader)
{
	return reader->state == H1_STATE_BODY || reader->state == H1_STATE_CHUNK_DATA ||
	       reader->state == H1_STATE_BODY_CLOSE;
}

/* Not beyond the credit; without any, what frames a body byte by byte, to stop at the body. */
static size_t readable_len(const struct exchange *exchange, size_t len)
{
	if (len <= exchange->credit)
		return len;
	return exchange->credit || is_in_body(&exchange->origin->reader) ? exchange->credit : 1;
}

static void on_head(struct exchange *exchange, const struct http_head *head, uint64_t now_ms)
{
	exchange->may_reuse = head->keeps_alive;
	exchange_on_reply_head(exchange, head, now_ms);
	if (exchange->state == EXCHANGE_RELAY && exchange->is_tunnel) {
		exchange->head_len = 0;
		exchange_mark_dirty(exchange); /* what had to wait for it */
	} else if (exchange->state == EXCHANGE_RELAY && head->status < 200) {
		h1_reader_next(&exchange->origin->reader);
		exchange->origin->reader.answers_head = exchange->is_head;
	}
}

/* Reads as far as the credit allows; false when it is to wait, or is over. */
static bool step(struct exchange *exchange, struct bytes *input, uint64_t now_ms)
{
	struct h1_result *result = &exchange->peer->keeper->result;
	struct h1_reader *reader = &exchange->origin->reader;
	size_t len = readable_len(exchange, input->len);
	struct bytes part = { input->data, len };
	enum h1_event event;

	if ((len == 0 && reader->state != H1_STATE_OVER) || exchange_holds_reply(exchange))
		return false;
	event = h1_read(reader, &part, result);
	bytes_take(input, len - part.len);
	switch (event) {
	case H1_HEAD:
		on_head(exchange, &result->head, now_ms);
		return true;
	case H1_DATA:
		exchange_on_reply_data(exchange, result->data, now_ms);
		return true;
	case H1_END:
		/* More than one reply is one too many: the connection is not used again. */
		if (input->len > 0)
			exchange->may_reuse = false;
		exchange_on_reply_end(exchange, &result->head, now_ms);
		return false;
	case H1_BROKEN:
		exchange_fail(exchange, REFUSAL_GARBAGE, http_fault_info(reader->fault)->text,
			      now_ms);
		return false;
	case H1_NEEDS_MORE:
		break;
	}
	return part.len < len;
}

/* As much as the credit allows, as it is. */
static void process_tunnel(struct exchange *exchange, struct bytes input, uint64_t now_ms)
{
	size_t len;

	do {
		len = exchange_may_take(exchange, input.len);
		if (len > 0)
			exchange_on_reply_data(exchange, bytes_take(&input, len), now_ms);
	} while (len > 0 && exchange->state == EXCHANGE_RELAY);
	if (exchange->state == EXCHANGE_RELAY)
		buf_keep(&exchange->origin->in, input);
}

static void process(struct exchange *exchange, struct bytes input, uint64_t now_ms)
{
	while (exchange->state == EXCHANGE_RELAY && !exchange->is_tunnel &&
	       step(exchange, &input, now_ms))
		;
	if (exchange->state != EXCHANGE_RELAY)
		return;
	if (exchange->is_tunnel)
		process_tunnel(exchange, input, now_ms);
	else
		buf_keep(&exchange->origin->in, input);
}

/* The upstream has closed: the end of a reply that ends so, or of one that is cut short. */
static void on_input_end(struct exchange *exchange, int error, uint64_t now_ms)
{
	struct h1_reader *reader = &exchange->origin->reader;
	/* Behind a close frame it does not matter how the connection ends. */
	bool is_closed = exchange->websocket && exchange->websocket->from_origin.has_closed;
	/* A write that failed has taken the socket's error: what looks like an end is none. */
	enum h1_event event = is_closed                             ? H1_END
			      : error || exchange->has_write_failed ? H1_BROKEN
			      : exchange->is_tunnel                 ? H1_END
								    : h1_read_end(reader);

	if (event == H1_END)
		exchange_on_reply_end(exchange, NULL, now_ms);
	else
		exchange_fail(exchange, REFUSAL_RESET, NULL, now_ms);
}

static bool may_read(const struct exchange *exchange)
{
	return exchange->origin->in.len == 0 && !exchange_holds_reply(exchange) &&
	       !peer_is_behind(exchange->peer) && !exchange->is_reply_over;
}

static void read_origin(struct exchange *exchange, uint64_t now_ms)
{
	struct keeper *keeper = exchange->peer->keeper;
	struct origin *origin = exchange->origin;

	do {
		ssize_t n = stream_read(&origin->stream, keeper->input, KEEPER_INPUT_SIZE);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			on_input_end(exchange, (int)n, now_ms);
			return;
		}
		exchange->last_ms = now_ms;
		process(exchange, (struct bytes){ keeper->input, (size_t)n }, now_ms);
	} while (exchange->state == EXCHANGE_RELAY && origin->stream.has_pending &&
		 may_read(exchange));
}

static void watch(struct exchange *exchange)
{
	origin_set_interest(exchange->origin, may_read(exchange), request_len(exchange) > 0);
}

static void on_ready(struct origin *origin, uint64_t now_ms)
{
	struct exchange *exchange = origin->exchange;

	/* One that waits has nothing to say: it ends, or it is out of step. */
	if (!exchange) {
		origin_close(origin);
		return;
	}
	if (exchange->request.len > 0)
		exchange_mark_dirty(exchange);
	if (may_read(exchange))
		read_origin(exchange, now_ms);
	if (exchange->state == EXCHANGE_RELAY)
		watch(exchange);
}

static void resume(struct exchange *exchange, uint64_t now_ms)
{
	struct origin *origin = exchange->origin;

	if (exchange_holds_reply(exchange))
		exchange_on_reply_room(exchange, now_ms);
	/* Also without any: the end of a reply may have had to wait. */
	if (exchange->state == EXCHANGE_RELAY)
		process(exchange, (struct bytes){ origin->in.data, origin->in.len }, now_ms);
	if (exchange->state != EXCHANGE_RELAY)
		return;
	/* What TLS has read ahead raises no event. */
	if (origin->stream.has_pending && may_read(exchange))
		read_origin(exchange, now_ms);
	if (exchange->state == EXCHANGE_RELAY)
		watch(exchange);
}

/* ---- the end ---- */

static bool can_be_used_again(const struct exchange *exchange)
{
	const struct origin *origin = exchange->origin;

	return exchange->may_reuse && !exchange->has_write_failed && exchange->is_request_over &&
	       exchange->request.len == 0 && origin->in.len == 0 && !origin->stream.has_pending;
}

static void release(struct exchange *exchange, bool is_complete, uint64_t now_ms)
{
	struct origin *origin = exchange->origin;

	origin->exchange = NULL;
	if (!is_complete || !can_be_used_again(exchange)) {
		origin_close(origin);
		return;
	}
	h1_reader_next(&origin->reader);
	origin_set_interest(origin, true, false);
	origin_set_idle(origin, now_ms + ORIGIN_IDLE_MS);
}

const struct wire wire_h1 = {
	begin, add_body, end_body, flush, resume, watch, release, on_ready, origin_close,
};
