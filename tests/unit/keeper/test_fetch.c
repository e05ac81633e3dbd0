/* SPDX-License-Identifier: MIT */
/* One GET against a server that says what the test wants it to, and when. */
#include "fds.h"

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "keeper/fetch.h"

#define KEY "sk-0123456789abcdef"

static struct loop loop;
static struct net *net;
static int fds_before;

/* ---- the server: one connection ---- */

struct server {
	int listener_fd;
	uint16_t port;
	pthread_t thread;
	struct bytes reply;
	bool is_silent; /* holds the connection open instead of closing it */
	char request[4096];
};

static void *serve(void *argument)
{
	struct server *server = argument;
	int fd = accept4(server->listener_fd, NULL, NULL, SOCK_CLOEXEC);
	size_t len = 0;
	char byte;

	while (fd >= 0 && len < sizeof(server->request) - 1 &&
	       !strstr(server->request, "\r\n\r\n")) {
		ssize_t n = recv(fd, server->request + len, sizeof(server->request) - 1 - len, 0);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (fd >= 0 && server->reply.len > 0)
		send(fd, server->reply.data, server->reply.len, MSG_NOSIGNAL);
	if (fd >= 0 && server->is_silent)
		(void)!recv(fd, &byte, 1, 0); /* until the other side closes */
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void server_open(struct server *server, struct bytes reply, bool is_silent)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	*server = (struct server){ .reply = reply, .is_silent = is_silent };
	server->listener_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->listener_fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(server->listener_fd, 1), 0);
	assert_int_equal(getsockname(server->listener_fd, (struct sockaddr *)&address, &len), 0);
	server->port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_close(struct server *server)
{
	shutdown(server->listener_fd, SHUT_RDWR); /* if nobody has come */
	pthread_join(server->thread, NULL);
	close(server->listener_fd);
}

/* ---- the one who asks ---- */

struct asker {
	int heads, dones, status;
	struct buf body;
	int refuses_head, refuses_data; /* errno values */
	struct err err;
};

static int on_head(void *owner, const struct http_head *head, struct err *err)
{
	struct asker *asker = owner;

	asker->heads++;
	asker->status = head->status;
	return asker->refuses_head ? err_say(err, asker->refuses_head, "no head") : 0;
}

static int on_data(void *owner, struct bytes data, struct err *err)
{
	struct asker *asker = owner;

	buf_add(&asker->body, data.data, data.len);
	return asker->refuses_data ? err_say(err, asker->refuses_data, "no data") : 0;
}

static void on_done(void *owner, const struct err *err, uint64_t now_ms)
{
	struct asker *asker = owner;

	assert_true(now_ms > 0);
	asker->dones++;
	if (err)
		asker->err = *err;
}

static const struct fetch_ops ops = { on_head, on_data, on_done };

static struct fetch *start(struct asker *asker, uint16_t port, const struct secret *key,
			   uint64_t timeout_ms)
{
	struct fetch_request request = {
		.host = "127.0.0.1",
		.authority = "llm.test:4000",
		.dial_host = "127.0.0.1",
		.dial_port = port,
		.target = BYTES("/spend/logs?a=b"),
		.key_header = "authorization",
		.key_prefix = "Bearer ",
		.key = key,
		.timeout_ms = timeout_ms,
		.body_max = 100,
	};

	return fetch_start(net, &loop, NULL, &request, &ops, asker, clock_now_ms());
}

static void wait_for(struct asker *asker)
{
	uint64_t until_ms = clock_now_ms() + 10000;

	while (asker->dones == 0) {
		assert_true(clock_now_ms() < until_ms);
		assert_int_equal(loop_turn(&loop, 100), 0);
	}
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(asker->dones, 1);
}

/* Asks once; the caller owes buf_fini(&asker->body). */
static void ask(struct asker *asker, struct bytes reply)
{
	struct server server;

	server_open(&server, reply, false);
	buf_init(&asker->body, 4096);
	assert_non_null(start(asker, server.port, NULL, 5000));
	assert_int_equal(asker->dones, 0); /* never from inside */
	wait_for(asker);
	server_close(&server);
}

static int set_up(void **state)
{
	(void)state;
	fds_before = count_fds();
	if (loop_init(&loop) < 0)
		return -1;
	net = net_new(&loop);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	net_free(net);
	loop_fini(&loop);
	return count_fds() == fds_before ? 0 : -1;
}

/* ---- tests ---- */

static const struct {
	const char *reply, *body;
	int status;
	bool ends_with_connection;
} replies[] = {
	{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, false },
	{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
	  "hello", 200, false },
	{ "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: "
	  "1\r\n\r\nx",
	  "x", 404, false },
	{ "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "",
	  302, false },
	{ "HTTP/1.1 200 OK\r\n\r\nhello", "hello", 200, true },
};

static void whole_replies_and_replies_cut_at_every_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
		size_t len = strlen(replies[i].reply);
		size_t head_len = len - strlen(replies[i].body);

		for (size_t cut = 0; cut <= len; cut++) {
			struct asker asker = { 0 };
			bool is_whole = cut == len ||
					(replies[i].ends_with_connection && cut >= head_len);

			ask(&asker, (struct bytes){ replies[i].reply, cut });
			assert_int_equal(asker.err.code, is_whole ? 0 : EPROTO);
			if (cut == len) {
				assert_int_equal(asker.status, replies[i].status);
				assert_int_equal(asker.body.len, strlen(replies[i].body));
				assert_int_equal(asker.heads, 1);
			}
			buf_fini(&asker.body);
		}
	}
}

