/* SPDX-License-Identifier: MIT */
/* One connection of the agent. From here on the bytes are the agent's. */
#include "gate/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "base/json.h"
#include "gate/refuse.h"
#include "http/h1_write.h"

static void process(struct session *session);

/* ---- opening and closing ---- */

static void free_session(struct loop_deferred *deferred)
{
	struct session *session = (struct session *)(void *)deferred;

	h1_reader_fini(&session->reader);
	buf_fini(&session->out);
	free(session);
}

void session_close(struct session *session)
{
	struct gate *gate = session->gate;
	int fd = session->source.fd;

	if (fd < 0)
		return; /* is being freed */
	if (session->exchange) {
		link_write_abort(&gate->out, session->exchange);
		gate_end_exchange(gate, session);
	}
	loop_remove(&gate->loop, &session->source);
	close(fd);
	*session->at = session->next;
	if (session->next)
		session->next->at = session->at;
	gate->session_count--;
	if (gate->is_deaf && gate->listener.fd >= 0)
		gate->is_deaf = loop_change(&gate->loop, &gate->listener, LOOP_READ) < 0;
	loop_defer(&gate->loop, &session->deferred);
	gate_flush(gate);
}

/* Ends the connection so that the agent sees an error, whatever it has read so far. */
static void reset(struct session *session)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(session->source.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	session_close(session);
}

/* ---- writing to the agent ---- */

static size_t out_len(const struct session *session)
{
	return session->out.len - session->out_start;
}

/* Moves what is not written yet to the front, where the buffer's limit counts from. */
static void make_room(struct session *session)
{
	size_t len = out_len(session);

	if (session->out_start == 0)
		return;
	memmove(session->out.data, session->out.data + session->out_start, len);
	session->out.len = len;
	session->out_start = 0;
}

static void set_interest(struct session *session)
{
	bool has_room = session->in_end < SESSION_IN_MAX && !session->has_input_ended;
	/* While an exchange waits for credit or a reply, what is sent ahead stays in the socket. */
	bool wants_input = session->state != SESSION_DRAIN && has_room && !session->gate->is_paused;
	unsigned int interest = (wants_input ? LOOP_READ : 0) | (out_len(session) ? LOOP_WRITE : 0);

	if (session->source.fd >= 0 &&
	    loop_change(&session->gate->loop, &session->source, interest) < 0)
		session_close(session);
}

/* The agent has taken so much of the reply: the keeper may send as much more. */
static void grant(struct session *session)
{
	if (!session->exchange || session->owed < LINK_CREDIT_FIRST / 4)
		return;
	link_write_credit(&session->gate->out, session->exchange, session->owed);
	session->owed = 0;
}

static void flush(struct session *session)
{
	while (out_len(session) > 0) {
		ssize_t n = send(session->source.fd, session->out.data + session->out_start,
				 out_len(session), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			session_close(session);
			return;
		}
		session->out_start += (size_t)n;
	}
	if (out_len(session) == 0) {
		session->out.len = session->out_start = 0;
		grant(session);
		if (session->state == SESSION_DRAIN) {
			session_close(session);
			return;
		}
	}
	set_interest(session);
}

/* Answers by ourselves; the connection ends after it unless it may go on. */
static void answer(struct session *session, int status, const char *code, const char *message)
{
	refuse_format(&session->out, status, code, message, session->gate->run_id,
		      session->keeps_alive);
	if (!session->keeps_alive)
		session->state = SESSION_DRAIN;
}

/* ---- requests ---- */

static void refuse_fault(struct session *session)
{
	const struct http_fault_info *info = http_fault_info(session->reader.fault);

	session->keeps_alive = false; /* where the next request begins is anyone's guess */
	answer(session, info->status, info->code, info->text);
}

static bool is_path(struct bytes target, const char *path)
{
	struct bytes before;

	if (bytes_split(&target, '?', &before))
		target = before;
	return bytes_equal(target, bytes_of(path));
}

static void open_exchange(struct session *session)
{
	const struct http_head *head = &session->reader.head;
	struct gate *gate = session->gate;
	struct link_open open = {
		.method = head->method,
		.host = head->host,
		.path = head->path,
		.minor = (uint8_t)head->minor,
		.framing = (uint8_t)head->framing,
		.length = head->framing == FRAMING_LENGTH ? head->length : 0,
	};

	for (size_t i = 0; i < head->field_count; i++) {
		struct bytes name = head->fields[i].name;

		if (http_is_hop_by_hop(head, name) || bytes_equal_nocase(name, BYTES("host")) ||
		    bytes_equal_nocase(name, BYTES("content-length")))
			continue;
		open.fields[open.field_count++] = head->fields[i];
	}
	gate_open_exchange(gate, session);
	session->credit = LINK_CREDIT_FIRST;
	session->owed = 0;
	session->is_request_over = session->is_reply_begun = false;
	session->state = SESSION_RELAY;
	link_write_open(&gate->out, session->exchange, &open);
}

