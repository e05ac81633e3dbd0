/* SPDX-License-Identifier: MIT */
/* The gate's loop: the control socket, the listeners, the link, and the sessions between them. */
#include "gate/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "gate/call.h"
#include "gate/connection.h"
#include "gate/front.h"
#include "gate/session.h"
#include "sys/pass.h"

#define ACCEPTS_PER_TURN 64
#define DEAF_MS          100

/* ---- writing, once per turn ---- */

/* Puts `first` and those after it in front of those before it. */
static void rotate(struct gate *gate, struct connection *first)
{
	struct connection *last = first, *before = gate->connections;

	if (first == before)
		return;
	while (last->next)
		last = last->next;
	*first->at = NULL;
	gate->connections = first;
	first->at = &gate->connections;
	last->next = before;
	before->at = &last->next;
}

/*
 * Lets those go on who had to wait; one of them may fill the link again, then the others wait
 * on, and are the first the next time.
 */
static void resume_all(struct gate *gate, uint64_t now_ms)
{
	struct connection *connection, *next;

	gate->is_paused = false;
	for (connection = gate->connections; !gate->is_paused && connection; connection = next) {
		next = connection->next;
		connection->ops->resume(connection, now_ms);
	}
	if (connection)
		rotate(gate, connection);
}

/* Until the keeper takes no more, or nobody has anything for it. */
static void flush_link(struct gate *gate, uint64_t now_ms)
{
	for (;;) {
		if (link_port_flush(&gate->link) < 0) {
			loop_end(&gate->loop); /* no keeper, no service */
			return;
		}
		if (link_port_is_behind(&gate->link)) {
			gate->is_paused = true;
			return;
		}
		if (!gate->is_paused)
			return;
		resume_all(gate, now_ms);
	}
}

static void on_turn_end(struct loop *loop, uint64_t now_ms)
{
	struct gate *gate = OWNER_OF(loop, struct gate, loop);

	/*
	 * Writing to an agent may let its next request in, and that may be answered at once; those
	 * who were paused may be answered by ourselves, once the link has room.
	 */
	do {
		while (gate->dirty) {
			struct connection *connection = gate->dirty;

			gate->dirty = connection->next_dirty;
			connection->is_dirty = false;
			connection->ops->finish_turn(connection, now_ms);
		}
		flush_link(gate, now_ms);
	} while (gate->dirty);
}

/* ---- the link ---- */

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

/* Hosts, with patterns, whose connections are carried as they are. */
static int on_tunnels(struct gate *gate, struct bytes payload)
{
	struct bytes texts[LINK_TUNNELS_MAX];
	const char *why;

	if (link_parse_tunnels(payload, texts, &gate->tunnel_count) < 0)
		return -EPROTO;
	for (size_t i = 0; i < gate->tunnel_count; i++)
		if (authority_parse_pattern(texts[i], 0, &gate->tunnels[i], &why) < 0)
			return -EPROTO;
	return 0;
}

static bool is_known(void *owner, const char *name)
{
	return known_has(&((struct gate *)owner)->known, name);
}

/* Names that exist. Nobody is listened to before they are all there. */
static int on_names(struct gate *gate, struct bytes payload)
{
	static struct link_names names; /* large, and needed only in here */

	if (gate->control.fd >= 0 || link_parse_names(payload, &names) < 0)
		return -EPROTO;
	for (size_t i = 0; i < names.count; i++)
		if (known_add(&gate->known, names.names[i].pattern, names.names[i].is_known) < 0)
			return -EPROTO;
	gate->dns_policy.mode = names.is_deny ? DNS_DENY : DNS_EXPLAIN;
	return names.is_last ? loop_add(&gate->loop, &gate->control, gate->control_fd, LOOP_READ)
			     : 0;
}

static int on_message(struct link_port *port, enum link_event event, struct bytes payload,
		      uint64_t now_ms)
{
	struct gate *gate = OWNER_OF(port, struct gate, link);
	uint32_t id = port->reader.exchange;
	struct call *call;

	(void)now_ms;
	if (event == LINK_MESSAGE && port->reader.type == LINK_HELLO)
		return on_hello(gate, payload);
	if (event == LINK_MESSAGE && port->reader.type == LINK_TUNNELS)
		return on_tunnels(gate, payload);
	if (event == LINK_MESSAGE && port->reader.type == LINK_NAMES)
		return on_names(gate, payload);
	if (id == 0)
		return -EPROTO; /* between a carrier and its keeper only */
	call = gate->calls[id % LINK_EXCHANGES_MAX];
	if (!call || call->id != id)
		return 0; /* ended on our side while this was under way */
	return call_on_message(call, event, port->reader.type, payload);
}

/* ---- listeners ---- */

/* Whether the listeners are listened to. */
static void set_deaf(struct gate *gate, bool is_deaf)
{
	gate->is_deaf = is_deaf;
	for (size_t i = 0; i < gate->listener_count; i++)
		if (loop_change(&gate->loop, &gate->listeners[i].source, is_deaf ? 0 : LOOP_READ) <
		    0)
			loop_end(&gate->loop);
}

void gate_hear(struct gate *gate)
{
	if (gate->is_deaf)
		set_deaf(gate, false);
}

/* Ends a connection that nothing is lost with; false when there is none. */
static bool make_place(struct gate *gate, uint64_t now_ms)
{
	struct connection *oldest = NULL;

	for (struct connection *at = gate->connections; at; at = at->next)
		if (at->ops->is_idle(at) && now_ms >= at->last_ms + GATE_SPARE_MS &&
		    (!oldest || at->last_ms < oldest->last_ms))
			oldest = at;
	if (oldest)
		oldest->ops->reset(oldest);
	return oldest != NULL;
}

