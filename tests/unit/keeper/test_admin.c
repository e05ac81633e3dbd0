/* SPDX-License-Identifier: MIT */
/* The admin endpoint on real sockets, with clients that do as they please. */
#include "unit.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/admin.h"
#include "keeper/metrics.h"

#define MANY       1000
#define CLIENT_MAX ((size_t)1 << 20)

static struct loop loop;
static struct admin admin;
static union {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_in in;
} address;
static socklen_t address_len;

/* ---- the keeper behind it ---- */

static struct keeper {
	size_t metrics_len; /* of a text of our own; 0: real ones */
	bool is_ready;
	const char *store_fault;
	int asked;
} keeper;

static void give_metrics(void *owner, struct buf *out)
{
	struct metrics metrics = { .runs = 42 };

	assert_ptr_equal(owner, &keeper);
	keeper.asked++;
	if (keeper.metrics_len == 0)
		metrics_format(&metrics, out);
	for (size_t i = 0; i < keeper.metrics_len; i++)
		buf_add(out, "m", 1);
}

static bool give_readiness(void *owner, struct json *reasons)
{
	assert_ptr_equal(owner, &keeper);
	if (!keeper.is_ready && keeper.store_fault)
		json_text(reasons, "store", keeper.store_fault);
	if (!keeper.is_ready)
		json_text(reasons, "draining", "no new runs are taken");
	return keeper.is_ready;
}

/* ---- set-up ---- */

static int start(int domain)
{
	static const struct admin_source source = { &keeper, give_metrics, give_readiness };
	int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(&address, 0, sizeof(address));
	keeper = (struct keeper){ .is_ready = true };
	address.any.sa_family = (sa_family_t)domain;
	address_len = domain == AF_UNIX ? sizeof(sa_family_t) : sizeof(address.in);
	if (domain == AF_INET)
		address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, &address.any, address_len) < 0 || listen(fd, 4096) < 0)
		return -1;
	address_len = sizeof(address);
	if (getsockname(fd, &address.any, &address_len) < 0 || loop_init(&loop) < 0)
		return -1;
	return admin_open(&admin, &loop, &source, fd);
}

static int start_unix(void **state)
{
	(void)state;
	return start(AF_UNIX);
}

static int start_tcp(void **state)
{
	(void)state;
	return start(AF_INET);
}

static int stop(void **state)
{
	(void)state;
	admin_close(&admin);
	admin_close(&admin); /* twice does no harm */
	for (size_t i = 0; i < ADMIN_CONNECTIONS_MAX; i++)
		if (admin.connections[i].state != ADMIN_FREE)
			return -1;
	loop_fini(&loop);
	return 0;
}

/* ---- clients ---- */

struct client {
	int fd;
	struct buf in;
	bool has_ended; /* the other side has closed */
};