/* A head is there: ours to answer, or the keeper's. */
static void on_head(struct session *session)
{
	const struct http_head *head = &session->reader.head;

	session->keeps_alive = head->keeps_alive;
	if (bytes_equal(head->method, BYTES("CONNECT")) || head->path.data[0] != '/') {
		session->keeps_alive = false;
		answer(session, 405, "method_not_allowed", "this endpoint is no proxy");
		return;
	}
	if (is_path(head->path, "/health") && head->framing == FRAMING_NONE) {
		refuse_format_health(&session->out, session->gate->run_id, session->keeps_alive,
				     bytes_equal(head->method, BYTES("HEAD")));
		if (!session->keeps_alive)
			session->state = SESSION_DRAIN;
		return;
	}
	open_exchange(session);
}

static void on_body(struct session *session, struct bytes data)
{
	session->credit -= (uint32_t)data.len;
	link_write_data(&session->gate->out, session->exchange, data);
}

/* A trailer is read and checked, and goes no further: nothing of it was judged (RFC 9110 6.5.1). */
static void on_request_end(struct session *session)
{
	if (!session->exchange) {
		h1_reader_next(&session->reader); /* it was answered here */
		return;
	}
	link_write_end(&session->gate->out, session->exchange,
		       &(struct link_end){ .field_count = 0 });
	session->is_request_over = true;
}

static bool is_in_body(const struct h1_reader *reader)
{
	return reader->state == H1_STATE_BODY || reader->state == H1_STATE_CHUNK_DATA;
}

/* Whether it is this session's turn to be read. */
static bool may_read(const struct session *session)
{
	if (session->state == SESSION_DRAIN || session->gate->is_paused)
		return false;
	if (session->exchange)
		return !session->is_request_over;
	/* The reply before is still being written: the next request waits for it. */
	return out_len(session) == 0;
}

/* How much of the input may be read now: within an exchange, not beyond its credit. */
static size_t readable_len(const struct session *session)
{
	size_t len = session->in_end - session->in_start;

	if (!session->exchange)
		return len;
	/* Without credit, what frames a body is still read: byte by byte, to stop at the body. */
	if (len > session->credit)
		len = session->credit || is_in_body(&session->reader) ? session->credit : 1;
	return len > LINK_DATA_MAX ? LINK_DATA_MAX : len;
}

static void on_broken(struct session *session)
{
	if (!session->is_reply_begun)
		refuse_fault(session);
	if (!session->exchange)
		return;
	link_write_abort(&session->gate->out, session->exchange);
	gate_end_exchange(session->gate, session);
	if (session->is_reply_begun)
		reset(session);
}

/* Reads as far as the exchange allows; false when it is to wait. */
static bool step(struct session *session)
{
	size_t len = readable_len(session);
	struct bytes input, data = { NULL, 0 };
	enum h1_event event;

	if (!may_read(session) || (len == 0 && session->reader.state != H1_STATE_OVER))
		return false;
	input = (struct bytes){ session->in + session->in_start, len };
	event = h1_read(&session->reader, &input, &data);
	session->in_start += len - input.len;
	if (event == H1_HEAD)
		on_head(session);
	else if (event == H1_DATA && session->exchange)
		on_body(session, data);
	else if (event == H1_END)
		on_request_end(session);
	else if (event == H1_BROKEN)
		on_broken(session);
	return event != H1_NEEDS_MORE && event != H1_BROKEN && session->source.fd >= 0;
}

/* Nothing more will come, and nothing is under way. */
static bool is_finished(const struct session *session)
{
	return session->has_input_ended && !session->exchange && out_len(session) == 0 &&
	       session->in_end == session->in_start;
}

/* The input has ended in the middle of a request. */
static bool is_cut_short(const struct session *session)
{
	return session->has_input_ended && session->exchange && !session->is_request_over &&
	       session->in_end == session->in_start;
}

static void process(struct session *session)
{
	size_t before;

	do {
		before = session->in_end - session->in_start;
		while (session->source.fd >= 0 && step(session))
			;
		if (session->source.fd < 0)
			return;
		if (session->in_start == session->in_end)
			session->in_start = session->in_end = 0;
		flush(session);
		/* What was written made room for what was sent ahead. */
	} while (session->source.fd >= 0 && session->in_end > session->in_start &&
		 session->in_end - session->in_start < before);
	if (session->source.fd >= 0 && (is_finished(session) || is_cut_short(session)))
		session_close(session);
	gate_flush(session->gate);
}

static void read_input(struct session *session)
{
	ssize_t n;

	if (session->in_start > 0) {
		memmove(session->in, session->in + session->in_start,
			session->in_end - session->in_start);
		session->in_end -= session->in_start;
		session->in_start = 0;
	}
	if (session->in_end == SESSION_IN_MAX)
		return;
	n = recv(session->source.fd, session->in + session->in_end,
		 SESSION_IN_MAX - session->in_end, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		session_close(session);
		return;
	}
	session->in_end += (size_t)n;
	/* Half a close: the agent may still be waiting for the reply to what it sent. */
	session->has_input_ended = n == 0;
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct session *session = (struct session *)(void *)((char *)source -
							     offsetof(struct session, source));

	(void)now_ms;
	if (ready & LOOP_HANGUP) {
		session_close(session); /* nobody is there any more to answer */
		return;
	}
	if ((ready & LOOP_READ) && (source->interest & LOOP_READ) && !session->gate->is_paused)
		read_input(session);
	if (source->fd >= 0)
		process(session);
}

