/* SPDX-License-Identifier: MIT */
/* One connection of the agent. From here on the bytes are the agent's. */
#include "gate/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "gate/front.h"
#include "gate/request.h"
#include "http/h1_write.h"
#include "sys/fd.h"

static const struct carrier carrier;

/* ---- opening and closing ---- */

static struct session *session_at(const struct connection *connection)
{
	return (struct session *)(void *)connection; /* its first member */
}

static bool is_open(const struct session *session)
{
	return connection_is_open(&session->connection);
}

static void free_session(struct connection *connection)
{
	struct session *session = session_at(connection);

	h1_reader_fini(&session->reader);
	buf_fini(&session->in);
	buf_fini(&session->out);
	free(session);
}

static size_t out_len(const struct session *session)
{
	return session->out.len - session->out_start;
}

static bool is_idle(const struct connection *connection)
{
	const struct session *session = session_at(connection);

	return session->state == SESSION_READ && session->in.len == 0 && out_len(session) == 0;
}

/* An exchange under way is aborted. */
static void close_session(struct session *session)
{
	call_abort(&session->call);
	loop_cancel(&session->connection.gate->loop, &session->timer);
	connection_close(&session->connection);
}

/* The same, so that the agent sees an error, whatever it has read so far. */
static void reset(struct connection *connection)
{
	if (connection_is_open(connection) && !is_idle(connection))
		fd_set_abrupt(connection->source.fd, true);
	close_session(session_at(connection));
}

/* ---- writing to the agent ---- */

static void mark_dirty(struct session *session)
{
	/* Full: something found no room, and what is in there must not be taken for whole. */
	session->is_spoilt = session->is_spoilt || session->out.len == session->out.max;
	connection_mark_dirty(&session->connection);
}

/* Moves what is not written yet to the front, where the buffer's limit counts from. */
static void make_room(struct session *session)
{
	if (session->out_start == 0)
		return;
	buf_keep(&session->out,
		 (struct bytes){ session->out.data + session->out_start, out_len(session) });
	session->chunk_len = session->chunk_at < session->out_start ? 0 : session->chunk_len;
	session->chunk_at -= session->chunk_len ? session->out_start : 0;
	session->out_start = 0;
}

static bool wants_input(const struct session *session)
{
	if (session->has_input_ended || session->state == SESSION_DRAIN ||
	    session->state == SESSION_HAND_ON)
		return false;
	if (session->state == SESSION_LINGER)
		return true;
	return session->in.len < SESSION_IN_MAX && !session->connection.gate->is_paused;
}

static void set_interest(struct session *session)
{
	connection_watch(&session->connection, wants_input(session), out_len(session) > 0);
}

/* Writes what the agent takes; false when the connection is gone. */
static bool flush(struct session *session)
{
	while (out_len(session) > 0) {
		ssize_t n = stream_write(&session->connection.stream,
					 session->out.data + session->out_start, out_len(session));

		if (n == -EAGAIN)
			return true;
		if (n < 0) {
			close_session(session);
			return false;
		}
		session->out_start += (size_t)n;
	}
	buf_fini(&session->out);
	session->out_start = session->chunk_len = 0;
	call_grant(&session->call);
	return true;
}

/* The last reply is written. */
static void end_connection(struct session *session, uint64_t now_ms)
{
	/* What was read whole leaves nothing behind that could harm the reply. */
	if (session->has_input_ended || session->is_request_read) {
		close_session(session);
		return;
	}
	session->state = SESSION_LINGER;
	session->linger_left = SESSION_LINGER_BYTES;
	buf_fini(&session->in);
	shutdown(session->connection.source.fd, SHUT_WR);
	loop_set_timer(&session->connection.gate->loop, &session->timer,
		       now_ms + SESSION_LINGER_MS);
	set_interest(session);
}

/* Whether it is the agent that everything waits for. */
static bool is_agents_turn(const struct session *session)
{
	return out_len(session) > 0 || !call_is_open(&session->call) ||
	       (!session->is_upgraded && !session->call.is_request_over &&
		session->call.credit > 0);
}

