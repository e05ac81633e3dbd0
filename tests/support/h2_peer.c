/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 without TLS over TCP, for tests against other implementations.
 *
 *	h2_peer serve		prints its port; echoes bodies; GET /N is answered by N bytes
 *	h2_peer get PORT COUNT PATH	makes COUNT requests at once and prints statuses and sizes
 *	h2_peer post PORT SIZE PATH	sends SIZE bytes and prints what came back
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "http/h2.h"

struct exchange {
	struct buf held; /* of the body that is echoed; at most its window */
	size_t left;     /* of a body that is made */
	size_t received;
	int status;
	bool is_over; /* the other side has said everything */
};

struct peer {
	struct h2 *h2;
	int fd;
	bool is_server;
	size_t open;
};

static const char zeros[65536];

static struct exchange *exchange_new(struct peer *peer)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (!exchange)
		abort();
	buf_init(&exchange->held, H2_WINDOW);
	peer->open++;
	return exchange;
}

/* As much as goes, of what is held or made. */
static void send_body(struct h2_stream *stream)
{
	struct exchange *exchange = stream->exchange;
	size_t taken;

	while (exchange->left > 0) {
		size_t len = exchange->left < sizeof(zeros) ? exchange->left : sizeof(zeros);

		taken = h2_send_data(stream, (struct bytes){ zeros, len }, exchange->left == len);
		exchange->left -= taken;
		if (taken < len || exchange->left == 0)
			return;
	}
	taken = h2_send_data(stream, (struct bytes){ exchange->held.data, exchange->held.len },
			     exchange->is_over);
	h2_consume(stream, taken);
	exchange->held.len -= taken;
	memmove(exchange->held.data, exchange->held.data + taken, exchange->held.len);
}

static void answer(struct h2_stream *stream, const struct http_head *head)
{
	struct exchange *exchange = stream->exchange;
	struct h2_message reply = { .status = 200, .has_length = true };
	int r;

	exchange->left = strtoul(head->path.data + 1, NULL, 10);
	reply.length = exchange->left;
	reply.has_length = head->framing == FRAMING_NONE;
	if (bytes_equal(head->method, BYTES("HEAD")))
		exchange->left = 0;
	r = h2_send_reply(stream, &reply, reply.has_length && !exchange->left);
	if (r < 0)
		abort();
	if (exchange->left)
		send_body(stream);
}

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	struct peer *peer = owner;
	struct exchange *exchange = stream->exchange;

	if (peer->is_server)
		exchange = stream->exchange = exchange_new(peer);
	exchange->is_over = is_end;
	exchange->status = head->status;
	if (peer->is_server)
		answer(stream, head);
}

static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct peer *peer = owner;
	struct exchange *exchange = stream->exchange;

	exchange->received += data.len;
	if (!peer->is_server) {
		h2_consume(stream, data.len);
		return;
	}
	buf_add(&exchange->held, data.data, data.len);
	send_body(stream);
}

static void on_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	struct peer *peer = owner;
	struct exchange *exchange = stream->exchange;

	(void)trailer;
	exchange->is_over = true;
	if (peer->is_server)
		send_body(stream);
}

static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	struct peer *peer = owner;
	struct h2_message reply = { .status = http_fault_info(fault)->status, .has_length = true };

	(void)head;
	if (!peer->is_server)
		return;
	stream->exchange = exchange_new(peer);
	if (h2_send_reply(stream, &reply, true) < 0)
		abort();
}

static void on_writable(void *owner, struct h2_stream *stream)
{
	(void)owner;
	send_body(stream);
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct peer *peer = owner;
	struct exchange *exchange = stream->exchange;

	if (!peer->is_server)
		printf("%d %zu %d\n", exchange->status, exchange->received, code);
	buf_fini(&exchange->held);
	free(exchange);
	peer->open--;
}

static const struct h2_callbacks callbacks = { on_head,  on_data,     on_end,
					       on_fault, on_writable, on_close };

static bool write_out(struct peer *peer)
{
	struct bytes pending;
	ssize_t len;

	while ((pending = h2_pending(peer->h2)).len > 0) {
		len = send(peer->fd, pending.data, pending.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (len < 0)
			return errno == EAGAIN;
		h2_sent(peer->h2, (size_t)len);
	}
	return true;
}

static bool read_in(struct peer *peer)
{
	char data[65536];
	ssize_t len = recv(peer->fd, data, sizeof(data), MSG_DONTWAIT);

	if (len < 0)
		return errno == EAGAIN;
	if (len == 0)
		return false;
	if (h2_read(peer->h2, (struct bytes){ data, (size_t)len }, clock_now_ms()) == 0)
		return true;
	write_out(peer);
	return false;
}

static void run(struct peer *peer)
{
	bool goes_on = write_out(peer);

	while (goes_on && (peer->is_server || peer->open > 0)) {
		struct pollfd poll_fd = { peer->fd, 0, 0 };

		poll_fd.events = (short)((h2_is_full(peer->h2) ? 0 : POLLIN) |
					 (h2_pending(peer->h2).len ? POLLOUT : 0));
		if (poll(&poll_fd, 1, 10000) <= 0)
			break;
		if (poll_fd.revents & ~POLLOUT)
			goes_on = read_in(peer);
		goes_on = goes_on && write_out(peer) && !h2_is_over(peer->h2);
	}
	h2_free(peer->h2);
	close(peer->fd);
}

static struct h2 *new_h2(struct peer *peer)
{
	struct h2_options options = { .is_server = peer->is_server };

	return h2_new(&options, &callbacks, peer);
}

static int serve(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(address);

	if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return 1;
	signal(SIGCHLD, SIG_IGN);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (;;) {
		struct peer peer = { .fd = accept(fd, NULL, NULL), .is_server = true };

		if (peer.fd >= 0 && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			peer.h2 = new_h2(&peer);
			run(&peer);
			_exit(peer.open ? 1 : 0);
		}
		close(peer.fd);
	}
}

static int request(const char *port, size_t count, size_t size, const char *path)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)atoi(port)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct peer peer = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	struct h2_message message = { .method = size ? BYTES("POST") : BYTES("GET"),
				      .scheme = BYTES("http"),
				      .host = BYTES("localhost"),
				      .path = bytes_of(path),
				      .has_length = size > 0,
				      .length = size };

	if (connect(peer.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return 1;
	peer.h2 = new_h2(&peer);
	for (size_t i = 0; i < count; i++) {
		struct exchange *exchange = exchange_new(&peer);
		struct h2_stream *stream = h2_request(peer.h2, &message, exchange, size == 0);

		if (!stream)
			abort();
		exchange->left = size;
		if (size)
			send_body(stream);
	}
	run(&peer);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc == 5 && strcmp(argv[1], "get") == 0)
		return request(argv[2], strtoul(argv[3], NULL, 10), 0, argv[4]);
	if (argc == 5 && strcmp(argv[1], "post") == 0)
		return request(argv[2], 1, strtoul(argv[3], NULL, 10), argv[4]);
	return 2;
}
