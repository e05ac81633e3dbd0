/* SPDX-License-Identifier: MIT */
/*
 * The agents of a benchmark, against tcp:ADDRESS:PORT or unix:PATH. Prints JSON.
 *
 * client requests TARGET CONNECTIONS SECONDS BODY_BYTES
 *	each connection sends its next request when the reply to the last one is complete
 * client streams TARGET STREAMS SECONDS
 *	opens the streams, a few at a time, says so, and takes the age of each event for so
 *	long; the streams stay open until the standard input is closed, to be looked at
 */
#include "message.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE   65536
#define AT_ONCE     64 /* streams that wait for their first event */
#define STALL_NS    UINT64_C(20000000000)
#define SECOND_NS   UINT64_C(1000000000)
#define STREAM_PATH "/v1/stream"

/* One connection of `requests`, or one stream. */
struct connection {
	int fd;
	size_t sent;
	uint64_t began_ns;
	size_t matched;       /* streams: how much of the mark before the time was seen */
	uint64_t sent_ns;     /* streams: the digits of the time so far */
	bool is_open;         /* streams: the first event was seen */
	struct message reply; /* requests; last, so that streams never touch it */
};

static struct {
	const char *target;
	int epoll_fd;
	struct connection *connections;
	char *request;
	size_t request_len;
	uint64_t *samples;
	size_t sample_count, sample_size;
	size_t errors;
	/* streams */
	size_t opened, failed, waiting;
	bool is_held;
} client;

static char data[READ_SIZE];

/* ---- what both do ---- */

static void add_sample(uint64_t ns)
{
	if (client.sample_count == client.sample_size) {
		client.sample_size = client.sample_size ? client.sample_size * 2 : 65536;
		client.samples = realloc(client.samples,
					 client.sample_size * sizeof(*client.samples));
		if (!client.samples)
			err(1, "realloc");
	}
	client.samples[client.sample_count++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double quantile_us(double q)
{
	if (client.sample_count == 0)
		return 0;
	return (double)client.samples[(size_t)(q * (double)(client.sample_count - 1))] / 1000;
}

static void print_samples(const char *what, double seconds)
{
	qsort(client.samples, client.sample_count, sizeof(*client.samples), compare);
	printf("{\"%s\": %zu, \"seconds\": %.6f, \"errors\": %zu, \"p50_us\": %.2f, "
	       "\"p99_us\": %.2f}\n",
	       what, client.sample_count, seconds, client.errors, quantile_us(0.5),
	       quantile_us(0.99));
	fflush(stdout);
}

/* What an SDK sends, and two things that a proxy must replace. */
static void make_request(const char *path, size_t body_len, bool is_stream)
{
	static const char after[] = "\"}]}";
	char before[128];
	size_t before_len, fill, head_len;

	before_len = (size_t)snprintf(before, sizeof(before),
				      "{\"model\":\"bench\",\"stream\":%s,\"messages\":"
				      "[{\"role\":\"user\",\"content\":\"",
				      is_stream ? "true" : "false");
	fill = before_len + sizeof(after) - 1;
	fill = body_len > fill ? body_len - fill : 0;
	client.request = malloc(2048 + fill);
	if (!client.request)
		err(1, "malloc");
	head_len = (size_t)sprintf(
		client.request,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: application/json\r\n"
		"Accept-Encoding: identity\r\nContent-Type: application/json\r\n"
		"User-Agent: OpenAI/Python 1.54.0\r\nX-Stainless-Lang: python\r\n"
		"X-Stainless-Package-Version: 1.54.0\r\nX-Stainless-OS: Linux\r\n"
		"X-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
		"X-Stainless-Runtime-Version: 3.11.2\r\nX-Stainless-Async: false\r\n"
		"Authorization: Bearer agent-has-no-key\r\nx-litellm-end-user-id: somebody\r\n"
		"x-stainless-retry-count: 0\r\nContent-Length: %zu\r\n\r\n%s",
		path, before_len + fill + sizeof(after) - 1, before);
	memset(client.request + head_len, 'a', fill);
	memcpy(client.request + head_len + fill, after, sizeof(after) - 1);
	client.request_len = head_len + fill + sizeof(after) - 1;
}

/* Edge-triggered, so that a request costs no change of interest. */
static void open_connection(struct connection *connection)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = connection };

	connection->fd = connect_to(client.target);
	if (connection->fd < 0)
		err(1, "connect to %s", client.target);
	if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) < 0 ||
	    epoll_ctl(client.epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
		err(1, "epoll_ctl");
	connection->sent = 0;
	connection->began_ns = clock_now_ns();
}

/* As much as there is room for; false: the connection is gone. */
static bool send_more(struct connection *connection)
{
	while (connection->sent < client.request_len) {
		ssize_t n = send(connection->fd, client.request + connection->sent,
				 client.request_len - connection->sent, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN;
		connection->sent += (size_t)n;
	}
	return true;
}

/* ---- requests ---- */

static void reopen(struct connection *connection)
{
	close(connection->fd);
	open_connection(connection);
	message_begin(&connection->reply);
}

static void send_next(struct connection *connection)
{
	connection->sent = 0;
	connection->began_ns = clock_now_ns();
	message_begin(&connection->reply);
	if (!send_more(connection)) {
		client.errors++;
		reopen(connection);
	}
}

static void on_reply(struct connection *connection)
{
	const char *head = connection->reply.head;

	if (strncmp(head, "HTTP/1.1 200 ", 13) == 0)
		add_sample(clock_now_ns() - connection->began_ns);
	else
		client.errors++;
	if (strcasestr(head, "\r\nconnection: close"))
		reopen(connection);
	else
		send_next(connection);
}

static void on_request_event(struct connection *connection, unsigned int events)
{
	if ((events & EPOLLOUT) && !send_more(connection)) {
		client.errors++;
		reopen(connection);
		return;
	}
	for (;;) {
		ssize_t n = recv(connection->fd, data, sizeof(data), 0);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || message_push(&connection->reply, data, (size_t)n) == MESSAGE_BROKEN) {
			client.errors++;
			reopen(connection);
			return;
		}
		if (connection->reply.state == MESSAGE_DONE) {
			on_reply(connection);
			return;
		}
	}
}

