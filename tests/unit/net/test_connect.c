/* SPDX-License-Identifier: MIT */
/* Dialling, over loopback: who wins, who is closed, what is said when nobody answers. */
#include "dns_server.h"
#include "fds.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "net/connect.h"

#define PATIENCE_MS 5000
#define FILL_MAX    8

static const struct dns_row rows[] = {
	{ .name = "dual.test", .v6 = "::1", .v4 = "127.0.0.1", .ttl = 30 },
	{ .name = "v4.test", .v4 = "127.0.0.1", .ttl = 30 },
	{ .name = "late.test", .v6 = "::1", .v4_code = DNS_DROP, .ttl = 30 },
	{ .name = "many.test", .v4 = "127.0.0.1", .v4_count = 20, .ttl = 30 },
	{ .name = "fail.test", .v6_code = DNS_SERVFAIL, .v4_code = DNS_SERVFAIL },
	{ .name = "drop.test", .v6_code = DNS_DROP, .v4_code = DNS_DROP },
	{ .name = NULL },
};

struct dialler {
	int fd, calls;
	struct err err;
};

/* A port with a listener; of one that is full, further connections get no answer at all. */
struct target {
	int v4_fd, v6_fd;
	uint16_t port;
	int fill[FILL_MAX];
};

static struct loop loop;
static struct net *net;
static struct dns_server server;
static int fds_before;

static int set_up(void **state)
{
	(void)state;
	fds_before = count_fds();
	if (loop_init(&loop) < 0)
		return -1;
	net = net_new(&loop);
	dns_server_open(&server, &loop, rows);
	net_set_servers(net, server.address);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	net_free(net);
	dns_server_close(&server, &loop);
	loop_fini(&loop);
	return count_fds() == fds_before ? 0 : -1;
}

static void on_done(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct dialler *dialler = owner;

	assert_true(now_ms > 0);
	assert_int_equal(fd < 0, err != NULL);
	dialler->calls++;
	dialler->fd = fd;
	if (err)
		dialler->err = *err;
}

static struct connect *start(struct dialler *dialler, const char *host, uint16_t port,
			     uint64_t timeout_ms)
{
	struct connect *connect;

	*dialler = (struct dialler){ .fd = -1 };
	connect = connect_start(net, host, port, timeout_ms, clock_now_ms(), on_done, dialler);
	assert_int_equal(dialler->calls, 0); /* never from inside */
	return connect;
}

/* Returns how long it took. */
static uint64_t dial(struct dialler *dialler, const char *host, uint16_t port, uint64_t timeout_ms)
{
	uint64_t start_ms = clock_now_ms();

	assert_non_null(start(dialler, host, port, timeout_ms));
	while (dialler->calls == 0) {
		assert_true(clock_now_ms() < start_ms + 2ULL * PATIENCE_MS);
		assert_int_equal(loop_turn(&loop, 100), 0);
	}
	assert_int_equal(dialler->calls, 1);
	return clock_now_ms() - start_ms;
}

/* ---- targets ---- */

static int listen_on(int family, uint16_t port, int backlog)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(port),
				   .sin6_addr = in6addr_loopback };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	bool is_v6 = family == AF_INET6;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (is_v6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
		 is_v6 ? sizeof(v6) : sizeof(v4)) < 0)
		close_fd(&fd);
	else
		assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
						   : ((struct sockaddr_in *)&address)->sin_port);
}

