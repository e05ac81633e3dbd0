/* SPDX-License-Identifier: MIT */
/* The gate's loop: the listener, the link, and the sessions between them. */
#include "gate/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "gate/session.h"

#define LINK_READ_SIZE 65536

static struct gate *gate_of(struct loop_source *source, size_t offset)
{
	return (struct gate *)(void *)((char *)source - offset);
}

/* ---- the link ---- */

static void set_paused(struct gate *gate, bool is_paused)
{
	struct session *next;

	if (gate->is_paused == is_paused)
		return;
	gate->is_paused = is_paused;
	/* One of them may fill the link again: the others wait on. */
	for (struct session *session = gate->sessions; !gate->is_paused && session;
	     session = next) {
		next = session->next;
		session_resume(session);
	}
}

void gate_flush(struct gate *gate)
{
	size_t left;

	while (gate->out_start < gate->out.len) {
		ssize_t n = send(gate->link.fd, gate->out.data + gate->out_start,
				 gate->out.len - gate->out_start, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			loop_end(&gate->loop); /* no keeper, no service */
			return;
		}
		gate->out_start += (size_t)n;
	}
	left = gate->out.len - gate->out_start;
	if (left == 0 || gate->out_start > GATE_LINK_OUT_HIGH) {
		if (left > 0)
			memmove(gate->out.data, gate->out.data + gate->out_start, left);
		gate->out.len = left;
		gate->out_start = 0;
	}
	if (loop_change(&gate->loop, &gate->link, LOOP_READ | (left ? LOOP_WRITE : 0)) < 0 ||
	    gate->out.len == GATE_LINK_OUT_MAX)
		loop_end(&gate->loop);
	set_paused(gate, left > GATE_LINK_OUT_HIGH);
}

/*
 * Exchange numbers go up and wrap around; a number's place in the table is free before it
 * is used, so that finding its session is one look.
 */
void gate_open_exchange(struct gate *gate, struct session *session)
{
	do {
		gate->last_exchange++;
	} while (gate->last_exchange == 0 ||
		 gate->by_exchange[gate->last_exchange % GATE_SESSIONS_MAX]);
	session->exchange = gate->last_exchange;
	gate->by_exchange[session->exchange % GATE_SESSIONS_MAX] = session;
}

void gate_end_exchange(struct gate *gate, struct session *session)
{
	gate->by_exchange[session->exchange % GATE_SESSIONS_MAX] = NULL;
	session->exchange = 0;
}

static struct session *find_session(struct gate *gate, uint32_t exchange)
{
	struct session *session = gate->by_exchange[exchange % GATE_SESSIONS_MAX];

	return session && session->exchange == exchange ? session : NULL;
}

static int on_hello(struct gate *gate, struct bytes payload)
{
	struct bytes run_id;
	uint32_t attempt;

	if (link_parse_hello(payload, &run_id, &attempt) < 0)
		return -EPROTO;
	memcpy(gate->run_id, run_id.data, run_id.len);
	gate->run_id[run_id.len] = '\0';
	return 0;
}

static int on_message(struct gate *gate, enum link_event event, struct bytes payload)
{
	struct session *session;
	uint32_t credit;

	if (event == LINK_MESSAGE && gate->reader.type == LINK_HELLO)
		return on_hello(gate, payload);
	session = find_session(gate, gate->reader.exchange);
	if (!session)
		return 0; /* ended on our side while this was under way */
	if (event == LINK_PIECE) {
		session_on_data(session, payload);
		return 0;
	}
	switch (gate->reader.type) {
	case LINK_REPLY:
		session_on_reply(session, payload);
		return 0;
	case LINK_END:
		session_on_end(session, payload);
		return 0;
	case LINK_CREDIT:
		if (link_parse_credit(payload, &credit) < 0)
			return -EPROTO;
		session_on_credit(session, credit);
		return 0;
	case LINK_ABORT:
		session_on_abort(session);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Everything in one read; any fault ends the link, and with it the gate. */
static int read_link(struct gate *gate)
{
	char data[LINK_READ_SIZE];
	ssize_t n = recv(gate->link.fd, data, sizeof(data), 0);
	struct bytes input, payload;
	enum link_event event;
	int r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	input = (struct bytes){ data, (size_t)n };
	do {
		event = link_read(&gate->reader, &input, &payload);
		if (event == LINK_BROKEN)
			return -EPROTO;
		if (event != LINK_NEEDS_MORE)
			r = on_message(gate, event, payload);
	} while (r == 0 && event != LINK_NEEDS_MORE);
	return r;
}

static void on_link(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct gate *gate = gate_of(source, offsetof(struct gate, link));

	(void)now_ms;
	if ((ready & LOOP_READ) && read_link(gate) < 0)
		loop_end(&gate->loop);
	else
		gate_flush(gate);
}

/* ---- the listener ---- */

static void on_listener(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct gate *gate = gate_of(source, offsetof(struct gate, listener));

	(void)ready;
	(void)now_ms;
	for (int i = 0; i < 64; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		/* Without a descriptor to spare, those who wait are taken when one is free. */
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
			gate->is_deaf = loop_change(&gate->loop, source, 0) == 0;
		if (fd < 0)
			return;
		if (gate->session_count >= GATE_SESSIONS_MAX)
			close(fd);
		else
			session_open(gate, fd);
	}
}

int gate_run(int listener_fd, int link_fd)
{
	struct gate *gate = calloc(1, sizeof(*gate));
	int r;

	if (!gate)
		return 1;
	gate->listener = (struct loop_source){ .fd = -1, .on_ready = on_listener };
	gate->link = (struct loop_source){ .fd = -1, .on_ready = on_link };
	buf_init(&gate->out, GATE_LINK_OUT_MAX);
	link_reader_init(&gate->reader, LINK_SIDE_KEEPER);
	r = loop_init(&gate->loop);
	if (r == 0)
		r = loop_add(&gate->loop, &gate->link, link_fd, LOOP_READ);
	if (r == 0)
		r = loop_add(&gate->loop, &gate->listener, listener_fd, LOOP_READ);
	if (r == 0)
		r = loop_run(&gate->loop);
	while (gate->sessions)
		session_close(gate->sessions);
	link_reader_fini(&gate->reader);
	buf_fini(&gate->out);
	loop_fini(&gate->loop);
	close(listener_fd);
	close(link_fd);
	free(gate);
	return r < 0;
}