static void on_silence(struct loop_timer *timer, uint64_t now_ms)
{
	struct session *session = OWNER_OF(timer, struct session, timer);

	if (!is_agents_turn(session) || session->connection.gate->is_paused)
		session->connection.last_ms = now_ms;
	if (session->state == SESSION_LINGER ||
	    now_ms >= session->connection.last_ms + SESSION_IDLE_MS)
		close_session(session);
	else
		loop_set_timer(&session->connection.gate->loop, timer,
			       session->connection.last_ms + SESSION_IDLE_MS);
}

static void throw_away(struct session *session)
{
	ssize_t n = stream_read(&session->connection.stream, session->connection.gate->input,
				GATE_INPUT_SIZE);

	if (n == -EAGAIN)
		return;
	if (n <= 0 || (size_t)n >= session->linger_left)
		close_session(session);
	else
		session->linger_left -= (size_t)n;
}

/* ---- requests ---- */

/* Answers by ourselves; after a refusal the connection ends. `head` may be NULL. */
static void answer(struct session *session, const struct course *course,
		   const struct http_head *head)
{
	struct buf body;

	session->keeps_alive = session->keeps_alive && !course->code;
	buf_init(&body, LINK_DATA_MAX);
	request_answer(session->connection.gate, &session->endpoint, course, head, &body);
	h1_write_status_line(&session->out, course->status, h1_reason(course->status));
	h1_write_field(&session->out, BYTES("content-type"), BYTES("application/json"));
	if (!session->keeps_alive)
		h1_write_field(&session->out, BYTES("connection"), BYTES("close"));
	h1_write_framing(&session->out, FRAMING_LENGTH, body.len);
	if (!session->is_head)
		buf_add(&session->out, body.data, body.len);
	buf_fini(&body);
	if (!session->keeps_alive)
		session->state = SESSION_DRAIN;
	mark_dirty(session);
}

static void refuse_fault(struct session *session)
{
	struct course course;

	session->is_request_read = false; /* where the next request begins is anyone's guess */
	session->is_head = false;
	request_judge_fault(session->reader.fault, &course);
	answer(session, &course, NULL);
}