/* The queue of a listener that nobody accepts from, filled until nothing is answered. */
static void fill(struct target *target, int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	for (int i = 0; i < FILL_MAX; i++) {
		target->fill[i] = socket(address.ss_family,
					 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(target->fill[i], (struct sockaddr *)&address, len);
	}
}

/* `v6` and `v4`: 0 refuses, 1 accepts, 2 does not answer. */
static struct target open_target(int v6, int v4)
{
	struct target target = { .v4_fd = -1, .v6_fd = -1 };

	for (int i = 0; i < FILL_MAX; i++)
		target.fill[i] = -1;
	/* Some port that is free in both families. */
	for (int i = 0; i < 20 && (target.v6_fd < 0 || target.v4_fd < 0); i++) {
		close_fd(&target.v6_fd);
		target.v6_fd = listen_on(AF_INET6, 0, v6 == 2 ? 0 : 5);
		target.port = port_of(target.v6_fd);
		target.v4_fd = listen_on(AF_INET, target.port, v4 == 2 ? 0 : 5);
	}
	assert_true(target.v6_fd >= 0 && target.v4_fd >= 0);
	if (v6 == 2)
		fill(&target, target.v6_fd);
	if (v4 == 2)
		fill(&target, target.v4_fd);
	if (v6 == 0)
		close_fd(&target.v6_fd);
	if (v4 == 0)
		close_fd(&target.v4_fd);
	return target;
}

static void close_target(struct target *target)
{
	for (int i = 0; i < FILL_MAX; i++)
		close_fd(&target->fill[i]);
	close_fd(&target->v4_fd);
	close_fd(&target->v6_fd);
}

static int family_of(int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address);

	assert_int_equal(getpeername(fd, (struct sockaddr *)&address, &len), 0);
	return address.ss_family;
}

/* ---- what works ---- */

static void addresses_and_names_are_dialled(void **state)
{
	static const struct {
		const char *host;
		int family;
	} cases[] = {
		{ "127.0.0.1", AF_INET },   { "::1", AF_INET6 },       { "[::1]", AF_INET6 },
		{ "localhost", AF_INET6 },  { "dual.test", AF_INET6 }, { "v4.test", AF_INET },
		{ "DUAL.test.", AF_INET6 },
	};
	struct target target = open_target(1, 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dialler dialler;

		dial(&dialler, cases[i].host, target.port, PATIENCE_MS);
		assert_true(dialler.fd >= 0);
		assert_int_equal(family_of(dialler.fd), cases[i].family);
		close_fd(&dialler.fd);
	}
	close_target(&target);
}

static void the_socket_is_as_promised(void **state)
{
	struct target target = open_target(1, 1);
	struct dialler dialler;
	int has_no_delay = 0;
	socklen_t len = sizeof(has_no_delay);

	(void)state;
	dial(&dialler, "127.0.0.1", target.port, PATIENCE_MS);
	assert_true(fcntl(dialler.fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(dialler.fd, F_GETFL) & O_NONBLOCK);
	getsockopt(dialler.fd, IPPROTO_TCP, TCP_NODELAY, &has_no_delay, &len);
	assert_true(has_no_delay);
	close_fd(&dialler.fd);
	close_target(&target);
}

/* Seven refusals before the one that answers: 1.75 s, if each were waited for. */
static void a_refusal_goes_on_to_the_next_at_once(void **state)
{
	struct sockaddr_in last = { .sin_family = AF_INET };
	socklen_t len = sizeof(last);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct dialler dialler;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "127.0.0.8", &last.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&last, len), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_true(dial(&dialler, "many.test", port_of(fd), PATIENCE_MS) < 1500);
	assert_true(dialler.fd >= 0);
	close_fd(&dialler.fd);
	close_fd(&fd);
}

static void a_refusal_goes_on_to_the_other_family(void **state)
{
	struct target target = open_target(0, 1);
	struct dialler dialler;

	(void)state;
	dial(&dialler, "dual.test", target.port, PATIENCE_MS);
	assert_int_equal(family_of(dialler.fd), AF_INET);
	close_fd(&dialler.fd);
	close_target(&target);
}

static void silence_goes_on_to_the_next_after_a_while(void **state)
{
	struct target target = open_target(2, 1);
	struct dialler dialler;
	uint64_t took_ms;

	(void)state;
	took_ms = dial(&dialler, "dual.test", target.port, PATIENCE_MS);
	assert_true(took_ms >= 245 && took_ms < PATIENCE_MS);
	assert_int_equal(family_of(dialler.fd), AF_INET);
	close_fd(&dialler.fd);
	close_target(&target);
}

