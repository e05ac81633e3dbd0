/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 by nghttp2.
 *
 * Reading. nghttp2 calls back while it reads; heads are collected in one block, which is there
 * only meanwhile, and bodies are passed on as they lie in the input. The window of the whole
 * connection is given back at once, so that only the streams' own windows hold anything.
 *
 * Writing. nghttp2 asks for data when it makes a DATA frame. There is some only within
 * h2_send_data(): its view is the stream's `data` while frames are made (pump), and goes from
 * there into `out`, which is the only copy. At all other times a stream that is asked has
 * nothing, is put off, and, if its owner waits, is due for on_writable.
 *
 * Callbacks. nghttp2 must not be told to write while it reads, and a stream should not vanish
 * from under a call that names it. So what the owner hears from within nghttp2 is what was read;
 * on_writable and on_close wait in the list of streams that are due, until h2_pending().
 *
 * Floods. What a peer can make us hold: H2_STREAMS_MAX streams, one head, H2_OUT_MAX bytes and
 * H2_QUEUE_MAX frames that wait for room. What it can make us do for nothing is paid from an
 * allowance that grows with time: pings, settings, resets, frames without content. The number
 * of CONTINUATION frames, and again that of resets, nghttp2 bounds itself.
 */
#include "http/h2.h"

#include <assert.h>
#include <errno.h>

#include "base/buf.h"
#include "base/die.h"
#include "http/h2_head.h"

#define FRAME_MAX    (16384 + 9)
#define WASTE_FRAME  1000 /* of the allowance; a millisecond gives H2_WASTE_RATE */
#define CONTROL_MAX  1000 /* acknowledgements that wait; nghttp2's own limit */
#define SETTINGS_MAX 32

struct h2 {
	nghttp2_session *session;
	const struct h2_callbacks *callbacks;
	void *owner;
	bool is_server;
	bool is_freed;          /* nothing is sent any more */
	bool is_reading;        /* nghttp2 does, and must not be told to write */
	bool is_shut_down;      /* by the owner: there are no new streams */
	int error;              /* it is over, and why */
	struct buf out;         /* frames to be written ... */
	size_t out_at;          /* ... from here */
	struct h2_block *block; /* the head that is coming in, or NULL */
	struct h2_stream *streams;
	size_t stream_count; /* that are not closed */
	struct h2_stream *due_first, *due_last;
	uint64_t allowance;
	uint64_t allowed_ms; /* up to when it was given */
};

/* The only failure of nghttp2's that is nobody's fault. */
static int checked(int result)
{
	if (result == NGHTTP2_ERR_NOMEM)
		die_no_memory();
	return result;
}

/* ---- streams ---- */

static struct h2_stream *stream_new(struct h2 *h2, void *exchange)
{
	struct h2_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		die_no_memory();
	stream->h2 = h2;
	stream->exchange = exchange;
	stream->next = h2->streams;
	if (stream->next)
		stream->next->previous = stream;
	h2->streams = stream;
	h2->stream_count++;
	return stream;
}

static void stream_free(struct h2_stream *stream)
{
	if (stream->next)
		stream->next->previous = stream->previous;
	if (stream->previous)
		stream->previous->next = stream->next;
	else
		stream->h2->streams = stream->next;
	free(stream);
}

static void set_due(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (stream->is_due)
		return;
	stream->is_due = true;
	stream->next_due = NULL;
	if (h2->due_last)
		h2->due_last->next_due = stream;
	else
		h2->due_first = stream;
	h2->due_last = stream;
}

static struct h2_stream *take_due(struct h2 *h2)
{
	struct h2_stream *stream = h2->due_first;

	if (!stream)
		return NULL;
	h2->due_first = stream->next_due;
	if (!h2->due_first)
		h2->due_last = NULL;
	stream->is_due = false;
	return stream;
}

static void set_closed(struct h2_stream *stream, uint32_t code)
{
	if (!stream->is_reset)
		stream->code = (enum h2_code)code;
	if (stream->is_closed)
		return;
	stream->is_closed = true;
	stream->h2->stream_count--;
	set_due(stream);
}

static void say_closed(struct h2_stream *stream, enum h2_code code)
{
	if (stream->is_announced)
		stream->h2->callbacks->on_close(stream->h2->owner, stream, code);
	stream_free(stream);
}

