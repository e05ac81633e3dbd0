/* SPDX-License-Identifier: MIT */
/*
 * The agents of a benchmark, against tcp:ADDRESS:PORT, unix:PATH or tls:HOST:PORT[/NAME]. Prints
 * JSON.
 *
 * client requests TARGET CONNECTIONS SECONDS BODY_BYTES [PATH [TOKENS]]
 *	each connection sends its next request when the reply to the last one is complete; with
 *	a file of run tokens, a line each and all of one length, with the next one of them
 * client handshakes TARGET SECONDS NAMES full|resumed
 *	one handshake after the other, with so many names in turn (1: the target's own)
 * client streams TARGET STREAMS SECONDS
 *	opens the streams, a few at a time, says so, and takes the age of each event for so
 *	long
 *
 * Requests and handshakes say when all is ready, and begin when a line comes in, or the end of
 * the input; afterwards everything stays as it is until the input ends, to be looked at. The key
 * that is sent is the variable BENCH_KEY.
 */
#include "message.h"
#include "samples.h"
#include "tokens.h"
#include "wire.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
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
	struct wire wire;
	char *request; /* its own where there are tokens, or everybody's */
	size_t sent;
	uint64_t began_ns;
	size_t matched;       /* streams: how much of the mark before the time was seen */
	uint64_t sent_ns;     /* streams: the digits of the time so far */
	bool is_open;         /* streams: the first event was seen */
	struct message reply; /* requests; last, so that streams never touch it */
};

static struct {
	struct wire_target target;
	int epoll_fd;
	struct connection *connections;
	char *request;
	size_t request_len;
	struct tokens tokens; /* or none */
	size_t token_at;      /* where in a request one is */
	struct samples samples;
	/* requests: before it begins, every connection has had a reply, and waits */
	size_t ready;
	bool has_begun;
	/* streams */
	size_t opened, failed, waiting;
	bool is_held;
} client;

static char data[READ_SIZE];

/* ---- what both do ---- */

/* What an SDK sends, and two things that a proxy must replace. */
static void make_request(const char *path, size_t body_len, bool is_stream)
{
	static const char after[] = "\"}]}";
	const char *key = getenv("BENCH_KEY");
	char before[128];
	size_t before_len, fill, head_len;
	int token_len = (int)client.tokens.len;

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
		"POST %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n"
		"Accept-Encoding: identity\r\nContent-Type: application/json\r\n"
		"User-Agent: OpenAI/Python 1.54.0\r\nX-Stainless-Lang: python\r\n"
		"X-Stainless-Package-Version: 1.54.0\r\nX-Stainless-OS: Linux\r\n"
		"X-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
		"X-Stainless-Runtime-Version: 3.11.2\r\nX-Stainless-Async: false\r\n"
		"%s%.*s%sAuthorization: Bearer %.512s\r\nx-litellm-end-user-id: somebody\r\n"
		"x-stainless-retry-count: 0\r\nContent-Length: %zu\r\n\r\n%s",
		path, client.target.name, token_len ? "X-Run-Token: " : "", token_len,
		token_len ? client.tokens.text : "", token_len ? "\r\n" : "",
		key ? key : "agent-has-no-key", before_len + fill + sizeof(after) - 1, before);
	memset(client.request + head_len, 'a', fill);
	memcpy(client.request + head_len + fill, after, sizeof(after) - 1);
	client.request_len = head_len + fill + sizeof(after) - 1;
	if (token_len)
		client.token_at = (size_t)(strstr(client.request, "X-Run-Token: ") + 13 -
					   client.request);
}

/* With tokens, each connection has a request of its own. */
static void give_requests(size_t count)
{
	size_t step = client.tokens.len > 0 ? client.request_len : 0;

	if (step > 0) {
		client.request = realloc(client.request, count * step);
		if (!client.request)
			err(1, "realloc");
	}
	for (size_t i = 0; i < count; i++) {
		client.connections[i].request = client.request + i * step;
		if (i > 0 && step > 0)
			memcpy(client.request + i * step, client.request, step);
	}
}

/* The next token has its turn. */
static void set_token(const struct connection *connection)
{
	if (client.tokens.len > 0)
		memcpy(connection->request + client.token_at, tokens_next(&client.tokens),
		       client.tokens.len);
}