static void connect_client(struct client *client)
{
	*client = (struct client){ .fd = socket(address.any.sa_family,
						SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
	buf_init(&client->in, CLIENT_MAX);
	assert_true(client->fd >= 0);
	assert_true(connect(client->fd, &address.any, address_len) == 0 || errno == EINPROGRESS);
}

static void close_client(struct client *client)
{
	close_fd(&client->fd);
	buf_fini(&client->in);
}

static void turn(void)
{
	assert_int_equal(loop_turn(&loop, 0), 0);
}

static void put(struct client *client, const char *bytes, size_t len)
{
	for (int tries = 0; len > 0; tries++) {
		ssize_t n = send(client->fd, bytes, len, MSG_NOSIGNAL);

		assert_true(tries < 10000);
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			turn();
			continue;
		}
		bytes += n;
		len -= (size_t)n;
	}
}

static void say(struct client *client, const char *text)
{
	put(client, text, strlen(text));
}

/* Reads what there is. */
static void listen_to(struct client *client)
{
	char bytes[65536];
	ssize_t n;

	while ((n = recv(client->fd, bytes, sizeof(bytes), 0)) > 0)
		buf_add(&client->in, bytes, (size_t)n);
	if (n == 0 || (errno != EAGAIN && errno != ENOTCONN))
		client->has_ended = true;
}

/* Turns until nothing happens any more. */
static void settle(struct client *client)
{
	for (int quiet = 0, i = 0; quiet < 5 && i < 10000; i++, quiet++) {
		size_t before = client->in.len;

		turn();
		if (!client->has_ended)
			listen_to(client);
		if (client->in.len != before)
			quiet = 0;
	}
}

static const char *text_of(const struct client *client)
{
	return client->in.len ? client->in.data : "";
}

static size_t count(const char *in, const char *word)
{
	size_t found = 0;

	for (; (in = strstr(in, word)); in++)
		found++;
	return found;
}

static void has(const struct client *client, const char *words)
{
	if (!strstr(text_of(client), words))
		fail_msg("'%s' is not in:\n%s", words, text_of(client));
}

/* One request on a connection of its own; what it brought is in *ret_client. */
static void ask(const char *request, struct client *ret_client)
{
	connect_client(ret_client);
	say(ret_client, request);
	settle(ret_client);
}

static void brings(const char *request, const char *beginning, const char *end)
{
	struct client client;
	size_t len;

	ask(request, &client);
	len = client.in.len;
	if (len < strlen(end) || strncmp(text_of(&client), beginning, strlen(beginning)) != 0 ||
	    strcmp(text_of(&client) + len - strlen(end), end) != 0)
		fail_msg("%s brought %s", request, text_of(&client));
	close_client(&client);
	turn();
}

#define HOST "Host: x\r\n"
#define LAST HOST "Connection: close\r\n\r\n"

static size_t count_state(enum admin_state state)
{
	size_t found = 0;

	for (size_t i = 0; i < ADMIN_CONNECTIONS_MAX; i++)
		found += admin.connections[i].state == state;
	return found;
}

/* The one connection that there is. */
static struct admin_connection *the_connection(void)
{
	struct admin_connection *found = NULL;

	for (size_t i = 0; i < ADMIN_CONNECTIONS_MAX; i++)
		if (admin.connections[i].state != ADMIN_FREE) {
			assert_null(found);
			found = &admin.connections[i];
		}
	assert_non_null(found);
	return found;
}

/* As if the time of its state were over. */
static void let_time_pass(struct admin_connection *connection)
{
	loop_set_timer(&loop, &connection->timer, 1);
	turn();
}

/* ---- what is answered ---- */

static void pages_are_served(void **state)
{
	struct client client;

	(void)state;
	ask("GET /metrics HTTP/1.1\r\n" HOST "\r\n", &client);
	has(&client, "HTTP/1.1 200 OK\r\n");
	has(&client, "content-type: text/plain; version=0.0.4; charset=utf-8\r\n");
	has(&client, "cache-control: no-store\r\n");
	has(&client, "\nwarder_runs 42\n");
	assert_false(client.has_ended);
	close_client(&client);
	brings("GET /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	       "content-length: 15\r\n\r\n{\"status\":\"ok\"}");
	brings("GET /readyz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	       "\r\n\r\n{\"status\":\"ready\"}");
	brings("GET /readyz?verbose=1 HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	       "{\"status\":\"ready\"}");
	brings("GET http://x/healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	       "{\"status\":\"ok\"}");
}

static void who_is_not_ready_says_why(void **state)
{
	char *fault = malloc(20000);

	(void)state;
	assert_non_null(fault);
	keeper.is_ready = false;
	brings("GET /readyz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 Service Unavailable\r\n",
	       "{\"status\":\"not_ready\",\"reasons\":{\"draining\":\"no new runs are taken\"}}");
	keeper.store_fault = "no \"route\"\n";
	brings("GET /readyz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 Service Unavailable\r\n",
	       "\"reasons\":{\"store\":\"no \\\"route\\\"\\n\",\"draining\":\"no new runs are "
	       "taken\"}}");
	brings("GET /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n",
	       "{\"status\":\"ok\"}");
	memset(fault, '\x01', 20000);
	fault[19999] = '\0';
	keeper.store_fault = fault; /* still JSON */
	brings("GET /readyz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 Service Unavailable\r\n",
	       "\r\n\r\n{\"status\":\"not_ready\"}");
	free(fault);
}

static void everything_else_is_refused(void **state)
{
	static const struct {
		const char *request, *beginning, *end;
	} rows[] = {
		{ "GET / HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 Not Found\r\n", "}}" },
		{ "GET /metrics/ HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}" },
		{ "GET /METRICS HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}" },
		{ "GET /%6detrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}" },
		{ "GET //metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}" },
		{ "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 ", "}}" },
		{ "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", "HTTP/1.1 404 ", "}}" },
		{ "POST /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
		  "{\"error\":{\"code\":\"method_not_allowed\",\"message\":\"this can only be "
		  "read\"}}" },
		{ "DELETE /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "}}" },
		{ "get /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "}}" },
		{ "TRACE /healthz HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 ", "}}" },
		{ "GET /metrics HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx",
		  "HTTP/1.1 413 Content Too Large\r\n", "}}" },
		{ "GET /metrics HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  "HTTP/1.1 413 ", "}}" },
		{ "GET /metrics HTTP/2.0\r\n" HOST "\r\n", "HTTP/1.1 505 ", "}}" },
		{ "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", "}}" },
		{ "GET /metrics\r\n\r\n", "HTTP/1.1 ", "}}" },
		{ "GET /metrics HTTP/1.1\nHost: x\n\n", "HTTP/1.1 400 ", "}}" },
		{ "GET /metrics HTTP/1.1\r\n" HOST " folded\r\n\r\n", "HTTP/1.1 400 ", "}}" },
		{ "GET /metrics HTTP/1.1\r\n" HOST "A : b\r\n\r\n", "HTTP/1.1 400 ", "}}" },
		{ "\x16\x03\x01\x02\x01\r\n\r\n", "HTTP/1.1 400 ", "}}" },
		{ "\r\n\r\n\r\n\r\n", "HTTP/1.1 400 ", "}}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		brings(rows[i].request, rows[i].beginning, rows[i].end);
	assert_int_equal(keeper.asked, 0);
	/* The control: the same on another connection, done right. */
	brings("GET /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 ", "\n");
	assert_int_equal(keeper.asked, 1);
}

static void a_wrong_method_names_the_right_ones(void **state)
{
	struct client client;

	(void)state;
	ask("PUT /readyz HTTP/1.1\r\n" HOST "\r\n", &client);
	has(&client, "allow: GET, HEAD\r\n");
	close_client(&client);
}

static void head_has_the_length_and_no_body(void **state)
{
	struct client get, head;
	const char *end;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		static const char *const paths[] = { "/metrics", "/healthz", "/nothing" };
		char request[64];

		snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
		ask(request, &get);
		snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
		ask(request, &head);
		end = strstr(text_of(&get), "\r\n\r\n");
		assert_non_null(end);
		assert_true(end[4] != '\0');
		assert_int_equal(head.in.len, (size_t)(end + 4 - text_of(&get)));
		assert_memory_equal(head.in.data, get.in.data, head.in.len);
		close_client(&get);
		close_client(&head);
		turn();
	}
}

/* ---- connections ---- */

static void a_connection_is_kept(void **state)
{
	struct client client;

	(void)state;
	connect_client(&client);
	for (int i = 0; i < 50; i++) {
		client.in.len = 0;
		say(&client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
		settle(&client);
		has(&client, "{\"status\":\"ok\"}");
		assert_null(strstr(text_of(&client), "connection: close"));
		assert_false(client.has_ended);
		assert_int_equal(the_connection()->state, ADMIN_IDLE);
	}
	client.in.len = 0;
	say(&client, "GET /healthz HTTP/1.1\r\n" LAST);
	settle(&client);
	has(&client, "connection: close\r\n");
	has(&client, "{\"status\":\"ok\"}");
	assert_true(client.has_ended);
	close_client(&client);
	turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
}

static void http_1_0_ends_unless_it_asks(void **state)
{
	struct client client;

	(void)state;
	ask("GET /healthz HTTP/1.0\r\n\r\n", &client);
	has(&client, "{\"status\":\"ok\"}");
	assert_true(client.has_ended);
	close_client(&client);
	ask("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &client);
	has(&client, "connection: keep-alive\r\n");
	assert_false(client.has_ended);
	close_client(&client);
}

/* Also by half a close: who has said all still hears the answer. */
static void half_a_close_is_answered(void **state)
{
	struct client client;

	(void)state;
	connect_client(&client);
	say(&client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
	shutdown(client.fd, SHUT_WR);
	settle(&client);
	has(&client, "{\"status\":\"ok\"}");
	assert_true(client.has_ended);
	close_client(&client);
	turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
}

static void a_request_may_come_byte_by_byte(void **state)
{
	static const char request[] = "GET /readyz HTTP/1.1\r\n" HOST "X: y\r\n\r\n";
	struct client client;

	(void)state;
	connect_client(&client);
	for (int round = 0; round < 2; round++) {
		client.in.len = 0;
		for (size_t i = 0; i < sizeof(request) - 1; i++) {
			assert_int_equal(client.in.len, 0);
			put(&client, request + i, 1);
			turn();
			turn();
			listen_to(&client);
		}
		settle(&client);
		has(&client, "{\"status\":\"ready\"}");
	}
	close_client(&client);
}

static void a_request_may_be_split_anywhere(void **state)
{
	static const char request[] = "GET /healthz HTTP/1.1\r\n" HOST
				      "\r\nHEAD /metrics HTTP/1.1\r\n" HOST
				      "\r\nGET /readyz HTTP/1.1\r\n" LAST;

	(void)state;
	for (size_t at = 1; at < sizeof(request) - 1; at++) {
		struct client client;

		connect_client(&client);
		put(&client, request, at);
		for (int i = 0; i < 4; i++)
			turn();
		put(&client, request + at, sizeof(request) - 1 - at);
		settle(&client);
		assert_int_equal(count(text_of(&client), "HTTP/1.1 200 OK\r\n"), 3);
		has(&client, "{\"status\":\"ready\"}");
		assert_true(client.has_ended);
		close_client(&client);
	}
}

/* Requests that were sent ahead are answered in their order, one in a turn. */
static void pipelined_requests_are_answered_in_turn(void **state)
{
	struct client client;
	char requests[8192];
	size_t len = 0, most = 0;

	(void)state;
	for (int i = 0; i < 60; i++)
		len += (size_t)snprintf(requests + len, sizeof(requests) - len,
					"GET /%s HTTP/1.1\r\n" HOST "\r\n",
					i % 2 ? "healthz" : "nothing");
	connect_client(&client);
	put(&client, requests, len);
	for (int i = 0; i < 200; i++) {
		size_t before = client.in.len ? count(text_of(&client), "HTTP/1.1 ") : 0, more;

		turn();
		listen_to(&client);
		more = (client.in.len ? count(text_of(&client), "HTTP/1.1 ") : 0) - before;
		most = more > most ? more : most;
	}
	assert_int_equal(most, 1);
	assert_int_equal(count(text_of(&client), "HTTP/1.1 200 "), 30);
	assert_int_equal(count(text_of(&client), "HTTP/1.1 404 "), 30);
	assert_memory_equal(client.in.data, "HTTP/1.1 404 ", 13);
	assert_int_equal(the_connection()->state, ADMIN_IDLE);
	close_client(&client);
}

/* What follows a refusal is nobody's request. */
static void nothing_is_read_after_a_refusal(void **state)
{
	struct client client;

	(void)state;
	ask("GET /metrics HTTP/1.1\r\n" HOST
	    "Content-Length: 40\r\n\r\nGET /metrics HTTP/1.1\r\n" HOST "\r\n",
	    &client);
	assert_int_equal(count(text_of(&client), "HTTP/1.1 "), 1);
	has(&client, "HTTP/1.1 413 ");
	has(&client, "connection: close\r\n");
	assert_true(client.has_ended);
	assert_int_equal(keeper.asked, 0);
	close_client(&client);
}

/* A large body: the client hears the refusal, though it is still sending. */
static void a_refusal_is_heard_in_the_middle_of_a_body(void **state)
{
	static char body[50000];
	struct client client;

	(void)state;
	connect_client(&client);
	say(&client, "POST /metrics HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n");
	turn();
	turn();
	put(&client, body, sizeof(body));
	settle(&client);
	has(&client, "HTTP/1.1 413 ");
	assert_int_equal(the_connection()->state, ADMIN_LINGER);
	put(&client, body, sizeof(body)); /* more than is thrown away */
	for (int i = 0; i < 100 && count_state(ADMIN_FREE) < ADMIN_CONNECTIONS_MAX; i++)
		turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
	close_client(&client);
}

/* ---- limits (INV-BOUNDED) ---- */

static void a_head_has_its_limit(void **state)
{
	static char request[ADMIN_HEAD_MAX + 2];
	static const char start_line[] = "GET /healthz HTTP/1.1\r\n" HOST "X: ";
	struct client client;

	(void)state;
	/* The control: one byte less than too much. */
	for (size_t len = ADMIN_HEAD_MAX - 1; len <= ADMIN_HEAD_MAX + 1; len++) {
		memset(request, 'x', sizeof(request));
		memcpy(request, start_line, sizeof(start_line) - 1);
		memcpy(request + len - 4, "\r\n\r\n", 5);
		for (size_t piece = 1; piece <= len; piece += len - 1) {
			connect_client(&client);
			for (size_t at = 0; at < len && !client.has_ended; at += piece) {
				put(&client, request + at, len - at < piece ? len - at : piece);
				turn();
				turn();
			}
			settle(&client);
			has(&client, len <= ADMIN_HEAD_MAX ? "HTTP/1.1 200 " : "HTTP/1.1 431 ");
			assert_int_equal(client.has_ended, len > ADMIN_HEAD_MAX);
			close_client(&client);
			turn();
		}
	}
	connect_client(&client); /* many small fields */
	say(&client, "GET /healthz HTTP/1.1\r\n" HOST);
	for (int i = 0; i < 200; i++)
		say(&client, "a:b\r\n");
	say(&client, "\r\n");
	settle(&client);
	has(&client, "HTTP/1.1 431 ");
	close_client(&client);
}

static void who_asks_slowly_runs_out_of_time(void **state)
{
	struct client client;
	uint64_t due_ms;

	(void)state;
	connect_client(&client);
	turn();
	say(&client, "GET ");
	settle(&client);
	assert_int_equal(the_connection()->state, ADMIN_HEAD);
	due_ms = the_connection()->timer.due_ms;
	assert_true(due_ms <= clock_now_ms() + 5000 && due_ms + 1000 > clock_now_ms());
	usleep(5000);
	say(&client, "/healthz");
	settle(&client);
	assert_int_equal(the_connection()->timer.due_ms, due_ms); /* more bytes are not more time */
	let_time_pass(the_connection());
	settle(&client);
	assert_true(client.has_ended);
	assert_int_equal(client.in.len, 0);
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
	close_client(&client);
}

/* Asks again and again and reads nothing: what is held for it has a limit, and so has its time. */
static void who_reads_slowly_runs_out_of_time(void **state)
{
	struct client client;
	int small = 4096;

	(void)state;
	keeper.metrics_len = METRICS_TEXT_MAX - 1;
	connect_client(&client);
	setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (int i = 0; i < 3000; i++) {
		static const char request[] = "GET /metrics HTTP/1.1\r\n" HOST "\r\n";

		if (send(client.fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
			assert_int_equal(errno, EAGAIN);
		turn();
	}
	assert_true(the_connection()->state ==
			    ADMIN_REPLY || /* or the next request waits for room */
		    the_connection()->state == ADMIN_HEAD);
	assert_true(the_connection()->in.len <= ADMIN_HEAD_MAX);
	assert_true(the_connection()->out.len <= METRICS_TEXT_MAX + 1024);
	assert_true(keeper.asked < 500);
	let_time_pass(the_connection());
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
	close_client(&client);
}

/* The control: the same reply, read slowly but in time. */
static void a_large_reply_is_written_in_pieces(void **state)
{
	struct client client;

	(void)state;
	keeper.metrics_len = METRICS_TEXT_MAX - 1;
	connect_client(&client);
	say(&client, "GET /metrics HTTP/1.1\r\n" LAST);
	for (int i = 0; i < 100000 && !client.has_ended; i++) {
		char bytes[1000];
		ssize_t n;

		turn();
		n = recv(client.fd, bytes, sizeof(bytes), 0);
		if (n > 0)
			buf_add(&client.in, bytes, (size_t)n);
		client.has_ended = n == 0;
	}
	assert_true(client.has_ended);
	assert_int_equal(strlen(strstr(text_of(&client), "\r\n\r\n") + 4), METRICS_TEXT_MAX - 1);
	close_client(&client);
}

/* Half of the metrics would look like all of them. */
static void too_many_metrics_are_an_error(void **state)
{
	(void)state;
	keeper.metrics_len = METRICS_TEXT_MAX + 1;
	brings("GET /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 500 ", "}}");
}

static void the_oldest_idle_connection_makes_room(void **state)
{
	struct client clients[ADMIN_CONNECTIONS_MAX], another;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		connect_client(&clients[i]);
		say(&clients[i], i == 0 ? "GET /heal" : "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
		settle(&clients[i]);
		usleep(2000); /* so that they differ in age */
	}
	assert_int_equal(count_state(ADMIN_IDLE), ADMIN_CONNECTIONS_MAX - 1);
	ask("GET /healthz HTTP/1.1\r\n" HOST "\r\n", &another);
	has(&another, "{\"status\":\"ok\"}");
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		settle(&clients[i]);
		assert_int_equal(clients[i].has_ended, i == 1); /* 0 has a request under way */
	}
	say(&clients[0], "thz HTTP/1.1\r\n" HOST "\r\n");
	settle(&clients[0]);
	has(&clients[0], "{\"status\":\"ok\"}");
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		close_client(&clients[i]);
	close_client(&another);
}

/* An idle connection is given up for somebody, not for nobody. */
static void nobody_has_to_go_without_need(void **state)
{
	struct client clients[ADMIN_CONNECTIONS_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		ask("GET /healthz HTTP/1.1\r\n" HOST "\r\n", &clients[i]);
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(count_state(ADMIN_IDLE), ADMIN_CONNECTIONS_MAX);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		assert_false(clients[i].has_ended);
		close_client(&clients[i]);
	}
}

/* Those who have all places and say nothing keep them for a second; then others get them. */
static void who_is_silent_makes_room_after_a_moment(void **state)
{
	struct client silent[ADMIN_CONNECTIONS_MAX], another;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		connect_client(&silent[i]);
	turn();
	turn();
	assert_int_equal(count_state(ADMIN_FRESH), ADMIN_CONNECTIONS_MAX);
	ask("GET /healthz HTTP/1.1\r\n" HOST "\r\n", &another);
	assert_int_equal(another.in.len, 0);
	assert_int_equal(admin.listener.interest, 0); /* nor does the loop spin meanwhile */
	assert_true(admin.connections[7].timer.due_ms <= clock_now_ms() + 1000);
	let_time_pass(&admin.connections[7]);
	settle(&another);
	has(&another, "{\"status\":\"ok\"}");
	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		close_client(&silent[i]);
	close_client(&another);
}

static void a_thousand_connections_are_answered(void **state)
{
	static struct client clients[MANY];
	struct rlimit files;
	size_t left = MANY, most = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_cur < MANY + 64)
		skip();
	for (size_t i = 0; i < MANY; i++) {
		connect_client(&clients[i]);
		say(&clients[i], "GET /healthz HTTP/1.1\r\n" LAST);
	}
	for (int round = 0; round < 100000 && left > 0; round++) {
		size_t open;

		turn();
		open = ADMIN_CONNECTIONS_MAX - count_state(ADMIN_FREE);
		most = open > most ? open : most;
		for (size_t i = 0; i < MANY; i++) {
			if (clients[i].fd < 0)
				continue;
			listen_to(&clients[i]);
			if (!clients[i].has_ended)
				continue;
			has(&clients[i], "HTTP/1.1 200 OK\r\n");
			has(&clients[i], "{\"status\":\"ok\"}");
			close_client(&clients[i]);
			left--;
		}
	}
	assert_int_equal(left, 0);
	assert_int_equal(most, ADMIN_CONNECTIONS_MAX);
	turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
}

/* Without descriptors nobody can be accepted: the loop must not spin, and go on later. */
static void without_descriptors_it_waits(void **state)
{
	struct rlimit files, none;
	struct client client;

	(void)state;
	connect_client(&client);
	say(&client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = files;
	none.rlim_cur = (rlim_t)client.fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(admin.listener.interest, 0);
	settle(&client);
	assert_int_equal(client.in.len, 0);
	loop_set_timer(&loop, &admin.deaf_timer, 1);
	settle(&client);
	has(&client, "{\"status\":\"ok\"}");
	close_client(&client);
}

/* ---- hostile bytes ---- */

static void garbage_ends_in_an_error_or_in_silence(void **state)
{
	static const char right[] = "GET /healthz HTTP/1.1\r\n" HOST "\r\n";

	(void)state;
	srand(6);
	for (int round = 0; round < 3000; round++) {
		char bytes[256];
		size_t len = (size_t)(rand() % (int)sizeof(bytes)) + 1;
		struct client client;

		for (size_t i = 0; i < len; i++)
			bytes[i] = (char)rand();
		if (round % 2) { /* nearly right */
			len = sizeof(right) - 1;
			memcpy(bytes, right, len);
			bytes[(size_t)rand() % len] = (char)rand();
		}
		connect_client(&client);
		put(&client, bytes, len);
		for (int i = 0; i < 4; i++)
			turn();
		listen_to(&client);
		if (client.in.len > 0)
			assert_memory_equal(client.in.data, "HTTP/1.1 ", 9);
		close_client(&client);
	}
	turn();
	turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
	brings(right, "HTTP/1.1 200 ", "{\"status\":\"ok\"}");
}

/* Gone in the middle, with and without an error. */
static void clients_may_vanish_at_any_byte(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\n" HOST "\r\n";
	static const struct linger abrupt = { .l_onoff = 1 };

	(void)state;
	keeper.metrics_len = METRICS_TEXT_MAX - 1;
	for (size_t at = 0; at < sizeof(request); at++)
		for (int i = 0; i < 2; i++) {
			struct client client;

			connect_client(&client);
			put(&client, request, at);
			turn();
			if (i)
				turn();
			setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &abrupt,
				   i ? sizeof(abrupt) : 0);
			close_client(&client);
		}
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(count_state(ADMIN_FREE), ADMIN_CONNECTIONS_MAX);
}

#define ON_UNIX(name) cmocka_unit_test_setup_teardown(name, start_unix, stop)
#define ON_TCP(name)  cmocka_unit_test_setup_teardown(name, start_tcp, stop)

int main(void)
{
	RUN_TESTS(
		ON_UNIX(pages_are_served), ON_TCP(pages_are_served),
		ON_UNIX(who_is_not_ready_says_why), ON_UNIX(everything_else_is_refused),
		ON_TCP(everything_else_is_refused), ON_UNIX(a_wrong_method_names_the_right_ones),
		ON_UNIX(head_has_the_length_and_no_body), ON_UNIX(a_connection_is_kept),
		ON_TCP(a_connection_is_kept), ON_UNIX(http_1_0_ends_unless_it_asks),
		ON_UNIX(half_a_close_is_answered), ON_TCP(half_a_close_is_answered),
		ON_UNIX(a_request_may_come_byte_by_byte), ON_UNIX(a_request_may_be_split_anywhere),
		ON_TCP(a_request_may_be_split_anywhere),
		ON_UNIX(pipelined_requests_are_answered_in_turn),
		ON_UNIX(nothing_is_read_after_a_refusal),
		ON_UNIX(a_refusal_is_heard_in_the_middle_of_a_body),
		ON_TCP(a_refusal_is_heard_in_the_middle_of_a_body), ON_UNIX(a_head_has_its_limit),
		ON_UNIX(who_asks_slowly_runs_out_of_time),
		ON_UNIX(who_reads_slowly_runs_out_of_time),
		ON_TCP(who_reads_slowly_runs_out_of_time),
		ON_UNIX(a_large_reply_is_written_in_pieces),
		ON_TCP(a_large_reply_is_written_in_pieces), ON_UNIX(too_many_metrics_are_an_error),
		ON_UNIX(the_oldest_idle_connection_makes_room),
		ON_UNIX(nobody_has_to_go_without_need),
		ON_UNIX(who_is_silent_makes_room_after_a_moment),
		ON_UNIX(a_thousand_connections_are_answered),
		ON_TCP(a_thousand_connections_are_answered), ON_UNIX(without_descriptors_it_waits),
		ON_UNIX(garbage_ends_in_an_error_or_in_silence),
		ON_TCP(clients_may_vanish_at_any_byte), ON_UNIX(clients_may_vanish_at_any_byte));
}