/* Behind the reply, the connection is one to the target. */
static void become_target(struct session *session, const struct authority *target)
{
	static const char reply[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	buf_add_text(&session->out, reply);
	session->state = SESSION_HAND_ON;
	session->endpoint.authority = *target;
	mark_dirty(session);
}

/* A head is there: ours to answer, or the keeper's. */
static void on_head(struct session *session, const struct http_head *head)
{
	struct course course;

	session->keeps_alive = head->keeps_alive;
	session->is_head = bytes_equal(head->method, BYTES("HEAD"));
	session->is_old = head->minor == 0;
	session->is_request_read = false;
	request_judge(&session->endpoint, head, &course);
	switch (course.way) {
	case COURSE_CALL:
		session->state = SESSION_RELAY;
		session->is_upgrading = course.kind == LINK_KIND_WEBSOCKET;
		memcpy(session->accept, course.accept, sizeof(session->accept));
		request_open(&session->call, head, &course);
		break;
	case COURSE_ANSWER:
		session->is_request_read = !course.code; /* it has no body */
		answer(session, &course, head);
		break;
	case COURSE_TARGET:
		become_target(session, &course.target);
		break;
	}
}

/* A trailer is read and checked, and goes no further: nothing of it was judged (RFC 9110 6.5.1). */
static void on_request_end(struct session *session)
{
	session->is_request_read = true;
	if (call_is_open(&session->call))
		call_end_request(&session->call);
	else
		h1_reader_next(&session->reader); /* it was answered here */
}

static bool is_in_body(const struct h1_reader *reader)
{
	return reader->state == H1_STATE_BODY || reader->state == H1_STATE_CHUNK_DATA;
}

/* Whether it is this session's turn to be read. */
static bool may_read(struct session *session)
{
	/* The link has a limit, and every session comes here before it adds to it. */
	if (link_port_is_behind(&session->connection.gate->link))
		session->connection.gate->is_paused = true;
	if (session->state == SESSION_DRAIN || session->state == SESSION_HAND_ON ||
	    session->connection.gate->is_paused || session->is_upgrading)
		return false;
	if (call_is_open(&session->call))
		return !session->call.is_request_over;
	/* The reply before is still being written: the next request waits for it. */
	return out_len(session) == 0;
}

/* How much of the input may be read now: within an exchange, not beyond its credit. */
static size_t readable_len(const struct session *session, size_t len)
{
	uint32_t credit = session->call.credit;

	if (!call_is_open(&session->call))
		return len;
	/* Without credit, what frames a body is still read: byte by byte, to stop at the body. */
	if (len > credit)
		len = credit || session->is_upgraded || is_in_body(&session->reader) ? credit : 1;
	return len > LINK_DATA_MAX ? LINK_DATA_MAX : len;
}

static void on_broken(struct session *session)
{
	bool is_open = call_is_open(&session->call);

	call_abort(&session->call);
	if (is_open && session->call.is_reply_begun)
		reset(&session->connection);
	else
		refuse_fault(session);
}

/* Reads as far as the exchange allows; false when it is to wait. */
static bool step(struct session *session, struct bytes *input)
{
	struct h1_result *result = &session->connection.gate->result;
	size_t len = readable_len(session, input->len);
	struct bytes part;
	enum h1_event event;

	if (!may_read(session) || (len == 0 && session->reader.state != H1_STATE_OVER))
		return false;
	if (session->is_upgraded) {
		if (len == 0)
			return false;
		call_send(&session->call, bytes_take(input, len));
		return true;
	}
	part = (struct bytes){ input->data, len };
	event = h1_read(&session->reader, &part, result);
	bytes_take(input, len - part.len);
	if (event == H1_HEAD)
		on_head(session, &result->head);
	else if (event == H1_DATA && call_is_open(&session->call))
		call_send(&session->call, result->data);
	else if (event == H1_END)
		on_request_end(session);
	else if (event == H1_BROKEN)
		on_broken(session);
	return (event != H1_NEEDS_MORE || part.len < len) && event != H1_BROKEN;
}

/* Nothing more will come, and nothing is under way. */
static bool is_finished(const struct session *session)
{
	return session->has_input_ended && !call_is_open(&session->call) && out_len(session) == 0 &&
	       session->in.len == 0;
}

/* The input has ended in the middle of a request. */
static bool is_cut_short(const struct session *session)
{
	return session->has_input_ended && call_is_open(&session->call) &&
	       !session->call.is_request_over && session->in.len == 0 && !session->is_upgraded;
}

/* The agent has said all. */
static void end_upgraded(struct session *session)
{
	if (session->is_upgraded && session->has_input_ended && session->in.len == 0 &&
	    call_is_open(&session->call) && !session->call.is_request_over)
		call_end_request(&session->call);
}

static void process(struct session *session, struct bytes input)
{
	while (is_open(session) && step(session, &input))
		;
	if (!is_open(session))
		return;
	buf_keep(&session->in, input); /* what could not be read yet */
	end_upgraded(session);
	if (is_finished(session) || is_cut_short(session))
		close_session(session);
	else
		set_interest(session);
}

static void process_kept(struct session *session)
{
	process(session, (struct bytes){ session->in.data, session->in.len });
}

static void read_input(struct session *session)
{
	char *input = session->connection.gate->input;
	ssize_t n = stream_read(&session->connection.stream, input,
				SESSION_IN_MAX - session->in.len);

	if (n == -EAGAIN)
		return;
	if (n < 0) {
		close_session(session);
		return;
	}
	/* Half a close: the agent may still be waiting for the reply to what it sent. */
	session->has_input_ended = n == 0;
	if (session->in.len == 0) {
		process(session, (struct bytes){ input, (size_t)n });
		return;
	}
	buf_add(&session->in, input, (size_t)n);
	process_kept(session);
}

/* What a transport has read ahead raises no event: it is read at once, or when there is room. */
static void read_all(struct session *session)
{
	do {
		read_input(session);
	} while (is_open(session) && session->connection.stream.has_pending &&
		 wants_input(session));
}

static void on_ready(struct connection *connection, unsigned int ready, uint64_t now_ms)
{
	struct session *session = session_at(connection);

	(void)now_ms;
	if (ready & LOOP_HANGUP) {
		close_session(session); /* nobody is there any more to answer */
		return;
	}
	if ((ready & LOOP_READ) && !wants_input(session))
		set_interest(session); /* the gate is paused: it would be told turn after turn */
	else if ((ready & LOOP_READ) && session->state == SESSION_LINGER)
		throw_away(session);
	else if (ready & LOOP_READ)
		read_all(session);
	if ((ready & LOOP_WRITE) && is_open(session))
		mark_dirty(session);
}

static void go_on(struct session *session)
{
	if (session->state == SESSION_LINGER)
		return;
	process_kept(session);
	if (is_open(session) && session->connection.stream.has_pending && wants_input(session))
		read_all(session);
}

static void resume(struct connection *connection, uint64_t now_ms)
{
	(void)now_ms;
	go_on(session_at(connection));
}

/* The proxy's part is done: the connection begins anew, as one to its target. */
static void hand_on(struct session *session, uint64_t now_ms)
{
	struct gate *gate = session->connection.gate;

	loop_cancel(&gate->loop, &session->timer);
	front_open_target(gate, connection_take_fd(&session->connection),
			  &session->endpoint.authority,
			  (struct bytes){ session->in.data, session->in.len }, now_ms);
}

static void finish_turn(struct connection *connection, uint64_t now_ms)
{
	struct session *session = session_at(connection);

	if (session->is_spoilt)
		reset(connection);
	if (!is_open(session) || !flush(session))
		return;
	if (session->state == SESSION_HAND_ON && out_len(session) == 0)
		hand_on(session, now_ms);
	else if (session->state == SESSION_DRAIN && out_len(session) == 0)
		end_connection(session, now_ms);
	else
		go_on(session); /* what was written made room for what was sent ahead */
}

static const struct connection_ops ops = {
	on_ready, resume, finish_turn, is_idle, reset, free_session,
};

void session_open(struct gate *gate, const struct stream *stream, const struct endpoint *endpoint,
		  struct bytes first, uint64_t now_ms)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		die_no_memory();
	session->timer.on_due = on_silence;
	session->endpoint = *endpoint;
	call_init(&session->call, gate, &carrier);
	h1_reader_init(&session->reader, false);
	buf_init(&session->in, SESSION_IN_MAX);
	buf_init(&session->out, SESSION_OUT_MAX);
	if (connection_open(&session->connection, gate, stream, &ops, now_ms) < 0)
		return;
	loop_set_timer(&gate->loop, &session->timer, now_ms + SESSION_IDLE_MS);
	if (first.len > 0)
		process(session, first);
	else if (stream->has_pending && wants_input(session))
		read_all(session); /* what came with the end of the handshake */
}