/* Edge-triggered, so that a request costs no change of interest. */
static void open_connection(struct connection *connection)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = connection };

	if (wire_open(&connection->wire, &client.target, NULL) < 0)
		err(1, "connect to %s", client.target.name);
	if (fcntl(connection->wire.fd, F_SETFL, O_NONBLOCK) < 0 ||
	    epoll_ctl(client.epoll_fd, EPOLL_CTL_ADD, connection->wire.fd, &event) < 0)
		err(1, "epoll_ctl");
	set_token(connection);
	connection->sent = 0;
	connection->began_ns = clock_now_ns();
}

/* As much as there is room for; false: the connection is gone. */
static bool send_more(struct connection *connection)
{
	while (connection->sent < client.request_len) {
		ssize_t n = wire_send(&connection->wire, connection->request + connection->sent,
				      client.request_len - connection->sent);

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		connection->sent += (size_t)n;
	}
	return true;
}

/* ---- requests ---- */

static void reopen(struct connection *connection)
{
	wire_close(&connection->wire);
	open_connection(connection);
	message_begin(&connection->reply);
}

static void send_next(struct connection *connection)
{
	set_token(connection);
	connection->sent = 0;
	connection->began_ns = clock_now_ns();
	message_begin(&connection->reply);
	if (!send_more(connection)) {
		client.samples.errors++;
		reopen(connection);
	}
}

static void on_reply(struct connection *connection)
{
	const char *head = connection->reply.head;

	if (!client.has_begun)
		client.ready++;
	if (strncmp(head, "HTTP/1.1 200 ", 13) == 0)
		samples_add(&client.samples, clock_now_ns() - connection->began_ns);
	else
		client.samples.errors++;
	if (strcasestr(head, "\r\nconnection: close"))
		reopen(connection);
	else if (client.has_begun)
		send_next(connection);
}

static void on_request_event(struct connection *connection, unsigned int events)
{
	if ((events & EPOLLOUT) && !send_more(connection)) {
		client.samples.errors++;
		reopen(connection);
		return;
	}
	for (;;) {
		ssize_t n = wire_recv(&connection->wire, data, sizeof(data));

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || message_push(&connection->reply, data, (size_t)n) == MESSAGE_BROKEN) {
			client.samples.errors++;
			reopen(connection);
			return;
		}
		if (connection->reply.state == MESSAGE_DONE) {
			on_reply(connection);
			return;
		}
	}
}

static void request_turn(void)
{
	struct epoll_event events[256];
	int n = epoll_wait(client.epoll_fd, events, 256, 100);

	for (int i = 0; i < n; i++)
		on_request_event(events[i].data.ptr, events[i].events);
}

/* A reply for each connection: the proxy has its own connections then, too. */
static void open_all(size_t count)
{
	uint64_t start = clock_now_ns();

	for (size_t i = 0; i < count; i++)
		open_connection(&client.connections[i]);
	while (client.ready < count && clock_now_ns() - start < STALL_NS)
		request_turn();
	if (client.ready < count || client.samples.errors)
		errx(1, "%zu of %zu connections had a reply, %zu errors", client.ready, count,
		     client.samples.errors);
}

static void run_requests(size_t count, double seconds, size_t body_len, const char *path)
{
	uint64_t start, now, end;

	make_request(path, body_len, false);
	give_requests(count);
	open_all(count);
	wait_to_begin();
	client.has_begun = true;
	client.samples.count = 0;
	start = now = clock_now_ns();
	end = start + (uint64_t)(seconds * (double)SECOND_NS);
	for (size_t i = 0; i < count; i++)
		send_next(&client.connections[i]);
	while (now < end) {
		request_turn();
		now = clock_now_ns();
	}
	samples_print(&client.samples, "requests", (double)(now - start) / (double)SECOND_NS);
	wait_for_input();
}

/* ---- handshakes ---- */

