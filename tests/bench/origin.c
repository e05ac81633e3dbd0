/* SPDX-License-Identifier: MIT */
/*
 * The LLM, or any other host, of a benchmark: `origin BODY_BYTES TICK_MS [CERTIFICATE KEY]`, on
 * one port of 127.0.0.1 to .8, which it prints once it listens; with a certificate it speaks TLS.
 * It does as little as it can, so that what is measured is the proxy in front of it.
 *
 * POST /v1/stream is answered by server-sent events without end: one at once, then one per
 * tick. The streams take turns within a tick, as tokens of many models do; all at the same
 * moment would measure a queue. Each event carries the time it was sent. GET /v1/head gives
 * back the head that came in, backwards, as a good proxy does not let its key through, so that
 * one can see what a proxy made of it; GET /v1/echo gives it back as it is. /bytes/N gets a body
 * of so many bytes, and every other request the same JSON of BODY_BYTES.
 */
#include "message.h"
#include "wire.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESSES   8
#define STREAMS_MAX 65536
#define REPLIES_MAX 8 /* of different lengths */
#define READ_SIZE   65536

struct connection {
	struct wire wire;
	bool is_listener, is_stream;
	size_t place; /* among the streams */
	struct message request;
};

struct reply {
	size_t body_len;
	char *data;
	size_t len;
};

static struct {
	int epoll_fd;
	struct reply replies[REPLIES_MAX]; /* the first one is for whoever asks for no other */
	size_t reply_count;
	uint64_t tick_ns, last_ns; /* when the streams last had their turns */
	struct connection *streams[STREAMS_MAX];
	size_t stream_count, next;
} origin;

/* ---- replies ---- */

static void fill_words(char *at, size_t len)
{
	static const char word[] = " token";

	for (size_t i = 0; i < len; i++)
		at[i] = word[i % (sizeof(word) - 1)];
}

static void make_reply(struct reply *reply, size_t body_len)
{
	static const char before[] = "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\","
				     "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":"
				     "{\"role\":\"assistant\",\"content\":\"";
	static const char after[] = "\"},\"finish_reason\":\"stop\"}]}";
	size_t least = sizeof(before) + sizeof(after) - 2, fill, head_len;

	fill = body_len > least ? body_len - least : 0;
	reply->data = malloc(1024 + least + fill);
	if (!reply->data)
		err(1, "malloc");
	head_len = (size_t)sprintf(
		reply->data,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
		"x-litellm-call-id: 8a1b6a2e-5b43-4c0e-9d5f-6f2f3b0c7c11\r\n"
		"x-litellm-response-cost: 0.00012\r\nContent-Length: %zu\r\n\r\n%s",
		least + fill, before);
	fill_words(reply->data + head_len, fill);
	memcpy(reply->data + head_len + fill, after, sizeof(after) - 1);
	reply->len = head_len + fill + sizeof(after) - 1;
	reply->body_len = body_len;
}

static const struct reply *get_reply(size_t body_len)
{
	for (size_t i = 0; i < origin.reply_count; i++)
		if (origin.replies[i].body_len == body_len)
			return &origin.replies[i];
	if (origin.reply_count == REPLIES_MAX)
		errx(1, "too many lengths of replies");
	make_reply(&origin.replies[origin.reply_count], body_len);
	return &origin.replies[origin.reply_count++];
}

static int send_head_back(struct connection *connection, bool is_backwards)
{
	size_t len = connection->request.head_len;
	char reply[MESSAGE_HEAD_MAX + 256];
	int n = snprintf(reply, sizeof(reply),
			 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
			 "Content-Length: %zu\r\n\r\n",
			 len);

	for (size_t i = 0; i < len; i++)
		reply[(size_t)n + i] = connection->request.head[is_backwards ? len - 1 - i : i];
	return wire_send_whole(&connection->wire, reply, (size_t)n + len);
}

/* 0, or -errno when the stream is of no use any more: a piece of an event is one too. */
static int send_event(struct connection *connection)
{
	char event[512], chunk[600];
	int len, n;

	len = snprintf(event, sizeof(event),
		       "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\","
		       "\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":"
		       "{\"content\":\" token\"}}],\"sent_ns\":%" PRIu64 "}\n\n",
		       clock_now_ns());
	n = snprintf(chunk, sizeof(chunk), "%x\r\n%s\r\n", (unsigned int)len, event);
	if (wire_send(&connection->wire, chunk, (size_t)n) == n)
		return 0;
	return errno == EAGAIN ? 0 : -EPIPE; /* nobody reads: this one is left out */
}