/* On_writable and on_close, in the order in which they became due. */
static bool say_what_is_due(struct h2 *h2)
{
	struct h2_stream *stream = take_due(h2);

	if (!stream)
		return false;
	for (; stream; stream = take_due(h2)) {
		if (stream->is_closed) {
			say_closed(stream, stream->code);
		} else if (stream->is_blocked) {
			stream->is_blocked = false;
			h2->callbacks->on_writable(h2->owner, stream);
		}
	}
	return true;
}

/* ---- floods ---- */

/* Something that costs the peer less than us. */
static int waste(struct h2 *h2)
{
	if (h2->allowance >= WASTE_FRAME) {
		h2->allowance -= WASTE_FRAME;
		return 0;
	}
	h2->error = -EDQUOT;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void add_allowance(struct h2 *h2, uint64_t now_ms)
{
	uint64_t most = (uint64_t)H2_WASTE_MAX * WASTE_FRAME;
	uint64_t passed = now_ms > h2->allowed_ms ? now_ms - h2->allowed_ms : 0;

	if (passed > most / H2_WASTE_RATE)
		passed = most / H2_WASTE_RATE;
	h2->allowance += passed * H2_WASTE_RATE;
	if (h2->allowance > most)
		h2->allowance = most;
	if (now_ms > h2->allowed_ms)
		h2->allowed_ms = now_ms;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *owner)
{
	(void)session;
	switch (hd->type) {
	case NGHTTP2_DATA:
		return hd->length || hd->flags & NGHTTP2_FLAG_END_STREAM ? 0 : waste(owner);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
	case NGHTTP2_WINDOW_UPDATE:
		return 0;
	default:
		return waste(owner);
	}
}

/* ---- reading: heads ---- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static void drop_block(struct h2 *h2)
{
	h2_block_free(h2->block);
	h2->block = NULL;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
	struct h2 *h2 = owner;
	struct h2_stream *stream = stream_of(session, frame->hd.stream_id);

	drop_block(h2);
	h2->block = h2_block_new();
	if (!stream && h2->is_server) {
		stream = stream_new(h2, NULL);
		stream->id = frame->hd.stream_id;
		checked(nghttp2_session_set_stream_user_data(session, stream->id, stream));
	}
	return 0;
}

/* A peer that goes on and on is told so, but not listened to. */
static int block_result(struct h2 *h2, bool is_within_bounds)
{
	if (is_within_bounds)
		return 0;
	h2->error = -EDQUOT;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
		     nghttp2_rcbuf *value, uint8_t flags, void *owner)
{
	struct h2 *h2 = owner;

	(void)session;
	(void)frame;
	(void)flags;
	return h2->block ? block_result(h2, h2_block_add(h2->block, name, value)) : 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *owner)
{
	struct h2 *h2 = owner;

	(void)session;
	(void)frame;
	(void)flags;
	return h2->block ? block_result(h2, h2_block_refuse(h2->block, name, value)) : 0;
}

/* Nobody is left who would want to know. */
static bool is_deaf(const struct h2_stream *stream)
{
	return stream->is_faulty || stream->is_reset ||
	       (stream->h2->is_server && stream->is_own_over);
}

/* Nothing more of the peer's message is passed on. */
static void say_fault(struct h2_stream *stream, enum http_fault fault, const struct http_head *head)
{
	struct h2 *h2 = stream->h2;

	if (is_deaf(stream))
		return;
	stream->is_faulty = stream->is_announced = true;
	h2->callbacks->on_fault(h2->owner, stream, fault, head);
}

static void end_message(struct h2_stream *stream, const struct http_head *trailer)
{
	stream->is_peer_over = true;
	if (!is_deaf(stream))
		stream->h2->callbacks->on_end(stream->h2->owner, stream, trailer);
}

static void read_trailer(struct h2_stream *stream, struct h2_block *block)
{
	enum http_fault fault = h2_block_read_trailer(block);

	if (!fault) {
		end_message(stream, &block->head);
		return;
	}
	say_fault(stream, fault, &block->head);
	h2_reset(stream, H2_PROTOCOL_ERROR);
}

static void read_head(struct h2_stream *stream, struct h2_block *block, bool is_end)
{
	struct h2 *h2 = stream->h2;
	enum http_fault fault = h2->is_server ? h2_block_read_request(block, is_end)
					      : h2_block_read_reply(block, is_end);

	stream->is_peer_over = is_end;
	if (fault) {
		stream->has_head = true;
		say_fault(stream, fault, &block->head);
		if (!h2->is_server)
			h2_reset(stream, H2_PROTOCOL_ERROR);
		return;
	}
	stream->has_head = h2->is_server || block->head.status >= 200;
	if (is_deaf(stream))
		return;
	stream->is_announced = true;
	h2->callbacks->on_head(h2->owner, stream, &block->head, is_end);
}

static void on_headers(struct h2_stream *stream, struct h2_block *block, uint8_t flags)
{
	if (stream->has_head)
		read_trailer(stream, block);
	else
		read_head(stream, block, flags & NGHTTP2_FLAG_END_STREAM);
}

/* ---- reading: bodies and ends ---- */

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
	static const struct http_head no_trailer;
	struct h2 *h2 = owner;
	struct h2_stream *stream = stream_of(session, frame->hd.stream_id);

	if (!stream)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && h2->block) {
		on_headers(stream, h2->block, frame->hd.flags);
		drop_block(h2);
	} else if (frame->hd.type == NGHTTP2_DATA && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		end_message(stream, &no_trailer);
	}
	return 0;
}

