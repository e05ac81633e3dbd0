/* SPDX-License-Identifier: MIT */
/* Finding out what a connection speaks, and with whom. From here on the bytes are the agent's. */
#include "gate/front.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "base/list.h"
#include "gate/bundle.h"
#include "gate/call.h"
#include "gate/session.h"
#include "gate/sniff.h"
#include "gate/socks.h"
#include "gate/tunnel.h"
#include "net/origdst.h"
#include "sys/fd.h"
#include "tls/tls_server.h"

struct front {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct loop_timer timer;
	struct gate *gate;
	struct front *next, **at;
	int fd; /* -1: handed on */
	struct buf first;
	uint64_t deadline_ms;
	bool is_proxy; /* where it goes is not known yet */
	struct authority target;
	struct socks socks;
	struct tls_accept *accept;
	struct endpoint endpoint; /* of the session to be */
};

/* ---- opening and closing ---- */

static void free_front(struct loop_deferred *deferred)
{
	struct front *front = (struct front *)(void *)deferred;

	buf_fini(&front->first);
	free(front);
}

/* Out of every list; the descriptor is somebody else's now, or closed. */
static void leave(struct front *front)
{
	struct loop *loop = &front->gate->loop;

	loop_remove(loop, &front->source);
	loop_cancel(loop, &front->timer);
	LIST_REMOVE(front);
	front->gate->connection_count--;
	gate_hear(front->gate);
	loop_defer(loop, &front->deferred);
}

void front_close(struct front *front)
{
	if (front->accept)
		tls_accept_cancel(front->accept);
	if (front->fd >= 0) {
		fd_set_abrupt(front->fd, true);
		close_fd(&front->fd);
	}
	leave(front);
}

/* For the record; `target` may be NULL: it is not known where it was going. */
static void record(struct gate *gate, const struct authority *target, const char *code)
{
	struct link_refused refused = { .code = bytes_of(code) };
	char host[AUTHORITY_TEXT_MAX];

	if (target) {
		authority_format(target->host, target->port, host);
		refused.host = bytes_of(host);
	}
	call_refuse(gate, &refused);
}

/* There is nothing to be said in a protocol that is not known: it is reset. */
static void refuse(struct front *front, const char *code)
{
	record(front->gate, front->is_proxy ? NULL : &front->target, code);
	front_close(front);
}

/* The descriptor, for whoever goes on with it. */
static int take(struct front *front)
{
	loop_remove(&front->gate->loop, &front->source);
	return take_fd(&front->fd);
}

static struct bytes first_bytes(const struct front *front)
{
	return (struct bytes){ front->first.data, front->first.len };
}

/* ---- what it turned out to be ---- */

static void go_on_as_session(struct front *front, const struct stream *stream, struct bytes first,
			     uint64_t now_ms)
{
	session_open(front->gate, stream, &front->endpoint, first, now_ms);
	leave(front);
}

static void go_on_as_tunnel(struct front *front, uint64_t now_ms)
{
	if (front->is_proxy) {
		refuse(front, "not_a_proxy_request");
		return;
	}
	tunnel_open(front->gate, take(front), &front->target, first_bytes(front), now_ms);
	leave(front);
}

/* An agent that has just gone away was not refused. */
static void on_handshake_failed(struct front *front, int error)
{
	static const struct {
		int error;
		const char *code;
	} codes[] = {
		{ EKEYREJECTED, "certificate_not_trusted" }, /* by the agent */
		{ EPROTO, "tls_fault" },
		{ EINVAL, "tls_name_invalid" },
		{ ETIMEDOUT, "tls_timeout" },
	};

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].error == error) {
			record(front->gate, &front->endpoint.authority, codes[i].code);
			break;
		}
	front_close(front);
}

static void on_accepted(void *owner, struct stream *stream, enum tls_alpn alpn,
			const struct err *err, uint64_t now_ms)
{
	struct front *front = owner;

	front->accept = NULL;
	if (err) {
		on_handshake_failed(front, err->code);
	} else if (alpn == TLS_ALPN_H2) {
		bundle_open(front->gate, stream, &front->endpoint, now_ms);
		leave(front);
	} else {
		go_on_as_session(front, stream, (struct bytes){ NULL, 0 }, now_ms);
	}
}