/* ---- replies ---- */

static struct session *session_of(struct call *call)
{
	return OWNER_OF(call, struct session, call);
}

static bool is_informational(int status)
{
	return status >= 100 && status < 200;
}

/* A reply that could have a body says that it has none; others must not. */
static bool may_have_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

/* How the body goes to the agent: of unknown length, in chunks, or up to the end for 1.0. */
static enum http_framing choose_framing(struct session *session, const struct link_reply *reply)
{
	enum http_framing framing = (enum http_framing)reply->framing;

	if (framing == FRAMING_CLOSE)
		framing = FRAMING_CHUNKED;
	if (framing == FRAMING_CHUNKED && session->is_old) {
		framing = FRAMING_CLOSE;
		session->keeps_alive = false;
	}
	session->is_reply_chunked = framing == FRAMING_CHUNKED;
	session->is_reply_to_end = framing == FRAMING_CLOSE;
	/* Until its end is there, the connection must not end but abruptly. */
	if (session->is_reply_to_end)
		fd_set_abrupt(session->connection.source.fd, true);
	return framing;
}

static void write_reply_framing(struct session *session, const struct link_reply *reply)
{
	enum http_framing framing = choose_framing(session, reply);

	if (!session->keeps_alive)
		h1_write_field(&session->out, BYTES("connection"), BYTES("close"));
	else if (session->is_old)
		h1_write_field(&session->out, BYTES("connection"), BYTES("keep-alive"));
	/* The reply to HEAD tells the length that GET would have. */
	if (framing == FRAMING_NONE && may_have_body(reply->status) &&
	    (!session->is_head || reply->length))
		h1_write_framing(&session->out, FRAMING_LENGTH, reply->length);
	else
		h1_write_framing(&session->out, framing, reply->length);
}