static void one_that_answers_late_still_wins(void **state)
{
	struct target target = open_target(2, 0);
	struct dialler dialler;
	uint64_t end_ms = clock_now_ms() + PATIENCE_MS;

	(void)state;
	assert_non_null(start(&dialler, "dual.test", target.port, PATIENCE_MS));
	while (clock_now_ms() < end_ms - PATIENCE_MS + 400)
		assert_int_equal(loop_turn(&loop, 50), 0);
	assert_int_equal(dialler.calls, 0); /* IPv4 has refused by now */
	/* With room in the queue, and the others gone, the kernel's next try gets through. */
	fcntl(target.v6_fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < FILL_MAX; i++) {
		int fd = accept4(target.v6_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		close_fd(&fd);
		close_fd(&target.fill[i]);
	}
	while (dialler.calls == 0 && clock_now_ms() < end_ms)
		assert_int_equal(loop_turn(&loop, 50), 0);
	assert_true(dialler.fd >= 0);
	assert_int_equal(family_of(dialler.fd), AF_INET6);
	close_fd(&dialler.fd);
	close_target(&target);
}

/* ---- what does not ---- */

static void refused_by_all_is_refused(void **state)
{
	static const char *const hosts[] = { "127.0.0.1", "::1", "dual.test", "many.test" };
	struct target target = open_target(0, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		struct dialler dialler;

		dial(&dialler, hosts[i], target.port, PATIENCE_MS);
		assert_int_equal(dialler.err.code, ECONNREFUSED);
		assert_non_null(strstr(dialler.err.text, hosts[i]));
		assert_non_null(strstr(dialler.err.text, "Connection refused"));
	}
	close_target(&target);
}

static void silence_ends_at_the_deadline(void **state)
{
	struct target target = open_target(0, 2);
	struct dialler dialler;
	uint64_t took_ms = dial(&dialler, "dual.test", target.port, 300);

	(void)state;
	assert_true(took_ms >= 299 && took_ms < PATIENCE_MS);
	assert_int_equal(dialler.err.code, ETIMEDOUT);
	assert_non_null(strstr(dialler.err.text, "no answer in 300 ms"));
	close_target(&target);
}

static void names_fail_in_their_own_words(void **state)
{
	static const struct {
		const char *host;
		int code;
		uint64_t timeout_ms;
	} cases[] = {
		{ "missing.test", ENOENT, PATIENCE_MS }, { "", ENOENT, PATIENCE_MS },
		{ "127.1", ENOENT, PATIENCE_MS },        { "fail.test", EAGAIN, PATIENCE_MS },
		{ "drop.test", EAGAIN, PATIENCE_MS },    { "drop.test", ETIMEDOUT, 30 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dialler dialler;

		dial(&dialler, cases[i].host, 80, cases[i].timeout_ms);
		assert_int_equal(dialler.fd, -1);
		assert_int_equal(dialler.err.code, cases[i].code);
		assert_non_null(strstr(dialler.err.text, "look up '"));
	}
}

static void a_name_too_long_is_no_name(void **state)
{
	static char host[100000];
	struct dialler dialler;

	(void)state;
	memset(host, 'a', sizeof(host) - 1);
	dial(&dialler, host, 80, PATIENCE_MS);
	assert_int_equal(dialler.err.code, ENOENT);
}

/* Only half an answer, and it refused: the other half is waited for. */
static void what_may_still_come_is_waited_for(void **state)
{
	struct target target = open_target(0, 1);
	struct dialler dialler;

	(void)state;
	dial(&dialler, "late.test", target.port, PATIENCE_MS);
	assert_int_equal(dialler.err.code, ECONNREFUSED);
	assert_true(server.v4_asked > 1);
	close_target(&target);
}

static void no_descriptors_is_an_error(void **state)
{
	struct dialler dialler;
	struct rlimit limit, none;

	(void)state;
	assert_non_null(start(&dialler, "v4.test", 80, PATIENCE_MS));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (dialler.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(dialler.err.code, EMFILE);
}

/* ---- second thoughts ---- */

/* After every number of turns; the descriptors are counted when the test is torn down. */
static void an_attempt_can_be_cancelled_at_any_time(void **state)
{
	static const char *const hosts[] = { "127.0.0.1", "dual.test", "many.test",
					     "drop.test", "late.test", "missing.test" };
	struct target target = open_target(2, 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		for (int turns = 0; turns < 12; turns++) {
			struct dialler dialler;
			struct connect *connect = start(&dialler, hosts[i], target.port,
							PATIENCE_MS);

			for (int j = 0; j < turns && dialler.calls == 0; j++)
				assert_int_equal(loop_turn(&loop, 5), 0);
			if (dialler.calls == 0) {
				connect_cancel(connect);
				for (int j = 0; j < 3; j++)
					assert_int_equal(loop_turn(&loop, 1), 0);
				assert_int_equal(dialler.calls, 0);
			}
			close_fd(&dialler.fd);
		}
	}
	close_target(&target);
}

static void a_failure_that_is_not_reported_yet_can_be_cancelled(void **state)
{
	struct dialler dialler;
	struct connect *connect = start(&dialler, "missing name", 80, PATIENCE_MS);

	(void)state;
	connect_cancel(connect);
	assert_int_equal(loop_turn(&loop, 10), 0);
	assert_int_equal(dialler.calls, 0);
}

static struct connect *rivals[2];
static int rival_calls;

static void on_done_cancel_the_rival(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	size_t self = owner == &rivals[1];

	(void)now_ms;
	assert_null(err);
	rival_calls++;
	close_fd(&fd);
	connect_cancel(rivals[1 - self]);
}

/*
 * Two are connected in one turn; the first to be told cancels the other, whose descriptor nobody
 * has yet. It is counted when the test is torn down.
 */
static void a_winner_that_is_not_reported_yet_is_closed(void **state)
{
	struct target target = open_target(1, 1);

	(void)state;
	rival_calls = 0;
	for (size_t i = 0; i < 2; i++)
		rivals[i] = connect_start(net, "127.0.0.1", target.port, PATIENCE_MS,
					  clock_now_ms(), on_done_cancel_the_rival, &rivals[i]);
	usleep(20000); /* both are connected by now */
	for (int i = 0; i < 5; i++)
		assert_int_equal(loop_turn(&loop, 5), 0);
	assert_int_equal(rival_calls, 1);
	close_target(&target);
}

static void on_done_dial_again(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct dialler *dialler = owner;

	(void)err;
	assert_int_equal(fd, -1);
	if (++dialler->calls < 5)
		assert_non_null(connect_start(net, "", 1, PATIENCE_MS, now_ms, on_done_dial_again,
					      dialler));
}

static void done_may_dial_again(void **state)
{
	struct dialler dialler = { .fd = -1 };

	(void)state;
	on_done_dial_again(&dialler, -1, NULL, clock_now_ms());
	for (int i = 0; i < 20; i++)
		assert_int_equal(loop_turn(&loop, 1), 0);
	assert_int_equal(dialler.calls, 5);
}

#define C(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(C(addresses_and_names_are_dialled), C(the_socket_is_as_promised),
		  C(a_refusal_goes_on_to_the_next_at_once),
		  C(a_refusal_goes_on_to_the_other_family),
		  C(silence_goes_on_to_the_next_after_a_while), C(one_that_answers_late_still_wins),
		  C(refused_by_all_is_refused), C(silence_ends_at_the_deadline),
		  C(names_fail_in_their_own_words), C(a_name_too_long_is_no_name),
		  C(what_may_still_come_is_waited_for), C(no_descriptors_is_an_error),
		  C(an_attempt_can_be_cancelled_at_any_time),
		  C(a_failure_that_is_not_reported_yet_can_be_cancelled),
		  C(a_winner_that_is_not_reported_yet_is_closed), C(done_may_dial_again));
}
