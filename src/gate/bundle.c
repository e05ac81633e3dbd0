/* SPDX-License-Identifier: MIT */
/* HTTP/2 with the agent. From here on the bytes are the agent's. */
#include "gate/bundle.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "gate/connection.h"
#include "gate/request.h"
#include "gate/session.h"
#include "http/h1_write.h"
#include "http/h2.h"
#include "sys/fd.h"

struct bundle {
	struct connection connection; /* first */
	struct loop_timer timer;      /* of the agent's silence */
	struct endpoint endpoint;     /* where it leads */
	struct h2 *h2;
	bool has_input_ended;
	bool is_over; /* what is pending is written, then it ends */
};

struct strand {
	struct call call;
	struct bundle *bundle;
	struct h2_stream *stream;
	struct buf out;     /* of the reply's body: what the stream does not take yet */
	struct buf trailer; /* ... and what follows it, as lines */
	size_t unanswered;  /* bytes of the request that no credit was granted for */
	char accept[WS_ACCEPT_TEXT_LEN + 1]; /* what WebSocket is confirmed with; or empty */
	bool is_head;                        /* the request is HEAD */
	bool is_ending;                      /* nothing follows what is in `out`, but the trailer */
};

static const struct carrier carrier;

static struct bundle *bundle_at(const struct connection *connection)
{
	return (struct bundle *)(void *)connection; /* its first member */
}

static bool is_open(const struct bundle *bundle)
{
	return connection_is_open(&bundle->connection);
}

/* There is something to be written, which comes out of h2_pending. */
static void mark_dirty(struct bundle *bundle)
{
	connection_mark_dirty(&bundle->connection);
}

/* ---- opening and closing ---- */

static void free_bundle(struct connection *connection)
{
	struct bundle *bundle = bundle_at(connection);

	h2_free(bundle->h2);
	free(bundle);
}

static bool is_idle(const struct connection *connection)
{
	return h2_stream_count(bundle_at(connection)->h2) == 0;
}

/* Its calls are aborted. The strands go with the bundle, at the end of the turn. */
static void reset(struct connection *connection)
{
	struct bundle *bundle = bundle_at(connection);

	if (!is_open(bundle))
		return;
	if (!is_idle(connection))
		fd_set_abrupt(connection->source.fd, true);
	loop_cancel(&connection->gate->loop, &bundle->timer);
	connection_close(connection);
	h2_free(bundle->h2);
	bundle->h2 = NULL;
}

static void on_silence(struct loop_timer *timer, uint64_t now_ms)
{
	struct bundle *bundle = OWNER_OF(timer, struct bundle, timer);
	uint64_t last_ms = bundle->connection.last_ms;

	/* While it takes what it is given, or waits for something, it is not silent. */
	if (h2_stream_count(bundle->h2) > 0 && h2_pending(bundle->h2).len == 0)
		last_ms = now_ms;
	if (now_ms >= last_ms + SESSION_IDLE_MS)
		reset(&bundle->connection);
	else
		loop_set_timer(&bundle->connection.gate->loop, timer, last_ms + SESSION_IDLE_MS);
}

/* ---- requests ---- */

static struct strand *strand_new(struct bundle *bundle, struct h2_stream *stream)
{
	struct strand *strand = calloc(1, sizeof(*strand));

	if (!strand)
		die_no_memory();
	strand->bundle = bundle;
	strand->stream = stream;
	call_init(&strand->call, bundle->connection.gate, &carrier);
	buf_init(&strand->out, LINK_CREDIT_FIRST);
	buf_init(&strand->trailer, LINK_HEAD_MAX);
	stream->exchange = strand;
	return strand;
}

