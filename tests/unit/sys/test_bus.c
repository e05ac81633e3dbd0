/* SPDX-License-Identifier: MIT */
/* D-Bus values are laid out as the specification says, and answers are not trusted. */
#include "unit.h"

#include <pthread.h>
#include <sys/socket.h>

#include "sys/bus.h"

static void values_are_aligned(void **state)
{
	struct bus_message message = { .len = 0 };
	size_t array;

	(void)state;
	bus_put_byte(&message, 1);
	bus_put_u32(&message, 0x04030201);
	bus_put_string(&message, "ab");
	array = bus_open_array(&message, 8);
	bus_align(&message, 8);
	bus_put_string(&message, "k");
	bus_put_signature(&message, "u");
	bus_put_u32(&message, 7);
	bus_close_array(&message, array, 8);
	assert_memory_equal(message.data,
			    "\1\0\0\0"
			    "\1\2\3\4"
			    "\2\0\0\0ab\0\0"
			    "\20\0\0\0\0\0\0\0"
			    "\1\0\0\0k\0\1u\0\0\0\0"
			    "\7\0\0\0",
			    40);
	assert_int_equal(message.len, 40);
}

/* Plays a bus that answers every call with the same bytes, then hangs up. */
struct peer {
	int fd;
	const unsigned char *answer;
	size_t len;
};

static void *play(void *data)
{
	struct peer *peer = data;
	char call[1024];

	if (read(peer->fd, call, sizeof(call)) > 0)
		while (peer->len > 0) {
			ssize_t n = write(peer->fd, peer->answer, peer->len);

			if (n <= 0)
				break;
			peer->answer += n;
			peer->len -= (size_t)n;
		}
	close(peer->fd);
	return NULL;
}

static int call(const unsigned char *answer, size_t len, struct err *err)
{
	static const struct bus_call nothing = { "d", "/p", "i", "M", "" };
	struct peer peer;
	pthread_t thread;
	int fds[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	peer = (struct peer){ fds[1], answer, len };
	assert_int_equal(pthread_create(&thread, NULL, play, &peer), 0);
	r = bus_send_call(fds[0], &nothing, NULL, err);
	close(fds[0]);
	pthread_join(thread, NULL);
	return r;
}

/* A refusal to serial 1: type 3, the field REPLY_SERIAL, and a text in the body. */
static unsigned char error_answer[] = {
	'l', 3, 0,   1, 8,   0,   0,   0, 9, 0, 0, 0, 8, 0, 0, 0, /* head */
	5,   1, 'u', 0, 1,   0,   0,   0,                         /* answers call 1 */
	3,   0, 0,   0, 'n', 'o', '!', 0,                         /* "no!" */
};

static void an_error_is_reported_in_its_words(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(call(error_answer, sizeof(error_answer), &err), -EREMOTEIO);
	assert_string_equal(err.text, "M refused: no!");
}

/* Whatever byte is different, the answer is taken or refused, never followed blindly. */
static void any_changed_byte_is_survived(void **state)
{
	unsigned char answer[sizeof(error_answer)];
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(answer); i++)
		for (int value = 0; value < 256; value += 51) {
			memcpy(answer, error_answer, sizeof(answer));
			answer[i] = (unsigned char)value;
			assert_true(call(answer, sizeof(answer), &err) <= 0);
		}
	for (size_t len = 0; len < sizeof(answer); len++)
		assert_true(call(error_answer, len, &err) < 0);
}

int main(void)
{
	RUN_TESTS(TEST(values_are_aligned), TEST(an_error_is_reported_in_its_words),
		  TEST(any_changed_byte_is_survived));
}