static void run_requests(size_t count, double seconds, size_t body_len)
{
	struct epoll_event events[256];
	uint64_t start = clock_now_ns(), now = start;
	uint64_t end = start + (uint64_t)(seconds * (double)SECOND_NS);

	make_request("/v1/chat/completions", body_len, false);
	for (size_t i = 0; i < count; i++)
		open_connection(&client.connections[i]);
	while (now < end) {
		int n = epoll_wait(client.epoll_fd, events, 256, 100);

		for (int i = 0; i < n; i++)
			on_request_event(events[i].data.ptr, events[i].events);
		now = clock_now_ns();
	}
	print_samples("requests", (double)(now - start) / (double)SECOND_NS);
}

/* ---- streams ---- */

static void on_event_time(struct connection *stream, uint64_t now)
{
	if (!stream->is_open) {
		stream->is_open = true;
		client.opened++;
		client.waiting--;
	}
	if (client.is_held)
		add_sample(now - stream->sent_ns);
}

/* Byte by byte, as an event may come in any pieces. */
static void scan(struct connection *stream, size_t len, uint64_t now)
{
	static const char mark[] = "\"sent_ns\":";

	for (size_t i = 0; i < len; i++) {
		char c = data[i];

		if (stream->matched == sizeof(mark) - 1) {
			if (c >= '0' && c <= '9') {
				stream->sent_ns = stream->sent_ns * 10 + (uint64_t)(c - '0');
				continue;
			}
			if (c == '}')
				on_event_time(stream, now);
			else
				client.errors++; /* a chunk's end in the middle of a number */
			stream->matched = 0;
			stream->sent_ns = 0;
		} else {
			stream->matched = c == mark[stream->matched] ? stream->matched + 1
								     : (c == mark[0] ? 1 : 0);
		}
	}
}

static void lose(struct connection *stream)
{
	if (stream->is_open) {
		client.errors++;
	} else {
		client.failed++;
		client.waiting--;
	}
	close(stream->fd);
	stream->fd = -1;
}

static void on_stream_event(struct connection *stream, unsigned int events)
{
	if ((events & EPOLLOUT) && !send_more(stream)) {
		lose(stream);
		return;
	}
	for (;;) {
		ssize_t n = recv(stream->fd, data, sizeof(data), 0);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			lose(stream);
			return;
		}
		scan(stream, (size_t)n, clock_now_ns());
		if ((size_t)n < sizeof(data) && !(events & EPOLLRDHUP))
			return; /* what comes now is a new edge */
	}
}

static void turn(int wait_ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(client.epoll_fd, events, 256, wait_ms);

	for (int i = 0; i < n; i++)
		on_stream_event(events[i].data.ptr, events[i].events);
}

static void open_streams(size_t count)
{
	uint64_t progress = clock_now_ns();
	size_t begun = 0, last = 0;

	while (client.opened + client.failed < count && clock_now_ns() - progress < STALL_NS) {
		while (begun < count && client.waiting < AT_ONCE) {
			open_connection(&client.connections[begun++]);
			client.waiting++;
		}
		turn(100);
		if (client.opened != last)
			progress = clock_now_ns();
		last = client.opened;
	}
}

static void run_streams(size_t count, double seconds)
{
	uint64_t start, now;
	char byte;

	make_request(STREAM_PATH, 0, true);
	start = clock_now_ns();
	open_streams(count);
	printf("{\"opened\": %zu, \"failed\": %zu, \"seconds\": %.6f}\n", client.opened,
	       count - client.opened, (double)(clock_now_ns() - start) / (double)SECOND_NS);
	fflush(stdout);
	client.is_held = true;
	start = now = clock_now_ns();
	while ((double)(now - start) < seconds * (double)SECOND_NS) {
		turn(10);
		now = clock_now_ns();
	}
	print_samples("events", (double)(now - start) / (double)SECOND_NS);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		err(1, "stdin");
}

int main(int argc, char **argv)
{
	bool is_requests = argc == 6 && strcmp(argv[1], "requests") == 0;

	if (!is_requests && !(argc == 5 && strcmp(argv[1], "streams") == 0))
		errx(2, "usage: client requests TARGET CONNECTIONS SECONDS BODY_BYTES\n"
			"       client streams TARGET STREAMS SECONDS");
	client.target = argv[2];
	client.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	client.connections = calloc((size_t)atol(argv[3]), sizeof(*client.connections));
	if (!client.connections)
		err(1, "calloc");
	if (is_requests)
		run_requests((size_t)atol(argv[3]), atof(argv[4]), (size_t)atol(argv[5]));
	else
		run_streams((size_t)atol(argv[3]), atof(argv[4]));
	return 0;
}