/* Confirmed, or refused in an ordinary reply, after which the connection ends. */
static void confirm_upgrade(struct session *session, const struct link_reply *reply)
{
	if (reply->status == 101) {
		h1_write_field(&session->out, BYTES("upgrade"), BYTES("websocket"));
		h1_write_field(&session->out, BYTES("connection"), BYTES("Upgrade"));
		h1_write_field(&session->out, BYTES("sec-websocket-accept"),
			       bytes_of(session->accept));
		h1_write_framing(&session->out, FRAMING_NONE, 0);
		session->is_upgraded = true;
	} else if (is_informational(reply->status)) {
		h1_write_framing(&session->out, FRAMING_NONE, 0);
		return;
	} else {
		session->keeps_alive = false;
		write_reply_framing(session, reply);
	}
	session->is_upgrading = false;
}

static void on_reply(struct call *call, const struct link_reply *reply)
{
	struct session *session = session_of(call);

	make_room(session);
	if (is_informational(reply->status) && session->is_old)
		return; /* a client of HTTP/1.0 does not know them */
	h1_write_status_line(&session->out, reply->status,
			     reply->reason.len ? reply->reason : h1_reason(reply->status));
	for (size_t i = 0; i < reply->field_count; i++)
		h1_write_field(&session->out, reply->fields[i].name, reply->fields[i].value);
	mark_dirty(session);
	if (session->is_upgrading)
		confirm_upgrade(session, reply);
	else if (is_informational(reply->status))
		h1_write_framing(&session->out, FRAMING_NONE, 0);
	else
		write_reply_framing(session, reply);
}

/*
 * A chunk that nothing is written of grows, instead of being followed by another: what frames a
 * reply in tiny pieces would need more room than the reply.
 */
static void add_chunk(struct session *session, struct bytes data)
{
	struct buf *out = &session->out;
	char head[H1_CHUNK_HEAD_MAX] = "";
	size_t old_len, new_len, at;

	/* What a transport has been given once must not change: it may be on its way. */
	if (session->chunk_len == 0 || session->out_start > session->chunk_at ||
	    session->connection.stream.write_waits) {
		session->chunk_at = out->len;
		session->chunk_len = data.len;
		new_len = h1_format_chunk_head(head, data.len);
		buf_add(out, head, new_len);
	} else {
		at = session->chunk_at;
		out->len -= strlen(H1_CHUNK_END);
		old_len = h1_format_chunk_head(head, session->chunk_len);
		new_len = h1_format_chunk_head(head, session->chunk_len + data.len);
		if (new_len > old_len) { /* one digit more */
			buf_add(out, head, new_len - old_len);
			memmove(out->data + at + new_len, out->data + at + old_len,
				session->chunk_len);
		}
		memcpy(out->data + at, head, new_len);
		session->chunk_len += data.len;
	}
	buf_add(out, data.data, data.len);
	buf_add_text(out, H1_CHUNK_END);
}

static void on_data(struct call *call, struct bytes data)
{
	struct session *session = session_of(call);

	if (session->is_spoilt)
		return;
	make_room(session);
	if (session->is_reply_chunked)
		add_chunk(session, data);
	else
		buf_add(&session->out, data.data, data.len);
	mark_dirty(session);
}

/* Ready for the next request, or for the end. */
static void on_end(struct call *call, const struct link_end *end)
{
	struct session *session = session_of(call);

	if (session->is_reply_chunked) {
		buf_add_text(&session->out, "0\r\n");
		for (size_t i = 0; i < end->field_count; i++)
			h1_write_field(&session->out, end->fields[i].name, end->fields[i].value);
		buf_add_text(&session->out, "\r\n");
	}
	if (session->is_reply_to_end)
		fd_set_abrupt(session->connection.source.fd, false);
	if (session->is_upgraded)
		call_abort(call); /* what the agent has to say now, nobody hears */
	if (session->keeps_alive && session->is_request_read && !session->is_upgraded) {
		session->state = SESSION_READ;
		h1_reader_next(&session->reader);
	} else {
		session->state = SESSION_DRAIN;
	}
	mark_dirty(session);
}

static void on_credit(struct call *call)
{
	go_on(session_of(call));
}

/* What was said before is still heard: the keeper may have explained itself in it. */
static void on_abort(struct call *call)
{
	struct session *session = session_of(call);

	if (flush(session))
		reset(&session->connection);
}

static const struct carrier carrier = { on_reply, on_data, on_end, on_credit, on_abort };
