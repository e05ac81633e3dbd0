/* SPDX-License-Identifier: MIT */
/* Packets with descriptors in their luggage: one is taken, none is left behind. */
#include "fds.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/pass.h"

#define MOST 16

/* A packet with `count` descriptors, as no honest peer sends it. */
static void send_with(int socket_fd, int count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * MOST)];
	} control = { .space = { 0 } };
	char letter = 'x';
	struct iovec part = { &letter, 1 };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count) };
	int fds[MOST];

	for (int i = 0; i < count; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
	memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t)count);
	assert_int_equal(sendmsg(socket_fd, &packet, 0), 1);
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void one_is_taken(void **state)
{
	int ends[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got = -1;
	char data[8];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(pass_send(ends[0], "abc", 3, fd), 0);
	assert_int_equal(pass_receive(ends[1], data, sizeof(data), &got), 3);
	assert_true(got >= 0 && got != fd);
	assert_true(fcntl(got, F_GETFD) & FD_CLOEXEC);
	close(got);
	assert_int_equal(pass_send(ends[0], "abc", 3, -1), 0);
	assert_int_equal(pass_receive(ends[1], data, sizeof(data), &got), 3);
	assert_int_equal(got, -1);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void more_are_closed(void **state)
{
	char data[8];

	(void)state;
	for (int count = 2; count <= MOST; count++) {
		int before = count_fds(), ends[2], got = -1;

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		send_with(ends[0], count);
		assert_int_equal(pass_receive(ends[1], data, sizeof(data), &got), -EPROTO);
		assert_int_equal(got, -1);
		close(ends[0]);
		close(ends[1]);
		assert_int_equal(count_fds(), before);
	}
}

/* Also when the packet itself is refused. */
static void what_comes_with_a_packet_too_long_is_closed(void **state)
{
	int before = count_fds(), ends[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got = -1;
	char data[8], packet[sizeof(data) + 1] = "";

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(pass_send(ends[0], packet, sizeof(packet), fd), 0);
	assert_int_equal(pass_receive(ends[1], data, sizeof(data), &got), -EPROTO);
	assert_int_equal(got, -1);
	close(fd);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(count_fds(), before);
}

int main(void)
{
	RUN_TESTS(TEST(one_is_taken), TEST(more_are_closed),
		  TEST(what_comes_with_a_packet_too_long_is_closed));
}