/* Gives the stream what it takes, and the end behind everything. */
static void push_out(struct strand *strand)
{
	struct bytes rest = { strand->out.data, strand->out.len };
	bool is_end = strand->is_ending && strand->trailer.len == 0;
	static struct http_head trailer; /* large, and needed only in here */

	if (rest.len > 0 || is_end)
		bytes_take(&rest, h2_send_data(strand->stream, rest, is_end));
	buf_keep(&strand->out, rest);
	if (rest.len > 0)
		return;
	call_grant(&strand->call);
	if (strand->trailer.len == 0)
		return;
	http_head_clear(&trailer);
	if (http_read_fields((struct bytes){ strand->trailer.data, strand->trailer.len },
			     &trailer) != FAULT_NONE ||
	    h2_send_trailer(strand->stream, trailer.fields, trailer.field_count) < 0)
		h2_reset(strand->stream, H2_INTERNAL_ERROR);
	buf_fini(&strand->trailer);
}

static void answer(struct strand *strand, const struct course *course, const struct http_head *head)
{
	static const struct http_field type = { BYTES("content-type"), BYTES("application/json") };
	struct h2_message message = { .status = course->status, .fields = &type, .field_count = 1 };

	request_answer(strand->bundle->connection.gate, &strand->bundle->endpoint, course, head,
		       &strand->out);
	message.has_length = true;
	message.length = strand->out.len;
	if (strand->is_head)
		buf_fini(&strand->out);
	strand->is_ending = true;
	if (h2_send_reply(strand->stream, &message, strand->out.len == 0) < 0)
		h2_reset(strand->stream, H2_INTERNAL_ERROR);
	push_out(strand);
	mark_dirty(strand->bundle);
}

/* Whether there is room on the link for another exchange; the agent may ask again if not. */
static bool has_room(const struct gate *gate)
{
	return !link_port_is_behind(&gate->link) &&
	       gate->call_count + gate->connection_max < LINK_EXCHANGES_MAX;
}

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	struct bundle *bundle = owner;
	struct strand *strand = strand_new(bundle, stream);
	struct course course;

	strand->is_head = bytes_equal(head->method, BYTES("HEAD"));
	request_judge(&bundle->endpoint, head, &course);
	if (course.way != COURSE_CALL) {
		answer(strand, &course, head);
	} else if (!has_room(bundle->connection.gate)) {
		h2_reset(stream, H2_REFUSED_STREAM);
	} else {
		memcpy(strand->accept, course.accept, sizeof(strand->accept));
		request_open(&strand->call, head, &course);
		if (is_end)
			call_end_request(&strand->call);
	}
}

/* There is credit for it: the window is no larger. */
static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct strand *strand = stream->exchange;

	(void)owner;
	if (!call_is_open(&strand->call)) {
		h2_consume(stream, data.len); /* nobody wants it */
		return;
	}
	strand->unanswered += data.len;
	while (data.len > 0)
		call_send(&strand->call,
			  bytes_take(&data, data.len < LINK_DATA_MAX ? data.len : LINK_DATA_MAX));
}

/* A trailer goes no further: nothing of it was judged (RFC 9110 6.5.1). */
static void on_request_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	struct strand *strand = stream->exchange;

	(void)owner;
	(void)trailer;
	if (call_is_open(&strand->call))
		call_end_request(&strand->call);
}

/* A request that cannot be passed on, or the rest of one. */
static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	struct strand *strand = stream->exchange;
	struct course course;

	if (strand) {
		call_abort(&strand->call);
		h2_reset(stream, H2_PROTOCOL_ERROR);
		return;
	}
	strand = strand_new(owner, stream);
	request_judge_fault(fault, &course);
	answer(strand, &course, head);
	if (fault == FAULT_MESSAGE)
		h2_reset(stream, H2_PROTOCOL_ERROR);
}

/* ---- replies ---- */

static void on_writable(void *owner, struct h2_stream *stream)
{
	struct strand *strand = stream->exchange;

	(void)owner;
	if (strand)
		push_out(strand);
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct strand *strand = stream->exchange;

	(void)owner;
	(void)code;
	if (!strand)
		return;
	call_abort(&strand->call);
	buf_fini(&strand->out);
	buf_fini(&strand->trailer);
	free(strand);
}

