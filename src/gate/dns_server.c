/* SPDX-License-Identifier: MIT */
/* The resolver's sockets on the loop. From here on the bytes are the agent's. */
#include "gate/dns_server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "base/list.h"

#define DATAGRAMS_PER_TURN 64
#define ACCEPTS_PER_TURN   16
#define RETRY_MS           100 /* after descriptors have run out */
#define LENGTH_LEN         2   /* in front of a query or reply over TCP */
#define OUT_MAX            4096

static_assert(OUT_MAX >= LENGTH_LEN + DNS_REPLY_MAX, "a reply fits");

/* A bound socket: of datagrams, or a listener. */
struct bound_socket {
	struct loop_source source; /* first */
	struct dns_server *server;
};

struct connection {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct loop_timer idle;
	struct dns_server *server;
	struct connection *next, **at;
	bool has_input_ended;
	size_t in_len, out_start, out_len;
	char in[LENGTH_LEN + DNS_SERVER_QUERY_MAX];
	char out[OUT_MAX]; /* replies that are not written: from out_start, out_len bytes */
};

struct dns_server {
	struct loop *loop;
	struct names *names;
	const struct dns_policy *policy;
	struct bound_socket udp[DNS_SERVER_SOCKETS], tcp[DNS_SERVER_SOCKETS];
	size_t udp_count, tcp_count;
	struct connection *connections;
	size_t connection_count;
	bool is_deaf;            /* no connection is taken for now */
	struct loop_timer retry; /* hears again */
	char datagram[DNS_SERVER_QUERY_MAX];
};

/* ---- UDP ---- */

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/*
 * Turns what was told about where a query went to into where its reply is to come from. The
 * interface is left open: how to get there is the business of the routes.
 */
static void turn_around(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);

	if (header && header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
		struct in_pktinfo info;

		memcpy(&info, CMSG_DATA(header), sizeof(info));
		info.ipi_ifindex = 0;
		/* The kernel fills it in only if it was asked to when the query came. */
		info.ipi_spec_dst = info.ipi_addr;
		memcpy(CMSG_DATA(header), &info, sizeof(info));
		message->msg_controllen = CMSG_SPACE(sizeof(info));
	} else if (header && header->cmsg_level == IPPROTO_IPV6 &&
		   header->cmsg_type == IPV6_PKTINFO) {
		struct in6_pktinfo info;

		memcpy(&info, CMSG_DATA(header), sizeof(info));
		info.ipi6_ifindex = 0;
		memcpy(CMSG_DATA(header), &info, sizeof(info));
		message->msg_controllen = CMSG_SPACE(sizeof(info));
	} else {
		message->msg_controllen = 0;
	}
}