static int begin_stream(struct connection *connection)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
				   "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

	if (origin.stream_count == STREAMS_MAX)
		return -ENOBUFS;
	if (wire_send_whole(&connection->wire, head, sizeof(head) - 1) < 0)
		return -EPIPE;
	if (origin.stream_count == 0)
		origin.last_ns = clock_now_ns();
	connection->is_stream = true;
	connection->place = origin.stream_count;
	origin.streams[origin.stream_count++] = connection;
	return send_event(connection);
}

static int answer(struct connection *connection)
{
	const char *head = connection->request.head, *path = strchr(head, ' ');
	const struct reply *reply = &origin.replies[0];

	if (strncmp(head, "POST /v1/stream ", 16) == 0)
		return begin_stream(connection);
	if (strncmp(head, "GET /v1/head ", 13) == 0)
		return send_head_back(connection, true);
	if (strncmp(head, "GET /v1/echo ", 13) == 0)
		return send_head_back(connection, false);
	if (path && strncmp(path, " /bytes/", 8) == 0)
		reply = get_reply(strtoull(path + 8, NULL, 10));
	return wire_send_whole(&connection->wire, reply->data, reply->len);
}

/* ---- connections ---- */

static void close_connection(struct connection *connection)
{
	if (connection->is_stream) {
		struct connection *last = origin.streams[--origin.stream_count];

		last->place = connection->place;
		origin.streams[last->place] = last;
	}
	wire_close(&connection->wire);
	free(connection);
}

static void add(int fd, bool is_listener)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };

	if (!connection)
		err(1, "calloc");
	if (is_listener)
		connection->wire.fd = fd;
	else
		wire_accept(&connection->wire, fd);
	connection->is_listener = is_listener;
	message_begin(&connection->request);
	if (epoll_ctl(origin.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		err(1, "epoll_ctl");
}

static void on_listener(struct connection *listener)
{
	int fd;

	while ((fd = accept4(listener->wire.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		add(fd, false);
	if (errno == EMFILE)
		errx(1, "no more descriptors");
}

/* False when there is no more to read now, or nothing to read from. */
static bool read_some(struct connection *connection)
{
	static char data[READ_SIZE];
	ssize_t n = wire_recv(&connection->wire, data, sizeof(data));
	enum message_state state;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		close_connection(connection);
		return false;
	}
	if (connection->is_stream)
		return true; /* the end of a chunked request may come late */
	state = message_push(&connection->request, data, (size_t)n);
	if (state == MESSAGE_BROKEN || (state == MESSAGE_DONE && answer(connection) < 0)) {
		close_connection(connection);
		return false;
	}
	if (state == MESSAGE_DONE && !connection->is_stream)
		message_begin(&connection->request);
	return true;
}

static void on_connection(struct connection *connection)
{
	while (read_some(connection) && wire_has_more(&connection->wire))
		;
}

/* As many of the streams as the time since the last turns is a part of a tick. */
static void give_turns(void)
{
	uint64_t now = clock_now_ns(), count;

	if (origin.stream_count == 0)
		return;
	count = (now - origin.last_ns) * origin.stream_count / origin.tick_ns;
	origin.last_ns += count * origin.tick_ns / origin.stream_count;
	for (; count > 0 && origin.stream_count > 0; count--) {
		if (origin.next >= origin.stream_count)
			origin.next = 0;
		if (send_event(origin.streams[origin.next]) < 0)
			close_connection(origin.streams[origin.next]);
		else
			origin.next++;
	}
}

/* ---- start ---- */

static int listen_at(uint32_t address, uint16_t *port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(*port) };
	socklen_t len = sizeof(name);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	name.sin_addr.s_addr = htonl(address);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 ||
	    listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		err(1, "listen");
	*port = ntohs(name.sin_port);
	return fd;
}

int main(int argc, char **argv)
{
	struct epoll_event events[256];
	uint16_t port = 0;

	if ((argc != 3 && argc != 5) || atoi(argv[2]) <= 0)
		errx(2, "usage: origin BODY_BYTES TICK_MS [CERTIFICATE KEY]");
	signal(SIGPIPE, SIG_IGN);
	if (argc == 5)
		wire_serve_tls(argv[3], argv[4]);
	get_reply((size_t)atol(argv[1]));
	origin.tick_ns = (uint64_t)atol(argv[2]) * 1000000;
	origin.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t i = 0; i < ADDRESSES; i++)
		add(listen_at(INADDR_LOOPBACK + i, &port), true);
	printf("%u\n", port);
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(origin.epoll_fd, events, 256, origin.stream_count ? 1 : -1);

		/* A connection frees only itself here, and has one event per turn. */
		for (int i = 0; i < n; i++) {
			struct connection *connection = events[i].data.ptr;

			if (connection->is_listener)
				on_listener(connection);
			else
				on_connection(connection);
		}
		give_turns();
	}
}