static struct strand *strand_of(struct call *call)
{
	return OWNER_OF(call, struct strand, call);
}

/* The reply to HEAD tells the length that GET would have. */
static bool has_length(const struct strand *strand, const struct link_reply *reply)
{
	return reply->framing == FRAMING_LENGTH || (strand->is_head && reply->length > 0);
}

/* The fields of a reply, and what confirms an upgrade. Lasts until the next call. */
static size_t add_accept(const struct strand *strand, const struct link_reply *reply,
			 const struct http_field **ret_fields)
{
	static struct http_field fields[HTTP_FIELDS_MAX];

	*ret_fields = reply->fields;
	if (reply->status != 101 || !strand->accept[0] || reply->field_count == HTTP_FIELDS_MAX)
		return reply->field_count;
	memcpy(fields, reply->fields, reply->field_count * sizeof(fields[0]));
	fields[reply->field_count] = (struct http_field){ BYTES("sec-websocket-accept"),
							  bytes_of(strand->accept) };
	*ret_fields = fields;
	return reply->field_count + 1;
}

static void on_reply(struct call *call, const struct link_reply *reply)
{
	struct strand *strand = strand_of(call);
	struct h2_message message = {
		.status = reply->status == 101 ? 200 : reply->status, /* RFC 8441 5 */
		.has_length = has_length(strand, reply),
		.length = reply->length,
	};

	message.field_count = add_accept(strand, reply, &message.fields);
	/* Without a body, the end is in the head: so does gRPC tell that something failed. */
	if (h2_send_reply(strand->stream, &message,
			  reply->status >= 200 && reply->framing == FRAMING_NONE) < 0)
		h2_reset(strand->stream, H2_INTERNAL_ERROR);
	mark_dirty(strand->bundle);
}

static void on_reply_data(struct call *call, struct bytes data)
{
	struct strand *strand = strand_of(call);

	if (strand->out.len == 0)
		bytes_take(&data, h2_send_data(strand->stream, data, false));
	buf_add(&strand->out, data.data, data.len);
	if (strand->out.len == 0)
		call_grant(&strand->call);
	mark_dirty(strand->bundle);
}

static void on_reply_end(struct call *call, const struct link_end *end)
{
	struct strand *strand = strand_of(call);

	strand->is_ending = true;
	for (size_t i = 0; i < end->field_count; i++)
		h1_write_field(&strand->trailer, end->fields[i].name, end->fields[i].value);
	if (end->field_count > 0)
		buf_add_text(&strand->trailer, "\r\n");
	if (strand->out.len == 0)
		push_out(strand);
	mark_dirty(strand->bundle);
}

/* As much as was granted is given back to the stream's window. */
static void on_credit(struct call *call)
{
	struct strand *strand = strand_of(call);
	size_t granted = call->credit + strand->unanswered - LINK_CREDIT_FIRST;

	strand->unanswered -= granted;
	h2_consume(strand->stream, granted);
	mark_dirty(strand->bundle);
}

static bool flush(struct bundle *bundle);

/* What was said before goes first: a reset overtakes it otherwise. */
static void on_abort(struct call *call)
{
	struct strand *strand = strand_of(call);
	struct bundle *bundle = strand->bundle;

	if (!flush(bundle))
		return;
	h2_reset(strand->stream, H2_INTERNAL_ERROR);
	mark_dirty(bundle);
}

static const struct carrier carrier = { on_reply, on_reply_data, on_reply_end, on_credit,
					on_abort };

/* ---- the connection ---- */

static bool wants_input(const struct bundle *bundle)
{
	return !bundle->has_input_ended && !bundle->is_over &&
	       !bundle->connection.gate->is_paused && !h2_is_full(bundle->h2);
}