/* Whom the agent expects: the name it asks for, or the one that it connected to. */
static bool choose_name(struct front *front, const char *sni)
{
	struct authority named;

	front->endpoint = (struct endpoint){ .kind = ENDPOINT_EGRESS, .is_tls = true };
	front->endpoint.authority = front->target;
	if (!sni[0])
		return true;
	if (authority_parse(bytes_of(sni), front->target.port, &named) < 0)
		return false;
	/* A name that was connected to is binding; a bare address says nothing about names. */
	front->endpoint.is_misdirected = !front->target.is_address &&
					 strcmp(named.host, front->target.host) != 0;
	front->endpoint.authority = named;
	return true;
}

static void begin_tls(struct front *front, const struct sniff_result *result, uint64_t now_ms)
{
	if (front->is_proxy) {
		refuse(front, "not_a_proxy_request");
		return;
	}
	if (!choose_name(front, result->sni)) {
		refuse(front, "tls_name_invalid");
		return;
	}
	front->accept = tls_accept_start(front->gate->authority, &front->gate->loop, take(front),
					 first_bytes(front), front->endpoint.authority.host,
					 TLS_ALPN_HTTP1 | TLS_ALPN_H2, FRONT_HANDSHAKE_MS, now_ms,
					 on_accepted, front);
	loop_cancel(&front->gate->loop, &front->timer);
}

static void begin_http(struct front *front, uint64_t now_ms)
{
	struct stream stream;

	front->endpoint = (struct endpoint){
		.kind = front->is_proxy ? ENDPOINT_PROXY : ENDPOINT_EGRESS,
		.authority = front->target,
	};
	stream_init_plain(&stream, take(front));
	go_on_as_session(front, &stream, first_bytes(front), now_ms);
}

/* ---- SOCKS5 ---- */

static bool send_all(struct front *front, struct bytes data)
{
	/* A few bytes on a new connection: there is room for them. */
	return data.len == 0 ||
	       send(front->fd, data.data, data.len, MSG_NOSIGNAL) == (ssize_t)data.len;
}

/* It is connected, as far as the agent can tell: what it says next is looked at. */
static void on_socks_target(struct front *front, const struct socks_result *result,
			    struct bytes rest, uint64_t now_ms)
{
	char reply[SOCKS_REPLY_LEN];
	struct authority target;
	int r = authority_parse(bytes_of(result->host), result->port, &target);

	if (r < 0 && strchr(result->host, ':')) { /* IPv6 comes without brackets here */
		char text[SOCKS_HOST_MAX + 3];

		snprintf(text, sizeof(text), "[%s]", result->host);
		r = authority_parse(bytes_of(text), result->port, &target);
	}
	target.port = result->port;
	socks_format_reply(r < 0 ? SOCKS_HOST_UNREACHABLE : SOCKS_SUCCEEDED, reply);
	if (!send_all(front, (struct bytes){ reply, sizeof(reply) })) {
		front_close(front);
		return;
	}
	if (r < 0) {
		refuse(front, "socks_host_invalid");
		return;
	}
	front_open_target(front->gate, take(front), &target, rest, now_ms);
	leave(front);
}

static bool speaks_socks(const struct front *front)
{
	return front->socks.len > 0 || front->socks.state != SOCKS_GREETING;
}

static void read_socks(struct front *front, uint64_t now_ms)
{
	struct bytes input = first_bytes(front);
	struct socks_result result;
	enum socks_event event;

	do {
		event = socks_read(&front->socks, &input, &result);
		if (event == SOCKS_SEND && !send_all(front, result.reply))
			event = SOCKS_CLOSE;
	} while (event == SOCKS_SEND);
	if (event == SOCKS_CONNECT) {
		on_socks_target(front, &result, input, now_ms);
	} else if (event == SOCKS_CLOSE) {
		(void)send_all(front, result.reply); /* its end says the rest */
		refuse(front, "socks_not_supported");
	} else {
		front->first.len = 0;
	}
}

/* ---- sniffing ---- */

static void look(struct front *front, uint64_t now_ms)
{
	static struct sniff_result result;

	if (speaks_socks(front)) {
		read_socks(front, now_ms);
		return;
	}
	switch (sniff(first_bytes(front), &result)) {
	case SNIFF_NEEDS_MORE:
		return;
	case SNIFF_TLS:
		begin_tls(front, &result, now_ms);
		return;
	case SNIFF_HTTP1:
		begin_http(front, now_ms);
		return;
	case SNIFF_SOCKS5:
		if (front->is_proxy) {
			read_socks(front, now_ms);
			return;
		}
		go_on_as_tunnel(front, now_ms);
		return;
	case SNIFF_HTTP2:
	case SNIFF_OTHER:
		go_on_as_tunnel(front, now_ms);
		return;
	}
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct front *front = OWNER_OF(source, struct front, source);
	char *input = front->gate->input;
	ssize_t n;

	if (ready & LOOP_HANGUP) {
		front_close(front);
		return;
	}
	n = recv(front->fd, input, SNIFF_MAX - front->first.len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		front_close(front);
		return;
	}
	buf_add(&front->first, input, (size_t)n);
	look(front, now_ms);
}