static void what_is_not_http(void **state)
{
	static const char *const rows[] = {
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct asker asker = { 0 };

		ask(&asker, bytes_of(rows[i]));
		assert_int_equal(asker.err.code, EPROTO);
		assert_non_null(strstr(asker.err.text, "llm.test:4000"));
		buf_fini(&asker.body);
	}
}

static void a_reply_of_any_size_is_bounded(void **state)
{
	(void)state;
	for (int has_length = 0; has_length < 2; has_length++)
		for (size_t size = 100; size <= 101; size++) {
			struct asker asker = { 0 };
			char reply[512];
			int len = snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\n");

			if (has_length)
				len += snprintf(reply + len, sizeof(reply) - (size_t)len,
						"Content-Length: %zu\r\n", size);
			len += snprintf(reply + len, sizeof(reply) - (size_t)len, "\r\n%0*d",
					(int)size, 0);
			ask(&asker, (struct bytes){ reply, (size_t)len });
			assert_int_equal(asker.err.code, size > 100 ? E2BIG : 0);
			assert_true(asker.body.len <= 100);
			buf_fini(&asker.body);
		}
}

static void the_owner_may_refuse(void **state)
{
	struct asker asker = { .refuses_head = EACCES };

	(void)state;
	ask(&asker, bytes_of(replies[0].reply));
	assert_int_equal(asker.err.code, EACCES);
	assert_string_equal(asker.err.text, "no head");
	assert_int_equal(asker.body.len, 0);
	buf_fini(&asker.body);
	asker = (struct asker){ .refuses_data = EILSEQ };
	ask(&asker, bytes_of(replies[2].reply));
	assert_int_equal(asker.err.code, EILSEQ);
	buf_fini(&asker.body);
}

static void silence_has_an_end(void **state)
{
	struct asker asker = { 0 };
	struct server server;
	uint64_t start_ms = clock_now_ms();

	(void)state;
	server_open(&server, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), true);
	buf_init(&asker.body, 100);
	assert_non_null(start(&asker, server.port, NULL, 150));
	wait_for(&asker);
	assert_int_equal(asker.err.code, ETIMEDOUT);
	assert_true(clock_now_ms() - start_ms >= 150);
	server_close(&server);
	buf_fini(&asker.body);
}

static void nobody_is_there(void **state)
{
	struct asker asker = { 0 };
	struct server server;

	(void)state;
	server_open(&server, BYTES(""), false);
	server_close(&server);
	assert_non_null(start(&asker, server.port, NULL, 5000));
	wait_for(&asker);
	assert_int_equal(asker.err.code, ECONNREFUSED);
}

static void the_request_and_its_key(void **state)
{
	struct asker asker = { 0 };
	struct server server;
	struct secret *key;
	struct err err;

	(void)state;
	setenv("TEST_KEY", KEY, 1);
	assert_int_equal(secret_open("env:TEST_KEY", &key, &err), 0);
	server_open(&server, bytes_of(replies[0].reply), false);
	buf_init(&asker.body, 100);
	assert_non_null(start(&asker, server.port, key, 5000));
	wait_for(&asker);
	server_close(&server);
	assert_int_equal(asker.err.code, 0);
	assert_string_equal(server.request,
			    "GET /spend/logs?a=b HTTP/1.1\r\nhost: llm.test:4000\r\n"
			    "user-agent: warder\r\naccept: application/json\r\n"
			    "accept-encoding: identity\r\nconnection: close\r\n"
			    "authorization: Bearer " KEY "\r\n\r\n");
	secret_free(key);
	buf_fini(&asker.body);
}

static void cancelling_at_any_time(void **state)
{
	(void)state;
	for (int turns = 0; turns < 4; turns++) {
		struct asker asker = { 0 };
		struct server server;
		struct fetch *fetch;

		server_open(&server, BYTES("HTTP/1.1 200 OK\r\n"), true);
		fetch = start(&asker, server.port, NULL, 5000);
		for (int i = 0; i < turns; i++)
			assert_int_equal(loop_turn(&loop, 20), 0);
		fetch_cancel(fetch);
		assert_int_equal(loop_turn(&loop, 0), 0);
		assert_int_equal(asker.dones, 0);
		server_close(&server);
	}
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(LOOP_TEST(whole_replies_and_replies_cut_at_every_byte),
		  LOOP_TEST(what_is_not_http), LOOP_TEST(a_reply_of_any_size_is_bounded),
		  LOOP_TEST(the_owner_may_refuse), LOOP_TEST(silence_has_an_end),
		  LOOP_TEST(nobody_is_there), LOOP_TEST(the_request_and_its_key),
		  LOOP_TEST(cancelling_at_any_time));
}