static void read_input(struct bundle *bundle, uint64_t now_ms)
{
	struct gate *gate = bundle->connection.gate;
	ssize_t n = stream_read(&bundle->connection.stream, gate->input, GATE_INPUT_SIZE);

	if (n == -EAGAIN)
		return;
	if (n < 0) {
		reset(&bundle->connection);
		return;
	}
	bundle->has_input_ended = n == 0;
	if (n > 0 && h2_read(bundle->h2, (struct bytes){ gate->input, (size_t)n }, now_ms) < 0)
		bundle->is_over = true;
	mark_dirty(bundle);
}

/* What a transport has read ahead raises no event: it is read at once, or when there is room. */
static void read_all(struct bundle *bundle, uint64_t now_ms)
{
	do {
		/* The link has a limit, and every connection comes here before it adds to it. */
		if (link_port_is_behind(&bundle->connection.gate->link))
			bundle->connection.gate->is_paused = true;
		if (!wants_input(bundle))
			return;
		read_input(bundle, now_ms);
	} while (is_open(bundle) && bundle->connection.stream.has_pending);
}

static void on_ready(struct connection *connection, unsigned int ready, uint64_t now_ms)
{
	struct bundle *bundle = bundle_at(connection);

	if (ready & LOOP_HANGUP) {
		reset(connection); /* nobody is there any more to answer */
		return;
	}
	if (ready & LOOP_READ)
		read_all(bundle, now_ms);
	if (is_open(bundle))
		mark_dirty(bundle);
}

/* Writes what the agent takes; false when nothing more is to be done. */
static bool flush(struct bundle *bundle)
{
	struct bytes pending;

	while ((pending = h2_pending(bundle->h2)).len > 0) {
		ssize_t n = stream_write(&bundle->connection.stream, pending.data, pending.len);

		if (n == -EAGAIN)
			return true;
		if (n < 0) {
			reset(&bundle->connection);
			return false;
		}
		h2_sent(bundle->h2, (size_t)n);
	}
	return true;
}

/* Nothing more will be said by either side. */
static bool is_finished(const struct bundle *bundle)
{
	return bundle->is_over || h2_is_over(bundle->h2) ||
	       (bundle->has_input_ended && h2_stream_count(bundle->h2) == 0);
}

static void finish_turn(struct connection *connection, uint64_t now_ms)
{
	struct bundle *bundle = bundle_at(connection);
	bool has_more;

	if (!is_open(bundle) || !flush(bundle))
		return;
	if (connection->stream.has_pending && wants_input(bundle)) {
		read_all(bundle, now_ms); /* what was written made room */
		if (!is_open(bundle))
			return;
	}
	has_more = h2_pending(bundle->h2).len > 0;
	if (!has_more && is_finished(bundle))
		reset(connection);
	else
		connection_watch(connection, wants_input(bundle), has_more);
}

static void resume(struct connection *connection, uint64_t now_ms)
{
	(void)now_ms;
	connection_mark_dirty(connection);
}

static const struct connection_ops ops = {
	on_ready, resume, finish_turn, is_idle, reset, free_bundle,
};

static const struct h2_callbacks callbacks = {
	on_head, on_data, on_request_end, on_fault, on_writable, on_close,
};

void bundle_open(struct gate *gate, const struct stream *stream, const struct endpoint *endpoint,
		 uint64_t now_ms)
{
	static const struct h2_options options = { .is_server = true,
						   .has_extended_connect = true,
						   .window = LINK_CREDIT_FIRST };
	struct bundle *bundle = calloc(1, sizeof(*bundle));

	if (!bundle)
		die_no_memory();
	bundle->timer.on_due = on_silence;
	bundle->endpoint = *endpoint;
	bundle->h2 = h2_new(&options, &callbacks, bundle);
	if (connection_open(&bundle->connection, gate, stream, &ops, now_ms) < 0)
		return;
	loop_set_timer(&gate->loop, &bundle->timer, now_ms + SESSION_IDLE_MS);
	if (stream->has_pending)
		read_all(bundle, now_ms);
	mark_dirty(bundle);
}