/* Either the agent waits for the server to speak, or it has taken too long. */
static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct front *front = OWNER_OF(timer, struct front, timer);

	if (front->first.len == 0 && !front->is_proxy)
		go_on_as_tunnel(front, now_ms);
	else if (now_ms < front->deadline_ms)
		loop_set_timer(&front->gate->loop, timer, front->deadline_ms);
	else if (front->first.len > 0 || speaks_socks(front))
		refuse(front, "hello_timeout");
	else
		front_close(front); /* it has asked for nothing */
}

/* ---- opening ---- */

static struct front *front_new(struct gate *gate, int fd, uint64_t now_ms)
{
	struct front *front = calloc(1, sizeof(*front));

	if (!front)
		die_no_memory();
	front->deferred.free = free_front;
	front->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	front->timer.on_due = on_due;
	front->gate = gate;
	front->fd = fd;
	front->deadline_ms = now_ms + FRONT_SNIFF_MS;
	buf_init(&front->first, SNIFF_MAX);
	LIST_ADD(&gate->fronts, front);
	gate->connection_count++;
	if (loop_add(&gate->loop, &front->source, fd, LOOP_READ) < 0) {
		front_close(front);
		return NULL;
	}
	loop_set_timer(&gate->loop, &front->timer, now_ms + FRONT_SILENT_MS);
	return front;
}

/* The loopback is the agent's own, and never captured: who gets here has found the listener. */
static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	return address->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					     : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Where a captured connection was going. */
static int find_destination(int fd, bool is_redirected, struct sockaddr_storage *ret_address)
{
	socklen_t len = sizeof(*ret_address);
	int r;

	memset(ret_address, 0, sizeof(*ret_address));
	r = is_redirected ? origdst_get(fd, ret_address)
			  : getsockname(fd, (struct sockaddr *)ret_address, &len);
	return r < 0 || is_loopback(ret_address) ? -EHOSTUNREACH : 0;
}

/* As it is judged: a name that the resolver gave out, or an address. */
static int name_target(struct gate *gate, const struct sockaddr_storage *address,
		       struct authority *ret_target)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	char text[INET6_ADDRSTRLEN + 3];
	const char *name;
	uint16_t port;

	port = ntohs(address->ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
	name = names_of_address(gate->names, (const struct sockaddr *)address);
	if (name)
		return authority_parse(bytes_of(name), port, ret_target);
	if (address->ss_family == AF_INET) {
		if (!inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)))
			return -EHOSTUNREACH;
	} else {
		text[0] = '[';
		if (!inet_ntop(AF_INET6, &v6->sin6_addr, text + 1, sizeof(text) - 2))
			return -EHOSTUNREACH;
		memcpy(text + strlen(text), "]", 2);
	}
	return authority_parse(bytes_of(text), port, ret_target);
}

static bool is_tunnel(const struct gate *gate, const struct authority *target)
{
	for (size_t i = 0; i < gate->tunnel_count; i++)
		if (gate->tunnels[i].port == target->port &&
		    host_matches(gate->tunnels[i].host, target->host))
			return true;
	return false;
}

void front_open_target(struct gate *gate, int fd, const struct authority *target,
		       struct bytes first, uint64_t now_ms)
{
	struct front *front;

	if (is_tunnel(gate, target)) {
		tunnel_open(gate, fd, target, first, now_ms);
		return;
	}
	front = front_new(gate, fd, now_ms);
	if (!front)
		return;
	front->target = *target;
	if (first.len > 0) {
		buf_add(&front->first, first.data, first.len);
		look(front, now_ms);
	}
}

void front_open_captured(struct gate *gate, int fd, bool is_redirected, uint64_t now_ms)
{
	static const struct bytes nothing;
	struct sockaddr_storage address;
	struct authority target;

	if (find_destination(fd, is_redirected, &address) < 0 ||
	    name_target(gate, &address, &target) < 0) {
		record(gate, NULL, "destination_unknown");
		fd_set_abrupt(fd, true);
		close(fd);
		return;
	}
	front_open_target(gate, fd, &target, nothing, now_ms);
}

void front_open_proxy(struct gate *gate, int fd, uint64_t now_ms)
{
	struct front *front = front_new(gate, fd, now_ms);

	if (front)
		front->is_proxy = true;
}