/* One datagram; false when there is none. A reply that cannot be sent now is lost, as any. */
static bool serve_datagram(struct dns_server *server, int fd)
{
	char reply[DNS_REPLY_MAX];
	struct sockaddr_storage client;
	union control control;
	struct iovec data = { server->datagram, sizeof(server->datagram) };
	struct msghdr message = { .msg_name = &client,
				  .msg_namelen = sizeof(client),
				  .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control.space,
				  .msg_controllen = sizeof(control.space) };
	ssize_t n = recvmsg(fd, &message, 0);
	size_t len;

	if (n < 0)
		return errno != EAGAIN; /* else what a reply has come to is told here: go on */
	if (message.msg_flags & MSG_TRUNC)
		return true;
	len = dns_answer(server->names, server->policy,
			 (struct bytes){ server->datagram, (size_t)n }, reply);
	if (len == 0)
		return true;
	turn_around(&message);
	data = (struct iovec){ reply, len };
	message.msg_flags = 0;
	(void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	return true;
}

static void on_datagram(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct dns_server *server = ((struct bound_socket *)(void *)source)->server;

	(void)ready;
	(void)now_ms;
	for (int i = 0; i < DATAGRAMS_PER_TURN; i++)
		if (!serve_datagram(server, source->fd))
			return;
}

/* ---- connections ---- */

static void set_deaf(struct dns_server *server, bool is_deaf)
{
	server->is_deaf = is_deaf;
	for (size_t i = 0; i < server->tcp_count; i++)
		if (loop_change(server->loop, &server->tcp[i].source, is_deaf ? 0 : LOOP_READ) < 0)
			loop_end(server->loop);
}

static void free_connection(struct loop_deferred *deferred)
{
	free(deferred);
}

static void close_connection(struct connection *connection)
{
	struct dns_server *server = connection->server;
	int fd = connection->source.fd;

	loop_remove(server->loop, &connection->source);
	loop_cancel(server->loop, &connection->idle);
	close(fd);
	LIST_REMOVE(connection);
	server->connection_count--;
	if (server->is_deaf)
		set_deaf(server, false);
	loop_defer(server->loop, &connection->deferred);
}

static void on_idle(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	close_connection(OWNER_OF(timer, struct connection, idle));
}

static bool has_room(const struct connection *connection)
{
	return connection->out_len + LENGTH_LEN + DNS_REPLY_MAX <= OUT_MAX;
}

static size_t length_at(const char *data)
{
	return (size_t)((unsigned char)data[0] << 8 | (unsigned char)data[1]);
}

static bool has_query(const struct connection *connection)
{
	return connection->in_len >= LENGTH_LEN &&
	       connection->in_len - LENGTH_LEN >= length_at(connection->in);
}

/* Answers the first query that has come whole; false: it is none. */
static bool answer_first(struct connection *connection)
{
	struct dns_server *server = connection->server;
	struct bytes query = { connection->in + LENGTH_LEN, length_at(connection->in) };
	char *out = connection->out + connection->out_len;
	size_t len = dns_answer(server->names, server->policy, query, out + LENGTH_LEN);

	if (len == 0)
		return false;
	out[0] = (char)(len >> 8);
	out[1] = (char)(len & 0xff);
	connection->out_len += LENGTH_LEN + len;
	connection->in_len -= LENGTH_LEN + query.len;
	memmove(connection->in, query.data + query.len, connection->in_len);
	return true;
}

/* Writes what the client takes; false: it is gone. */
static bool flush(struct connection *connection)
{
	while (connection->out_len > connection->out_start) {
		ssize_t n = send(connection->source.fd, connection->out + connection->out_start,
				 connection->out_len - connection->out_start, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		connection->out_start += (size_t)n;
	}
	connection->out_start = connection->out_len = 0;
	return true;
}

/* Answers and writes for as long as both go on; false: the connection is over. */
static bool advance(struct connection *connection, uint64_t now_ms)
{
	do {
		while (has_query(connection) && has_room(connection)) {
			if (!answer_first(connection))
				return false;
			loop_set_timer(connection->server->loop, &connection->idle,
				       now_ms + DNS_SERVER_IDLE_MS);
		}
		if (!flush(connection))
			return false;
	} while (has_query(connection) && has_room(connection));
	if (connection->in_len >= LENGTH_LEN && length_at(connection->in) > DNS_SERVER_QUERY_MAX)
		return false;
	return !connection->has_input_ended || connection->out_len > 0;
}

static bool wants_input(const struct connection *connection)
{
	return !connection->has_input_ended && connection->in_len < sizeof(connection->in) &&
	       has_room(connection);
}

/* Reads once; false: the connection is over. */
static bool read_input(struct connection *connection)
{
	ssize_t n = recv(connection->source.fd, connection->in + connection->in_len,
			 sizeof(connection->in) - connection->in_len, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	connection->in_len += (size_t)n;
	connection->has_input_ended = n == 0;
	return true;
}

static void on_connection(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct connection *connection = OWNER_OF(source, struct connection, source);
	unsigned int interest;

	/* What is written may make room for what is read. */
	if (!advance(connection, now_ms) ||
	    (ready & LOOP_READ && wants_input(connection) &&
	     (!read_input(connection) || !advance(connection, now_ms)))) {
		close_connection(connection);
		return;
	}
	interest = (wants_input(connection) ? LOOP_READ : 0) |
		   (connection->out_len ? LOOP_WRITE : 0);
	if (loop_change(connection->server->loop, source, interest) < 0)
		close_connection(connection);
}

static void open_connection(struct dns_server *server, int fd, uint64_t now_ms)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		die_no_memory();
	connection->deferred.free = free_connection;
	connection->source.on_ready = on_connection;
	connection->idle.on_due = on_idle;
	connection->server = server;
	if (loop_add(server->loop, &connection->source, fd, LOOP_READ) < 0) {
		close(fd);
		free(connection);
		return;
	}
	LIST_ADD(&server->connections, connection);
	server->connection_count++;
	loop_set_timer(server->loop, &connection->idle, now_ms + DNS_SERVER_IDLE_MS);
}

static void on_retry(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	set_deaf(OWNER_OF(timer, struct dns_server, retry), false);
}

static void on_listener(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct dns_server *server = ((struct bound_socket *)(void *)source)->server;

	(void)ready;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd;

		if (server->connection_count >= DNS_SERVER_CONNECTIONS) {
			set_deaf(server, true); /* until one ends */
			return;
		}
		fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			set_deaf(server, true);
			loop_set_timer(server->loop, &server->retry, now_ms + RETRY_MS);
		}
		if (fd < 0)
			return;
		open_connection(server, fd, now_ms);
	}
}

/* ---- opening and closing ---- */

struct dns_server *dns_server_new(struct loop *loop, struct names *names,
				  const struct dns_policy *policy)
{
	struct dns_server *server = calloc(1, sizeof(*server));

	if (!server)
		die_no_memory();
	server->loop = loop;
	server->names = names;
	server->policy = policy;
	server->retry.on_due = on_retry;
	return server;
}

static void close_sockets(struct dns_server *server, struct bound_socket *sockets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int fd = sockets[i].source.fd;

		loop_remove(server->loop, &sockets[i].source);
		close(fd);
	}
}

void dns_server_free(struct dns_server *server)
{
	while (server->connections)
		close_connection(server->connections);
	loop_cancel(server->loop, &server->retry);
	close_sockets(server, server->udp, server->udp_count);
	close_sockets(server, server->tcp, server->tcp_count);
	free(server);
}

static int add_socket(struct dns_server *server, struct bound_socket *sockets, size_t *count,
		      int fd, void (*on_ready)(struct loop_source *, unsigned int, uint64_t))
{
	struct bound_socket *added = &sockets[*count];
	int r;

	if (*count == DNS_SERVER_SOCKETS)
		return -E2BIG;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*added = (struct bound_socket){ { .fd = -1, .on_ready = on_ready }, server };
	r = loop_add(server->loop, &added->source, fd, LOOP_READ);
	if (r == 0)
		(*count)++;
	return r;
}

int dns_server_add_udp(struct dns_server *server, int fd)
{
	int one = 1;

	/* Of which family it is shows in which one works. */
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)) < 0) {
		if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)) < 0)
			return -errno;
	} else if (setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one)) < 0) {
		/* Every address is local by a route, on no interface: only so may it be a source.
		 */
		return -errno;
	}
	return add_socket(server, server->udp, &server->udp_count, fd, on_datagram);
}

int dns_server_add_tcp(struct dns_server *server, int fd)
{
	int r = add_socket(server, server->tcp, &server->tcp_count, fd, on_listener);

	if (r == 0)
		set_deaf(server, server->is_deaf);
	return r;
}
