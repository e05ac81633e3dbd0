/* SPDX-License-Identifier: MIT */
/* A plain socket as a stream. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "net/stream.h"

static struct stream stream;
static int peer_fd;

static int set_up(void **state)
{
	int fds[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	stream_init_plain(&stream, fds[0]);
	peer_fd = fds[1];
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	stream_close(&stream);
	stream_close(&stream); /* twice does no harm */
	close_fd(&peer_fd);
	return 0;
}

static void bytes_go_both_ways(void **state)
{
	char data[8];

	(void)state;
	assert_int_equal(stream_write(&stream, "ping", 4), 4);
	assert_int_equal(read(peer_fd, data, sizeof(data)), 4);
	assert_memory_equal(data, "ping", 4);
	assert_int_equal(write(peer_fd, "pong", 4), 4);
	assert_int_equal(stream_read(&stream, data, 3), 3);
	assert_int_equal(stream_read(&stream, data + 3, 5), 1);
	assert_memory_equal(data, "pong", 4);
	assert_false(stream.has_pending);
}

static void nothing_there_says_what_to_wait_for(void **state)
{
	static const char block[65536];
	char data[8];
	ssize_t n;

	(void)state;
	assert_int_equal(stream_read(&stream, data, sizeof(data)), -EAGAIN);
	assert_int_equal(stream.waits_for, LOOP_READ);
	do {
		n = stream_write(&stream, block, sizeof(block));
	} while (n > 0);
	assert_int_equal(n, -EAGAIN);
	assert_int_equal(stream.waits_for, LOOP_WRITE);
}

/* The descriptor's flags are shared with whoever it came from. */
static void what_blocks_by_itself_does_not_block_here(void **state)
{
	assert_int_equal(fcntl(stream.fd, F_SETFL, 0), 0);
	nothing_there_says_what_to_wait_for(state);
}

static void an_end_is_an_end(void **state)
{
	char data[8];

	(void)state;
	assert_int_equal(write(peer_fd, "x", 1), 1);
	close_fd(&peer_fd);
	assert_int_equal(stream_read(&stream, data, sizeof(data)), 1);
	assert_int_equal(stream_read(&stream, data, sizeof(data)), 0);
}

/* The default action of SIGPIPE would end this program. */
static void a_write_to_nobody_is_an_error(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_DFL);
	close_fd(&peer_fd);
	assert_int_equal(stream_write(&stream, "x", 1), -EPIPE);
}

static void closing_closes(void **state)
{
	int fd = stream.fd;

	(void)state;
	stream_close(&stream);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(stream.fd, -1);
}

static void what_was_never_opened_can_be_closed(void **state)
{
	struct stream zeroed = { 0 };

	(void)state;
	stream_close(&zeroed);
	assert_int_equal(zeroed.fd, -1);
}

#define STREAM_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(STREAM_TEST(bytes_go_both_ways), STREAM_TEST(nothing_there_says_what_to_wait_for),
		  STREAM_TEST(what_blocks_by_itself_does_not_block_here),
		  STREAM_TEST(an_end_is_an_end), STREAM_TEST(a_write_to_nobody_is_an_error),
		  STREAM_TEST(closing_closes), TEST(what_was_never_opened_can_be_closed));
}