/* nghttp2 has reset the stream already, or is about to end the connection. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
			    void *owner)
{
	static const struct http_head no_head;
	struct h2 *h2 = owner;
	struct h2_stream *stream = stream_of(session, frame->hd.stream_id);

	(void)error;
	if (stream && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
		say_fault(stream, FAULT_MESSAGE, h2->block ? &h2->block->head : &no_head);
	drop_block(h2);
	return waste(h2);
}

/*
 * What comes after a reply has been given is not wanted, but taken for a while: many clients
 * look at the reply only when they have sent everything.
 */
static void discard(struct h2_stream *stream, size_t len)
{
	checked(nghttp2_session_consume_stream(stream->h2->session, stream->id, len));
	stream->discarded += len;
	if (stream->discarded > H2_LATE_MAX)
		h2_reset(stream, H2_NO_ERROR);
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
			 size_t len, void *owner)
{
	struct h2 *h2 = owner;
	struct h2_stream *stream = stream_of(session, id);

	(void)flags;
	checked(nghttp2_session_consume_connection(session, len));
	if (!stream)
		return 0;
	if (is_deaf(stream)) {
		discard(stream, len);
		return 0;
	}
	stream->unconsumed += len;
	h2->callbacks->on_data(h2->owner, stream, (struct bytes){ (const char *)data, len });
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *owner)
{
	struct h2_stream *stream = stream_of(session, id);

	(void)owner;
	if (!stream)
		return 0;
	set_closed(stream, code);
	/* Whichever side has sent the reset: it was the peer's doing if it was not the owner's. */
	if (code != NGHTTP2_NO_ERROR && !stream->is_reset)
		waste(stream->h2);
	return 0;
}

/* ---- writing ---- */

static void add_out(struct h2 *h2, const uint8_t *data, size_t len)
{
	size_t added = buf_add(&h2->out, (const char *)data, len);

	assert(added == len); /* a frame is begun only below H2_OUT_MAX */
}

static ssize_t on_read_data(nghttp2_session *session, int32_t id, uint8_t *room, size_t len,
			    uint32_t *flags, nghttp2_data_source *source, void *owner)
{
	struct h2_stream *stream = source->ptr;

	(void)session;
	(void)id;
	(void)room;
	(void)owner;
	if (stream->data.len == 0 && !stream->is_ending) {
		if (stream->is_blocked)
			set_due(stream);
		return NGHTTP2_ERR_DEFERRED;
	}
	if (len > stream->data.len)
		len = stream->data.len;
	stream->chunk = stream->data;
	stream->chunk.len = len;
	if (len > 0)
		bytes_take(&stream->data, len);
	*flags = NGHTTP2_DATA_FLAG_NO_COPY;
	if (stream->data.len == 0 && stream->is_ending)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)len;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
			size_t len, nghttp2_data_source *source, void *owner)
{
	struct h2_stream *stream = source->ptr;
	struct h2 *h2 = owner;

	(void)session;
	assert(frame->data.padlen == 0 && stream->chunk.len == len);
	add_out(h2, head, 9);
	if (len > 0)
		add_out(h2, (const uint8_t *)stream->chunk.data, len);
	stream->chunk = (struct bytes){ NULL, 0 };
	return h2_is_full(h2) ? NGHTTP2_ERR_PAUSE : 0;
}