static void shake_hands(const struct wire_target *target, SSL_SESSION *session)
{
	/* OpenSSL takes up a session of TLS 1.3 only once. */
	SSL_SESSION *copy = session ? SSL_SESSION_dup(session) : NULL;
	uint64_t start = clock_now_ns();
	struct wire wire;

	if (wire_open(&wire, target, copy) < 0) {
		warn("%s", target->name);
		client.samples.errors++;
	} else {
		samples_add(&client.samples, clock_now_ns() - start);
		if (session && !SSL_session_reused(wire.ssl))
			client.samples.errors++;
		wire_close(&wire);
	}
	SSL_SESSION_free(copy);
}

static SSL_SESSION *get_session(const struct wire_target *target)
{
	SSL_SESSION *session;
	struct wire wire;

	if (wire_open(&wire, target, NULL) < 0)
		err(1, "connect to %s", target->name);
	session = wire_take_session(&wire);
	if (!session)
		errx(1, "%s gives no tickets", target->name);
	wire_close(&wire);
	return session;
}

static void run_handshakes(const char *text, double seconds, size_t name_count, bool is_resumed)
{
	struct wire_target *targets = calloc(name_count, sizeof(*targets));
	SSL_SESSION *session = NULL;
	uint64_t start, now;

	if (!targets)
		err(1, "calloc");
	for (size_t i = 0; i < name_count; i++) {
		char label[32] = "";

		if (name_count > 1)
			snprintf(label, sizeof(label), "name-%zu", i);
		wire_find(text, label, &targets[i]);
	}
	if (is_resumed)
		session = get_session(&targets[0]);
	wait_to_begin();
	start = now = clock_now_ns();
	for (size_t i = 0; (double)(now - start) < seconds * (double)SECOND_NS; i++) {
		shake_hands(&targets[i % name_count], session);
		now = clock_now_ns();
	}
	samples_print(&client.samples, "handshakes", (double)(now - start) / (double)SECOND_NS);
	wait_for_input();
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
		samples_add(&client.samples, now - stream->sent_ns);
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
				client.samples
					.errors++; /* a chunk's end in the middle of a number */
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
		client.samples.errors++;
	} else {
		client.failed++;
		client.waiting--;
	}
	wire_close(&stream->wire);
}

static void on_stream_event(struct connection *stream, unsigned int events)
{
	if ((events & EPOLLOUT) && !send_more(stream)) {
		lose(stream);
		return;
	}
	for (;;) {
		ssize_t n = wire_recv(&stream->wire, data, sizeof(data));

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

	make_request(STREAM_PATH, 0, true);
	give_requests(count);
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
	samples_print(&client.samples, "events", (double)(now - start) / (double)SECOND_NS);
	wait_for_input();
}

static void make_connections(size_t count)
{
	client.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	client.connections = calloc(count, sizeof(*client.connections));
	if (!client.connections)
		err(1, "calloc");
}

static void start_requests(int argc, char **argv)
{
	size_t count = (size_t)atol(argv[3]);

	wire_find(argv[2], "", &client.target);
	make_connections(count);
	if (argc > 7)
		tokens_read(&client.tokens, argv[7]);
	run_requests(count, atof(argv[4]), (size_t)atol(argv[5]),
		     argc > 6 ? argv[6] : "/v1/chat/completions");
}

static void start_handshakes(int argc, char **argv)
{
	(void)argc;
	run_handshakes(argv[2], atof(argv[3]), (size_t)atol(argv[4]),
		       strcmp(argv[5], "resumed") == 0);
}

static void start_streams(int argc, char **argv)
{
	size_t count = (size_t)atol(argv[3]);

	(void)argc;
	wire_find(argv[2], "", &client.target);
	make_connections(count);
	run_streams(count, atof(argv[4]));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int argc_min, argc_max;
		void (*start)(int argc, char **argv);
	} verbs[] = {
		{ "requests", 6, 8, start_requests },
		{ "handshakes", 6, 6, start_handshakes },
		{ "streams", 5, 5, start_streams },
	};

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (argc >= verbs[i].argc_min && argc <= verbs[i].argc_max &&
		    strcmp(argv[1], verbs[i].name) == 0) {
			verbs[i].start(argc, argv);
			return 0;
		}
	errx(2, "usage: client requests TARGET CONNECTIONS SECONDS BODY_BYTES [PATH [TOKENS]]\n"
		"       client handshakes TARGET SECONDS NAMES full|resumed\n"
		"       client streams TARGET STREAMS SECONDS");
}