void session_open(struct gate *gate, int fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		die_no_memory();
	session->gate = gate;
	session->deferred.free = free_session;
	session->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	h1_reader_init(&session->reader, false);
	buf_init(&session->out, SESSION_OUT_MAX);
	if (loop_add(&gate->loop, &session->source, fd, LOOP_READ) < 0) {
		close(fd);
		free_session(&session->deferred);
		return;
	}
	session->next = gate->sessions;
	session->at = &gate->sessions;
	if (session->next)
		session->next->at = &session->next;
	gate->sessions = session;
	gate->session_count++;
}

void session_resume(struct session *session)
{
	process(session);
}

/* ---- replies ---- */

static bool is_informational(int status)
{
	return status >= 100 && status < 200;
}

/* A reply that could have a body says that it has none; others must not. */
static bool may_have_body(int status, struct bytes method)
{
	return status >= 200 && status != 204 && status != 304 &&
	       !bytes_equal(method, BYTES("HEAD"));
}

void session_on_reply(struct session *session, struct bytes payload)
{
	static struct link_reply reply; /* large, and needed only in here */
	const struct http_head *head = &session->reader.head;
	enum http_framing framing;

	if (link_parse_reply(payload, &reply) < 0 || session->is_reply_begun) {
		reset(session);
		return;
	}
	make_room(session);
	if (is_informational(reply.status) && head->minor == 0)
		return; /* a client of HTTP/1.0 does not know them */
	h1_write_status_line(&session->out, reply.status, reply.reason);
	for (size_t i = 0; i < reply.field_count; i++)
		h1_write_field(&session->out, reply.fields[i].name, reply.fields[i].value);
	if (is_informational(reply.status)) {
		h1_write_framing(&session->out, FRAMING_NONE, 0);
		flush(session);
		return;
	}
	session->is_reply_begun = true;
	framing = (enum http_framing)reply.framing;
	if (framing == FRAMING_CLOSE)
		framing = FRAMING_CHUNKED;
	/* A body of unknown length ends, for HTTP/1.0, with the connection. */
	if (framing == FRAMING_CHUNKED && head->minor == 0) {
		framing = FRAMING_CLOSE;
		session->keeps_alive = false;
	}
	session->has_reply_body = framing != FRAMING_NONE;
	session->is_reply_chunked = framing == FRAMING_CHUNKED;
	if (!session->keeps_alive)
		h1_write_field(&session->out, BYTES("connection"), BYTES("close"));
	else if (head->minor == 0)
		h1_write_field(&session->out, BYTES("connection"), BYTES("keep-alive"));
	if (framing == FRAMING_NONE && may_have_body(reply.status, head->method))
		h1_write_field(&session->out, BYTES("content-length"), BYTES("0"));
	h1_write_framing(&session->out, framing, reply.length);
	flush(session);
}

void session_on_data(struct session *session, struct bytes data)
{
	char chunk[H1_CHUNK_HEAD_MAX];

	/* A keeper that sends what it must not is as good as none. */
	if (!session->is_reply_begun || !session->has_reply_body ||
	    out_len(session) + data.len + 2 * H1_CHUNK_HEAD_MAX > SESSION_OUT_MAX) {
		reset(session);
		return;
	}
	make_room(session);
	if (session->is_reply_chunked)
		buf_add(&session->out, chunk, h1_format_chunk_head(chunk, data.len));
	buf_add(&session->out, data.data, data.len);
	if (session->is_reply_chunked)
		buf_add_text(&session->out, H1_CHUNK_END);
	session->owed += (uint32_t)data.len;
	flush(session);
}

void session_on_end(struct session *session, struct bytes payload)
{
	static struct link_end end;

	if (link_parse_end(payload, &end) < 0 || !session->is_reply_begun) {
		reset(session);
		return;
	}
	if (session->is_reply_chunked) {
		buf_add_text(&session->out, "0\r\n");
		for (size_t i = 0; i < end.field_count; i++)
			h1_write_field(&session->out, end.fields[i].name, end.fields[i].value);
		buf_add_text(&session->out, "\r\n");
	}
	/* A reply that came before the request was whole: what is left of it is not read. */
	if (!session->is_request_over) {
		link_write_abort(&session->gate->out, session->exchange);
		session->keeps_alive = false;
	}
	gate_end_exchange(session->gate, session);
	session->is_reply_begun = false;
	if (session->keeps_alive) {
		session->state = SESSION_READ_HEAD;
		h1_reader_next(&session->reader);
	} else {
		session->state = SESSION_DRAIN;
	}
	process(session);
}

void session_on_credit(struct session *session, uint32_t credit)
{
	session->credit += credit;
	process(session);
}

void session_on_abort(struct session *session)
{
	gate_end_exchange(session->gate, session);
	reset(session);
}