/* The connection ends because of what the peer did, unless it ends in order. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *owner)
{
	struct h2 *h2 = owner;

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code && !h2->error)
		h2->error = -EPROTO;
	return 0;
}

/* A request that was ended before it was begun, or that came too late. */
static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
			     void *owner)
{
	struct h2 *h2 = owner;
	struct h2_stream *stream = NULL;

	(void)session;
	(void)error;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	for (stream = h2->streams; stream && stream->id != frame->hd.stream_id;)
		stream = stream->next;
	if (stream)
		set_closed(stream, H2_REFUSED_STREAM);
	return 0;
}

static void compact(struct h2 *h2)
{
	if (h2->out_at == h2->out.len) {
		buf_fini(&h2->out); /* thousands of connections wait without anything to say */
	} else if (h2->out_at > h2->out.len / 2) {
		h2->out.len -= h2->out_at;
		memmove(h2->out.data, h2->out.data + h2->out_at, h2->out.len);
	} else {
		return;
	}
	h2->out_at = 0;
}

/* Makes frames as long as there is room. */
static void pump(struct h2 *h2)
{
	const uint8_t *data;
	ssize_t len;

	if (h2->is_reading || h2->is_freed)
		return;
	compact(h2);
	while (!h2_is_full(h2)) {
		len = nghttp2_session_mem_send(h2->session, &data);
		if (checked((int)len) == 0)
			break;
		assert(len > 0); /* no callback fails here */
		add_out(h2, data, (size_t)len);
	}
}

/* ---- the connection ---- */

static nghttp2_session_callbacks *callbacks_new(void)
{
	nghttp2_session_callbacks *callbacks;

	checked(nghttp2_session_callbacks_new(&callbacks));
#define SET(name, function) nghttp2_session_callbacks_set_##name##_callback(callbacks, function)
	SET(on_begin_frame, on_begin_frame);
	SET(on_begin_headers, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
	SET(on_frame_recv, on_frame);
	SET(on_invalid_frame_recv, on_invalid_frame);
	SET(on_data_chunk_recv, on_data_chunk);
	SET(on_stream_close, on_stream_close);
	SET(on_frame_send, on_frame_sent);
	SET(on_frame_not_send, on_frame_not_sent);
	SET(send_data, on_send_data);
#undef SET
	return callbacks;
}

static nghttp2_option *options_new(bool is_server)
{
	nghttp2_option *option;

	checked(nghttp2_option_new(&option));
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, H2_STREAMS_MAX);
	nghttp2_option_set_max_send_header_block_length(option, (size_t)2 * HTTP_HEAD_MAX);
	nghttp2_option_set_max_deflate_dynamic_table_size(option, 4096);
	nghttp2_option_set_max_outbound_ack(option, CONTROL_MAX);
	nghttp2_option_set_max_settings(option, SETTINGS_MAX);
	nghttp2_option_set_max_continuations(option, H2_CONTINUATIONS);
	nghttp2_option_set_stream_reset_rate_limit(option, H2_WASTE_MAX, H2_WASTE_RATE);
	/* Origins do it; there it is trimmed, as in HTTP/1. */
	nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, !is_server);
	return option;
}

static void send_settings(struct h2 *h2, const struct h2_options *options)
{
	uint32_t window = options->window ? options->window : H2_WINDOW;
	nghttp2_settings_entry entries[] = {
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
		{ options->is_server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
				     : NGHTTP2_SETTINGS_ENABLE_PUSH,
		  options->is_server ? H2_STREAMS_MAX : 0 },
		{ NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 },
	};
	size_t count = ARRAY_LEN(entries) - !(options->is_server && options->has_extended_connect);

	assert(window <= INT32_MAX / 2);
	checked(nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, entries, count));
	checked(nghttp2_session_set_local_window_size(
		h2->session, NGHTTP2_FLAG_NONE, 0,
		window > H2_WINDOW_ALL / 2 ? (int32_t)window * 2 : H2_WINDOW_ALL));
}

