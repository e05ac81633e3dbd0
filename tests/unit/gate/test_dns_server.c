/* SPDX-License-Identifier: MIT */
/* The resolver's sockets: datagrams of both families, and connections however they are cut. */
#include "dns_query.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "gate/confine.h"
#include "gate/dns_server.h"

static struct loop loop;
static struct names *names;
static struct dns_policy policy;
static struct dns_server *server;
static struct sockaddr_storage udp_v4, udp_v6, tcp_v4;
static bool has_v6;

/* ---- a client ---- */

/* A socket on a free port of the wildcard address. */
static int open_bound(int family, int type, struct sockaddr_storage *ret_address)
{
	struct sockaddr_storage address = { .ss_family = (sa_family_t)family };
	socklen_t len = sizeof(address);
	int fd = socket(family, type | SOCK_CLOEXEC, 0), one = 1;

	if (fd >= 0 && family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 128) < 0)) {
		close_fd(&fd);
		return -1;
	}
	*ret_address = address;
	return fd;
}

/* The same port, at this address. */
static int connect_to(int type, struct sockaddr_storage at, const char *address)
{
	int fd = socket(at.ss_family, type | SOCK_CLOEXEC, 0);

	if (at.ss_family == AF_INET)
		inet_pton(AF_INET, address, &((struct sockaddr_in *)(void *)&at)->sin_addr);
	else
		inet_pton(AF_INET6, address, &((struct sockaddr_in6 *)(void *)&at)->sin6_addr);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Turns the loop until there is something to read, or a second has passed. */
static bool await(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t end_ms = clock_now_ms() + 1000;

	while (poll(&ready, 1, 0) == 0) {
		if (clock_now_ms() > end_ms)
			return false;
		assert_int_equal(loop_turn(&loop, 1), 0);
	}
	return true;
}

/* Some turns in which everything that is to happen can happen. */
static void turn(void)
{
	for (int i = 0; i < 4; i++)
		assert_int_equal(loop_turn(&loop, 0), 0);
}

static size_t receive_all(int fd, char *data, size_t len)
{
	size_t have = 0;

	while (have < len && await(fd)) {
		ssize_t n = recv(fd, data + have, len - have, 0);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

/* The next reply of a connection, in words; "" at its end. */
static const char *receive_framed(int fd, unsigned int *ret_id)
{
	static char data[DNS_REPLY_MAX];
	unsigned char len[2];
	size_t size;

	if (receive_all(fd, (char *)len, 2) != 2)
		return "";
	size = (size_t)(len[0] << 8 | len[1]);
	assert_true(size <= sizeof(data));
	assert_int_equal(receive_all(fd, data, size), size);
	*ret_id = (unsigned int)((unsigned char)data[0] << 8 | (unsigned char)data[1]);
	return dns_reply_text(data, size);
}

/* The query with its length in front. */
static size_t frame(const struct dns_query *query, char *ret_data)
{
	ret_data[0] = (char)(query->len >> 8);
	ret_data[1] = (char)(query->len & 0xff);
	memcpy(ret_data + 2, query->data, query->len);
	return query->len + 2;
}

static void send_framed(int fd, unsigned int id, const char *name)
{
	struct dns_query query;
	char data[sizeof(query.data) + 2];
	size_t len;

	dns_query_make(&query, id, name, ns_t_a);
	len = frame(&query, data);
	assert_int_equal(send(fd, data, len, 0), len);
}

static void assert_served(int fd, unsigned int id, const char *expected)
{
	unsigned int found = 0;

	assert_string_equal(receive_framed(fd, &found), expected);
	assert_int_equal(found, id);
}

static void assert_ended(int fd)
{
	char byte;

	assert_true(await(fd));
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/* ---- the server ---- */

static void add(int family, int type, struct sockaddr_storage *ret_address)
{
	int fd = open_bound(family, type, ret_address);

	assert_true(fd >= 0);
	assert_int_equal(type == SOCK_DGRAM ? dns_server_add_udp(server, fd)
					    : dns_server_add_tcp(server, fd),
			 0);
}

static int set_up(void **state)
{
	(void)state;
	policy = (struct dns_policy){ .has_v6 = true };
	names = names_new();
	if (loop_init(&loop) < 0)
		return -1;
	server = dns_server_new(&loop, names, &policy);
	add(AF_INET, SOCK_DGRAM, &udp_v4);
	add(AF_INET, SOCK_STREAM, &tcp_v4);
	has_v6 = access("/proc/net/if_inet6", F_OK) == 0;
	if (has_v6)
		add(AF_INET6, SOCK_DGRAM, &udp_v6);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dns_server_free(server);
	loop_fini(&loop);
	names_free(names);
	return 0;
}

/* ---- datagrams ---- */

static const char *ask_udp(int fd, const char *name, unsigned int type)
{
	static char reply[DNS_REPLY_MAX + 1];
	struct dns_query query;
	ssize_t n;

	dns_query_make(&query, 1, name, type);
	assert_int_equal(send(fd, query.data, query.len, 0), query.len);
	if (!await(fd))
		return "nothing";
	n = recv(fd, reply, sizeof(reply), 0);
	assert_true(n > 0);
	return dns_reply_text(reply, (size_t)n);
}

/* A connected socket takes replies of the address it asked and no other. */
static void datagrams_are_answered_from_where_they_went(void **state)
{
	static const char *const v4[] = { "127.0.0.1", "127.0.0.2", "127.77.0.9" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v4); i++) {
		int fd = connect_to(SOCK_DGRAM, udp_v4, v4[i]);

		assert_string_equal(ask_udp(fd, "a.example", ns_t_a), "NOERROR 198.18.0.2");
		close(fd);
	}
	if (has_v6) {
		int fd = connect_to(SOCK_DGRAM, udp_v6, "::1");

		assert_string_equal(ask_udp(fd, "a.example", ns_t_aaaa),
				    "NOERROR fd77:6172:6465:7200::2");
		close(fd);
	}
}

/* An agent may ask before the gate has its sockets. */
static void a_query_that_came_early_is_answered(void **state)
{
	struct sockaddr_storage address;
	int bound = open_bound(AF_INET, SOCK_DGRAM, &address);
	int fd = connect_to(SOCK_DGRAM, address, "127.0.0.2");
	char reply[DNS_REPLY_MAX];
	struct dns_query query;
	ssize_t n;

	(void)state;
	dns_query_make(&query, 1, "a.example", ns_t_a);
	assert_int_equal(send(fd, query.data, query.len, 0), query.len);
	assert_int_equal(dns_server_add_udp(server, bound), 0);
	assert_true(await(fd));
	n = recv(fd, reply, sizeof(reply), 0);
	assert_true(n > 0);
	assert_string_equal(dns_reply_text(reply, (size_t)n), "NOERROR 198.18.0.2");
	close(fd);
}

static void bad_datagrams_do_no_harm(void **state)
{
	char large[DNS_SERVER_QUERY_MAX + 1] = { 0 };
	int fd = connect_to(SOCK_DGRAM, udp_v4, "127.0.0.1"), gone;

	(void)state;
	assert_int_equal(send(fd, "", 0, 0), 0);
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_int_equal(send(fd, large, sizeof(large), 0), sizeof(large));
	/* Who is not there any more when the reply comes is told to the server as an error. */
	gone = connect_to(SOCK_DGRAM, udp_v4, "127.0.0.1");
	assert_int_equal(send(gone, large, 12, 0), 12);
	close(gone);
	turn();
	assert_string_equal(ask_udp(fd, "a.example", ns_t_a), "NOERROR 198.18.0.2");
	close(fd);
}

static void many_datagrams_are_all_answered(void **state)
{
	int fd = connect_to(SOCK_DGRAM, udp_v4, "127.0.0.1");
	struct dns_query query;
	char reply[DNS_REPLY_MAX];
	bool is_answered[100] = { false };

	(void)state;
	for (unsigned int i = 0; i < ARRAY_LEN(is_answered); i++) {
		dns_query_make(&query, i, "a.example", ns_t_a);
		assert_int_equal(send(fd, query.data, query.len, 0), query.len);
	}
	for (size_t i = 0; i < ARRAY_LEN(is_answered); i++) {
		assert_true(await(fd));
		assert_true(recv(fd, reply, sizeof(reply), 0) > 12);
		is_answered[(unsigned char)reply[1]] = true;
	}
	for (size_t i = 0; i < ARRAY_LEN(is_answered); i++)
		assert_true(is_answered[i]);
	close(fd);
}

/* ---- connections ---- */

static void queries_follow_one_another(void **state)
{
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");

	(void)state;
	send_framed(fd, 1, "a.example");
	assert_served(fd, 1, "NOERROR 198.18.0.2");
	send_framed(fd, 2, "b.example");
	send_framed(fd, 3, "wpad");
	send_framed(fd, 4, "a.example");
	assert_served(fd, 2, "NOERROR 198.18.0.3");
	assert_served(fd, 3, "NXDOMAIN");
	assert_served(fd, 4, "NOERROR 198.18.0.2");
	close(fd);
	turn();
}

static void queries_may_be_cut_anywhere(void **state)
{
	struct dns_query query;
	char data[2 * sizeof(query.data)];
	size_t len;

	(void)state;
	dns_query_make(&query, 1, "a.example", ns_t_a);
	len = frame(&query, data);
	dns_query_make(&query, 2, "b.example", ns_t_a);
	len += frame(&query, data + len);
	for (size_t cut = 1; cut < len; cut++) {
		int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");

		assert_int_equal(send(fd, data, cut, 0), cut);
		turn();
		assert_int_equal(send(fd, data + cut, len - cut, 0), len - cut);
		assert_served(fd, 1, "NOERROR 198.18.0.2");
		assert_served(fd, 2, "NOERROR 198.18.0.3");
		close(fd);
	}
}

static void the_last_replies_are_sent_after_the_end_of_input(void **state)
{
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");

	(void)state;
	send_framed(fd, 1, "a.example");
	send_framed(fd, 2, "a.example");
	shutdown(fd, SHUT_WR);
	assert_served(fd, 1, "NOERROR 198.18.0.2");
	assert_served(fd, 2, "NOERROR 198.18.0.2");
	assert_ended(fd);
}

static void what_is_no_query_ends_the_connection(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} bad[] = { { "\0\0", 2 }, { "\0\1x", 3 }, { "\x10\x01", 2 }, { "\xff\xff", 2 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");

		assert_int_equal(send(fd, bad[i].data, bad[i].len, 0), bad[i].len);
		assert_ended(fd);
	}
}

static void the_longest_query_is_read(void **state)
{
	static char data[2 + DNS_SERVER_QUERY_MAX] = "\x10\0\0\7\1";
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send(fd, data, sizeof(data), 0), sizeof(data));
		assert_served(fd, 7, "FORMERR");
	}
	close(fd);
}

/* Sends the same query until no more is taken; returns how many bytes of them were. */
static size_t send_many(int fd, const char *data, size_t len)
{
	size_t sent = 0;

	for (int waits = 0; waits < 50;) {
		ssize_t n = send(fd, data + sent % len, len - sent % len, MSG_DONTWAIT);

		turn();
		waits = n < 0 ? waits + 1 : 0;
		sent += n < 0 ? 0 : (size_t)n;
		assert_true(sent < 100 << 20); /* it took them all, so it kept them all */
	}
	return sent;
}

/* It sends and does not read: it is not read from, either, and then gets all its replies. */
static void who_does_not_read_is_not_read_from(void **state)
{
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	struct dns_query query;
	char data[64 * 64];
	size_t len = 0, query_len = 0, sent;

	(void)state;
	dns_query_make(&query, 1, "a.example", ns_t_a);
	for (int i = 0; i < 64; i++)
		len += query_len = frame(&query, data + len);
	sent = send_many(fd, data, len);
	for (size_t i = 0; i < sent / query_len; i++)
		assert_served(fd, 1, "NOERROR 198.18.0.2");
	/* The rest of the query that was cut, or one more. */
	sent %= query_len;
	assert_int_equal(send(fd, data + sent, query_len - sent, 0), query_len - sent);
	assert_served(fd, 1, "NOERROR 198.18.0.2");
	close(fd);
}

static void connections_are_bounded(void **state)
{
	int fds[DNS_SERVER_CONNECTIONS + 5];
	unsigned int id;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
		send_framed(fds[i], (unsigned int)i, "a.example");
	}
	for (unsigned int i = 0; i < DNS_SERVER_CONNECTIONS; i++)
		assert_served(fds[i], i, "NOERROR 198.18.0.2");
	turn();
	for (size_t i = DNS_SERVER_CONNECTIONS; i < ARRAY_LEN(fds); i++)
		assert_int_equal(recv(fds[i], &id, 1, MSG_DONTWAIT), -1);
	/* As one goes, one comes. */
	for (unsigned int i = DNS_SERVER_CONNECTIONS; i < ARRAY_LEN(fds); i++) {
		close(fds[i - DNS_SERVER_CONNECTIONS]);
		assert_served(fds[i], i, "NOERROR 198.18.0.2");
	}
	for (size_t i = ARRAY_LEN(fds) - DNS_SERVER_CONNECTIONS; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

/* The loop takes the time by itself: the timers are made due instead. */
static void who_asks_nothing_is_disconnected(void **state)
{
	int idle = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1"), slow, quiet;

	(void)state;
	slow = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	quiet = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	send_framed(quiet, 1, "a.example");
	assert_served(quiet, 1, "NOERROR 198.18.0.2");
	assert_int_equal(send(slow, "\0\x40", 2, 0), 2);
	turn();
	assert_int_equal(loop.timer_count, 3);
	while (loop.timer_count > 0) {
		struct loop_timer *timer = loop.heap[1];
		uint64_t now_ms = clock_now_ms();

		assert_true(timer->due_ms > now_ms + DNS_SERVER_IDLE_MS - 1000);
		assert_true(timer->due_ms <= now_ms + DNS_SERVER_IDLE_MS);
		loop_cancel(&loop, timer);
		timer->on_due(timer, timer->due_ms);
	}
	assert_ended(idle);
	assert_ended(slow);
	assert_ended(quiet);
}

static void it_hears_again_after_descriptors_ran_out(void **state)
{
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	struct rlimit before, none;
	char byte;

	(void)state;
	send_framed(fd, 1, "a.example");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 3, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn();
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_served(fd, 1, "NOERROR 198.18.0.2");
	close(fd);
}

static void open_connections_are_closed_with_it(void **state)
{
	int fd = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	char byte;

	send_framed(fd, 1, "a.example");
	assert_served(fd, 1, "NOERROR 198.18.0.2");
	tear_down(state);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
	assert_int_equal(set_up(state), 0);
}

/* ---- under the gate's filter ---- */

static void it_needs_no_more_than_the_gate_may(void **state)
{
	struct err err;
	struct timeval second = { .tv_sec = 2 };
	int udp, tcp, status;
	char reply[DNS_REPLY_MAX];
	struct dns_query query;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		if (confine(&err) < 0)
			_exit(3);
		(void)!loop_run(&loop);
		_exit(4);
	}
	udp = connect_to(SOCK_DGRAM, udp_v4, "127.0.0.2");
	tcp = connect_to(SOCK_STREAM, tcp_v4, "127.0.0.1");
	setsockopt(udp, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	setsockopt(tcp, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	dns_query_make(&query, 1, "a.example", ns_t_a);
	assert_int_equal(send(udp, query.data, query.len, 0), query.len);
	assert_true(recv(udp, reply, sizeof(reply), 0) > 12);
	send_framed(tcp, 1, "a.example");
	assert_true(recv(tcp, reply, sizeof(reply), 0) > 12);
	close(udp);
	close(tcp);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(CASE(datagrams_are_answered_from_where_they_went),
		  CASE(a_query_that_came_early_is_answered), CASE(bad_datagrams_do_no_harm),
		  CASE(many_datagrams_are_all_answered), CASE(queries_follow_one_another),
		  CASE(queries_may_be_cut_anywhere),
		  CASE(the_last_replies_are_sent_after_the_end_of_input),
		  CASE(what_is_no_query_ends_the_connection), CASE(the_longest_query_is_read),
		  CASE(who_does_not_read_is_not_read_from), CASE(connections_are_bounded),
		  CASE(who_asks_nothing_is_disconnected),
		  CASE(it_hears_again_after_descriptors_ran_out),
		  CASE(open_connections_are_closed_with_it),
		  CASE(it_needs_no_more_than_the_gate_may));
}