static void on_deaf_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	gate_hear(OWNER_OF(timer, struct gate, deaf_timer));
}

static void welcome(struct gate *gate, char tag, int fd, uint64_t now_ms)
{
	static const struct endpoint llm = { .kind = ENDPOINT_LLM };
	static const struct bytes nothing;
	struct stream stream;

	switch (tag) {
	case GATE_TAG_CAPTURED:
		front_open_captured(gate, fd, true, now_ms);
		break;
	case GATE_TAG_DIRECT:
		front_open_captured(gate, fd, false, now_ms);
		break;
	case GATE_TAG_PROXY:
		front_open_proxy(gate, fd, now_ms);
		break;
	default:
		stream_init_plain(&stream, fd);
		session_open(gate, &stream, &llm, nothing, now_ms);
	}
}

static void on_listener(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct gate *gate = ((struct listener *)(void *)source)->gate; /* its first member */

	(void)ready;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd;

		/* Those who wait are taken when a place or a descriptor is free, and when the
		 * keeper keeps up: whoever is refused leaves a record. */
		if (gate->is_paused ||
		    (gate->connection_count >= gate->connection_max && !make_place(gate, now_ms))) {
			set_deaf(gate, true);
			loop_set_timer(&gate->loop, &gate->deaf_timer, now_ms + DEAF_MS);
			return;
		}
		fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			set_deaf(gate, true);
			/* It may be others who have them all: then nothing of ours will end. */
			loop_set_timer(&gate->loop, &gate->deaf_timer, now_ms + DEAF_MS);
		}
		if (fd < 0)
			return;
		welcome(gate, ((struct listener *)(void *)source)->tag, fd, now_ms);
	}
}

/* ---- the control socket ---- */

static int add_listener(struct gate *gate, char tag, int fd)
{
	struct listener *listener = &gate->listeners[gate->listener_count];
	int r;

	if (gate->listener_count == GATE_LISTENERS_MAX)
		return -E2BIG;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*listener = (struct listener){ { .fd = -1, .on_ready = on_listener }, gate, tag };
	r = loop_add(&gate->loop, &listener->source, fd, gate->is_deaf ? 0 : LOOP_READ);
	if (r == 0)
		gate->listener_count++;
	return r;
}

static int on_descriptor(struct gate *gate, char tag, int fd)
{
	switch (tag) {
	case GATE_TAG_LLM:
		return add_listener(gate, tag, fd);
	case GATE_TAG_CAPTURED:
	case GATE_TAG_DIRECT:
	case GATE_TAG_PROXY:
		return gate->authority ? add_listener(gate, tag, fd) : -EINVAL;
	case GATE_TAG_DNS_UDP:
		return dns_server_add_udp(gate->dns, fd);
	case GATE_TAG_DNS_TCP:
		return dns_server_add_tcp(gate->dns, fd);
	default:
		return -EINVAL;
	}
}

static void on_control(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct gate *gate = OWNER_OF(source, struct gate, control);
	char tag;
	int fd;
	ssize_t n = pass_receive(source->fd, &tag, sizeof(tag), &fd);

	(void)ready;
	(void)now_ms;
	if (n == -EAGAIN)
		return;
	if (n <= 0 || fd < 0 || on_descriptor(gate, tag, fd) < 0) {
		close_fd(&fd);
		loop_end(&gate->loop);
	}
}

static void close_all(struct gate *gate)
{
	/* Half a reply must not look like a whole one. */
	while (gate->connections)
		gate->connections->ops->reset(gate->connections);
	while (gate->fronts)
		front_close(gate->fronts);
	dns_server_free(gate->dns);
	for (size_t i = 0; i < gate->listener_count; i++)
		close(gate->listeners[i].source.fd);
}

/* Whoever started us puts it where the sandbox looks for such. */
static int tell_certificate(int control_fd, const struct tls_authority *authority)
{
	struct bytes pem = tls_authority_pem(authority);

	return pass_send(control_fd, pem.data, pem.len, -1);
}

int gate_run(int control_fd, int link_fd, size_t connection_max, struct tls_authority *authority)
{
	struct gate *gate = calloc(1, sizeof(*gate));
	struct stream link;
	int r;

	if (!gate)
		die_no_memory();
	stream_init_plain(&link, link_fd);
	gate->connection_max = connection_max < LINK_EXCHANGES_MAX ? connection_max
								   : LINK_EXCHANGES_MAX - 1;
	gate->control = (struct loop_source){ .fd = -1, .on_ready = on_control };
	gate->deaf_timer.on_due = on_deaf_over;
	r = loop_init(&gate->loop);
	gate->loop.on_turn_end = on_turn_end;
	gate->authority = authority;
	gate->names = names_new();
	gate->dns_policy = (struct dns_policy){
		.mode = DNS_DENY, .has_v6 = true, .is_allowed = is_known, .owner = gate
	};
	gate->control_fd = control_fd;
	gate->dns = dns_server_new(&gate->loop, gate->names, &gate->dns_policy);
	if (r == 0)
		r = link_port_open(&gate->link, &gate->loop, &link, LINK_SIDE_GATE,
				   GATE_LINK_OUT_MAX, on_message);
	if (r == 0 && authority)
		r = tell_certificate(control_fd, authority);
	if (r == 0)
		r = loop_run(&gate->loop);
	close_all(gate);
	link_port_close(&gate->link);
	loop_fini(&gate->loop);
	names_free(gate->names);
	if (authority)
		tls_authority_free(authority);
	close(control_fd);
	free(gate);
	return r < 0;
}