struct h2 *h2_new(const struct h2_options *options, const struct h2_callbacks *callbacks,
		  void *owner)
{
	nghttp2_session_callbacks *functions = callbacks_new();
	nghttp2_option *option = options_new(options->is_server);
	struct h2 *h2 = calloc(1, sizeof(*h2));

	if (!h2)
		die_no_memory();
	h2->callbacks = callbacks;
	h2->owner = owner;
	h2->is_server = options->is_server;
	h2->allowance = (uint64_t)H2_WASTE_MAX * WASTE_FRAME;
	buf_init(&h2->out, (size_t)2 * H2_OUT_MAX + FRAME_MAX);
	if (h2->is_server)
		checked(nghttp2_session_server_new2(&h2->session, functions, h2, option));
	else
		checked(nghttp2_session_client_new2(&h2->session, functions, h2, option));
	nghttp2_session_callbacks_del(functions);
	nghttp2_option_del(option);
	send_settings(h2, options);
	return h2;
}

void h2_free(struct h2 *h2)
{
	if (!h2)
		return;
	h2->is_freed = true;
	h2->error = h2->error ? h2->error : -ECANCELED;
	for (struct h2_stream *stream = h2->streams; stream; stream = stream->next)
		if (!stream->is_closed)
			set_closed(stream, H2_CANCEL);
	say_what_is_due(h2);
	assert(!h2->streams);
	nghttp2_session_del(h2->session);
	drop_block(h2);
	buf_fini(&h2->out);
	free(h2);
}

/* When it is over because of what the peer did, tells it why. */
static void terminate(struct h2 *h2)
{
	uint32_t code = h2->error == -EDQUOT ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR;

	if (h2->error)
		checked(nghttp2_session_terminate_session(h2->session, code));
}

int h2_read(struct h2 *h2, struct bytes input, uint64_t now_ms)
{
	ssize_t len;

	if (h2->error)
		return h2->error;
	add_allowance(h2, now_ms);
	/* A stream that was reset counts until that is framed; its peer may be done with it, and
	 * have begun another. */
	pump(h2);
	h2->is_reading = true;
	len = nghttp2_session_mem_recv(h2->session, (const uint8_t *)input.data, input.len);
	h2->is_reading = false;
	if (len == NGHTTP2_ERR_FLOODED ||
	    nghttp2_session_get_outbound_queue_size(h2->session) > H2_QUEUE_MAX)
		h2->error = -EDQUOT;
	if (checked((int)len) < 0 && !h2->error)
		h2->error = -EPROTO;
	terminate(h2);
	pump(h2); /* that nghttp2 ends the connection itself is known when it says so to the peer */
	return h2->error;
}

struct bytes h2_pending(struct h2 *h2)
{
	do {
		terminate(h2);
		pump(h2);
	} while (say_what_is_due(h2));
	if (!h2->out.data)
		return (struct bytes){ NULL, 0 };
	return (struct bytes){ h2->out.data + h2->out_at, h2->out.len - h2->out_at };
}

void h2_sent(struct h2 *h2, size_t len)
{
	assert(len <= h2->out.len - h2->out_at);
	h2->out_at += len;
	compact(h2);
}

bool h2_is_full(const struct h2 *h2)
{
	return h2->out.len - h2->out_at >= H2_OUT_MAX;
}

bool h2_is_over(const struct h2 *h2)
{
	return h2->error || !nghttp2_session_want_read(h2->session);
}

void h2_shutdown(struct h2 *h2)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);

	h2->is_shut_down = true;
	checked(nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL,
				      0));
}

size_t h2_stream_count(const struct h2 *h2)
{
	return h2->stream_count;
}

bool h2_may_request(const struct h2 *h2)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	/* After our own goodbye nghttp2 would still begin one, and perhaps reads no more. */
	return !h2->error && !h2->is_shut_down && h2->stream_count < most &&
	       h2->stream_count < H2_STREAMS_MAX &&
	       nghttp2_session_check_request_allowed(h2->session);
}

