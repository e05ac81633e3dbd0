/* SPDX-License-Identifier: MIT */
/* Routes, rules and sockets of a network namespace, where something is missing or there twice. */
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "net/origdst.h"
#include "sys/fd.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/nft.h"
#include "sys/route.h"
#include "sys/userns.h"

static const struct nft_ports ports = { .tcp = 61001, .dns = 61053 };

#define CHECK(claim)                                                                               \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #claim);                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Runs `attempt` in a network namespace of its own, in a child. */
static void in_namespace(void (*attempt)(void))
{
	struct userns_map map = { .outside_uid = geteuid(), .outside_gid = getegid() };
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
		CHECK(userns_write_map(0, &map, 1) == 0);
		attempt();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void add_twice(void)
{
	bool has_v6;

	CHECK(netns_loopback_up() == 0);
	CHECK(route_all_local(&has_v6) == 0 && has_v6);
	CHECK(route_all_local(&has_v6) == -EEXIST && !has_v6);
	CHECK(nft_redirect(&ports) == 0);
	CHECK(nft_redirect(&ports) == -EEXIST);
	CHECK(nft_try_nat() == -EEXIST);
}

static void nothing_is_loaded_twice(void **state)
{
	(void)state;
	in_namespace(add_twice);
}

static void add_while_down(void)
{
	bool has_v6 = true;

	CHECK(route_all_local(&has_v6) == -ENETDOWN && !has_v6);
	CHECK(nft_try_nat() == 0);
}

static void the_loopback_must_be_up(void **state)
{
	(void)state;
	in_namespace(add_while_down);
}

static void add_without_v6(void)
{
	bool has_v6 = true;

	CHECK(fd_write_file(AT_FDCWD, "/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1") == 0);
	CHECK(netns_loopback_up() == 0);
	CHECK(route_all_local(&has_v6) == 0 && !has_v6);
	CHECK(nft_redirect(&ports) == 0);
	CHECK(netns_listen(AF_INET, ports.tcp) >= 0);
	CHECK(netns_listen(AF_INET6, ports.tcp) == -EADDRNOTAVAIL);
	CHECK(netns_bind_udp(AF_INET6, ports.dns) == -EADDRNOTAVAIL);
}

static void a_kernel_may_be_without_v6(void **state)
{
	(void)state;
	in_namespace(add_without_v6);
}

static void drop_privileges(void)
{
	bool has_v6;

	CHECK(netns_loopback_up() == 0);
	CHECK(setresuid(12345, 12345, 12345) < 0 && errno == EINVAL); /* only 0 is mapped */
	CHECK(unshare(CLONE_NEWUSER) == 0);                           /* not this one's network */
	CHECK(route_all_local(&has_v6) == -EPERM);
	CHECK(nft_redirect(&ports) == -EPERM);
}

static void privileges_are_needed_over_the_namespace(void **state)
{
	(void)state;
	in_namespace(drop_privileges);
}

static void open_all(void)
{
	static const int families[] = { AF_INET, AF_INET6 };

	CHECK(netns_loopback_up() == 0);
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		int fds[] = { netns_listen(families[i], 700), netns_listen_port(families[i], 701),
			      netns_bind_udp(families[i], 700),
			      netns_bind_udp_port(families[i], 53) };

		for (size_t j = 0; j < ARRAY_LEN(fds); j++) {
			CHECK(fds[j] >= 0);
			CHECK(fcntl(fds[j], F_GETFD) == FD_CLOEXEC);
			CHECK(fcntl(fds[j], F_GETFL) & O_NONBLOCK);
		}
		CHECK(netns_listen(families[i], 700) == -EADDRINUSE);
		CHECK(netns_listen(families[i], 701) == -EADDRINUSE);
		CHECK(netns_listen_port(families[i], 700) == -EADDRINUSE);
		CHECK(netns_bind_udp(families[i], 53) == -EADDRINUSE);
		CHECK(netns_bind_udp_port(families[i], 700) == -EADDRINUSE);
		/* The loopback's own beside that of every address; but only one of each. */
		CHECK(netns_listen_beside(families[i], 703) >= 0);
		CHECK(netns_listen_port(families[i], 703) >= 0);
		CHECK(netns_listen(families[i], 703) == -EADDRINUSE);
	}
	CHECK(netns_listen(AF_MAX, 702) == -EAFNOSUPPORT);
}

static void each_family_has_sockets_of_its_own(void **state)
{
	(void)state;
	in_namespace(open_all);
}

static void what_is_missing_is_told_from_what_is_wrong(void **state)
{
	(void)state;
	assert_true(nft_is_missing(-ENOENT) && nft_is_missing(-EPROTONOSUPPORT));
	assert_false(nft_is_missing(0) || nft_is_missing(-EPERM) || nft_is_missing(-EEXIST) ||
		     nft_is_missing(-ENOMEM));
}

static void only_connections_have_a_destination(void **state)
{
	struct sockaddr_storage address;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(origdst_get(pair[0], &address), -EOPNOTSUPP);
	assert_int_equal(address.ss_family, AF_UNSPEC);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(origdst_get(-1, &address), -EBADF);
}

static void attributes_are_laid_out_as_netlink_has_them(void **state)
{
	static const unsigned char expected[] = {
		0,    0, 0, 0,    0x10, 0,   1, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* header */
		0xaa, 0, 0, 0,                                             /* fixed part */
		7,    0, 1, 0,    'a',  'b', 0, 0,                         /* text, padded */
		20,   0, 2, 0x80,                                          /* nest of two */
		8,    0, 3, 0,    0,    0,   1, 2,                         /* big endian */
		5,    0, 4, 0,    9,    0,   0, 0,                         /* a byte */
	};
	struct netlink_batch batch;
	size_t nest;

	(void)state;
	netlink_init(&batch);
	netlink_begin(&batch, 16, 0, "\xaa", 1);
	netlink_put_text(&batch, 1, "ab");
	nest = netlink_nest(&batch, 2);
	netlink_put_be32(&batch, 3, 0x102);
	netlink_put(&batch, 4, "\t", 1);
	netlink_unnest(&batch, nest);
	assert_int_equal(batch.len, sizeof(expected));
	assert_int_equal(batch.message->nlmsg_len, sizeof(expected));
	assert_int_equal(batch.message->nlmsg_flags, NLM_F_REQUEST);
	assert_memory_equal(batch.data + 16, expected + 16, sizeof(expected) - 16);
}

static void a_missing_answer_is_an_error(void **state)
{
	const struct nlmsghdr nothing = { .nlmsg_len = sizeof(nothing), .nlmsg_type = NLMSG_NOOP };
	struct netlink_batch batch;

	(void)state;
	netlink_init(&batch);
	memcpy(batch.data, &nothing, sizeof(nothing));
	batch.len = sizeof(nothing);
	assert_int_equal(netlink_talk(NETLINK_ROUTE, &batch, 1), -EPROTO);
	assert_int_equal(netlink_talk(NETLINK_ROUTE, &batch, 0), 0);
}

int main(void)
{
	RUN_TESTS(TEST(nothing_is_loaded_twice), TEST(the_loopback_must_be_up),
		  TEST(a_kernel_may_be_without_v6), TEST(privileges_are_needed_over_the_namespace),
		  TEST(each_family_has_sockets_of_its_own),
		  TEST(what_is_missing_is_told_from_what_is_wrong),
		  TEST(only_connections_have_a_destination),
		  TEST(attributes_are_laid_out_as_netlink_has_them),
		  TEST(a_missing_answer_is_an_error));
}