/* ---- sending ---- */

/* The end of what we say was taken: from here on a request is not listened to. */
static void set_own_over(struct h2_stream *stream)
{
	if (stream->h2->is_server)
		h2_consume(stream, stream->unconsumed);
	stream->is_own_over = true;
}

struct h2_stream *h2_request(struct h2 *h2, const struct h2_message *message, void *exchange,
			     bool is_end)
{
	nghttp2_data_provider provider = { .read_callback = on_read_data };
	struct h2_stream *stream;
	struct h2_nvs nvs;

	if (!h2_may_request(h2) || h2_format_request(message, &nvs) < 0)
		return NULL;
	stream = stream_new(h2, exchange);
	provider.source.ptr = stream;
	stream->id = checked(nghttp2_submit_request(h2->session, NULL, nvs.nvs, nvs.count,
						    is_end ? NULL : &provider, stream));
	if (stream->id < 0) {
		h2->stream_count--;
		stream_free(stream);
		return NULL;
	}
	stream->is_announced = stream->is_reply_begun = true;
	stream->is_own_over = is_end;
	return stream;
}

int h2_send_reply(struct h2_stream *stream, const struct h2_message *message, bool is_end)
{
	nghttp2_data_provider provider = { .source.ptr = stream, .read_callback = on_read_data };
	nghttp2_session *session = stream->h2->session;
	struct h2_nvs nvs;
	int r = h2_format_reply(message, &nvs);

	assert(stream->h2->is_server);
	if (r < 0 || stream->is_closed || stream->is_reply_begun)
		return r;
	if (message->status < 200) {
		checked(nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, stream->id, NULL,
					       nvs.nvs, nvs.count, NULL));
		return 0;
	}
	stream->is_reply_begun = true;
	checked(nghttp2_submit_response(session, stream->id, nvs.nvs, nvs.count,
					is_end ? NULL : &provider));
	if (is_end)
		set_own_over(stream);
	return 0;
}

size_t h2_send_data(struct h2_stream *stream, struct bytes data, bool is_end)
{
	struct h2 *h2 = stream->h2;

	if (stream->is_closed || stream->is_reset || stream->is_own_over || !stream->is_reply_begun)
		return 0;
	stream->data = data;
	stream->is_ending = is_end;
	stream->is_blocked = false;
	/* It fails while the head waits to be sent, and then there is nothing to resume. */
	checked(nghttp2_session_resume_data(h2->session, stream->id));
	pump(h2);
	data.len -= stream->data.len;
	stream->is_blocked = stream->data.len > 0;
	if (stream->is_blocked)
		stream->is_ending = false;
	else if (is_end)
		set_own_over(stream);
	stream->data = (struct bytes){ NULL, 0 };
	return data.len;
}

int h2_send_trailer(struct h2_stream *stream, const struct http_field *fields, size_t field_count)
{
	struct h2_nvs nvs;
	int r = h2_format_trailer(fields, field_count, &nvs);

	if (stream->is_closed || stream->is_reset || stream->is_own_over || !stream->is_reply_begun)
		return r;
	if (r < 0 || nvs.count == 0) {
		size_t taken = h2_send_data(stream, (struct bytes){ NULL, 0 }, true);

		(void)taken; /* the end is always taken */
		return r;
	}
	/* All data was framed when it was taken, so this comes after it. */
	checked(nghttp2_submit_trailer(stream->h2->session, stream->id, nvs.nvs, nvs.count));
	set_own_over(stream);
	return 0;
}

void h2_reset(struct h2_stream *stream, enum h2_code code)
{
	if (stream->is_closed || stream->is_reset)
		return;
	stream->is_reset = true;
	stream->code = code;
	checked(nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id,
					  (uint32_t)code));
}

void h2_consume(struct h2_stream *stream, size_t len)
{
	if (stream->is_closed || is_deaf(stream))
		return;
	assert(len <= stream->unconsumed);
	stream->unconsumed -= len;
	if (len > 0)
		checked(nghttp2_session_consume_stream(stream->h2->session, stream->id, len));
}
