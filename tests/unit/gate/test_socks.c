/* SPDX-License-Identifier: MIT */
/* SOCKS5: what a client says, whole and byte by byte, and what it is answered. */
#include <stdbool.h>
#include <stdlib.h>

#include "unit.h"

#include "gate/socks.h"

#define HELLO     "\5\1\0"
#define HELLO_LEN 3

/* What came of one conversation. */
struct outcome {
	enum socks_event event; /* the last one */
	char sent[64];
	size_t sent_len;
	size_t left; /* of the input */
	struct socks_result result;
};

static struct outcome talk(struct bytes said, size_t step)
{
	struct outcome outcome = { .event = SOCKS_NEEDS_MORE };
	struct socks socks = { .state = SOCKS_GREETING };
	struct bytes rest = said;

	while (rest.len > 0 && outcome.event != SOCKS_CONNECT && outcome.event != SOCKS_CLOSE) {
		struct bytes piece = { rest.data, rest.len < step ? rest.len : step };
		size_t len = piece.len;

		outcome.event = socks_read(&socks, &piece, &outcome.result);
		assert_true(outcome.sent_len + outcome.result.reply.len <= sizeof(outcome.sent));
		if (outcome.result.reply.len > 0)
			memcpy(outcome.sent + outcome.sent_len, outcome.result.reply.data,
			       outcome.result.reply.len);
		outcome.sent_len += outcome.result.reply.len;
		bytes_take(&rest, len - piece.len);
	}
	outcome.left = rest.len;
	return outcome;
}

static const struct {
	struct bytes said;
	enum socks_event event;
	struct bytes sent;
	const char *host;
	uint16_t port;
	size_t left;
} cases[] = {
	{ { HELLO, 3 }, SOCKS_SEND, { "\5\0", 2 }, "", 0, 0 },
	{ { "\5\3\2\1\0", 5 }, SOCKS_SEND, { "\5\0", 2 }, "", 0, 0 },
	{ { "\5\2\2\1", 4 }, SOCKS_CLOSE, { "\5\xff", 2 }, "", 0, 0 },
	{ { "\5\0", 2 }, SOCKS_CLOSE, { "\5\xff", 2 }, "", 0, 0 },
	{ { "\4\1\0\x50", 4 }, SOCKS_CLOSE, { "", 0 }, "", 0, 2 },
	{ { HELLO "\5\1\0\3\x09"
		  "a.example\1\xbb",
	    HELLO_LEN + 16 },
	  SOCKS_CONNECT,
	  { "\5\0", 2 },
	  "a.example",
	  443,
	  0 },
	{ { HELLO "\5\1\0\3\x09"
		  "A.Example\1\xbbrest",
	    HELLO_LEN + 20 },
	  SOCKS_CONNECT,
	  { "\5\0", 2 },
	  "A.Example",
	  443,
	  4 },
	{ { HELLO "\5\1\0\1\xc0\0\2\1\0\x50", HELLO_LEN + 10 },
	  SOCKS_CONNECT,
	  { "\5\0", 2 },
	  "192.0.2.1",
	  80,
	  0 },
	{ { HELLO "\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\x1f\x90", HELLO_LEN + 22 },
	  SOCKS_CONNECT,
	  { "\5\0", 2 },
	  "2001:db8::1",
	  8080,
	  0 },
	{ { HELLO "\5\1\0\3\x0f"
		  "2001:DB8:0::0:1\0\x50",
	    HELLO_LEN + 22 },
	  SOCKS_CONNECT,
	  { "\5\0", 2 },
	  "2001:db8::1",
	  80,
	  0 },
	/* BIND, UDP, an unknown kind of address, something where nothing should be, port 0 */
	{ { HELLO "\5\2\0\1\1\2\3\4\0\1", HELLO_LEN + 10 },
	  SOCKS_CLOSE,
	  { "\5\0\5\7\0\1\0\0\0\0\0\0", 12 },
	  "",
	  0,
	  0 },
	{ { HELLO "\5\3\0\1\1\2\3\4\0\1", HELLO_LEN + 10 },
	  SOCKS_CLOSE,
	  { "\5\0\5\7\0\1\0\0\0\0\0\0", 12 },
	  "",
	  0,
	  0 },
	{ { HELLO "\5\1\0\2", HELLO_LEN + 4 },
	  SOCKS_CLOSE,
	  { "\5\0\5\x08\0\1\0\0\0\0\0\0", 12 },
	  "",
	  0,
	  0 },
	{ { HELLO "\5\1\1\1\1\2\3\4\0\1", HELLO_LEN + 10 },
	  SOCKS_CLOSE,
	  { "\5\0\5\1\0\1\0\0\0\0\0\0", 12 },
	  "",
	  0,
	  0 },
	{ { HELLO "\5\1\0\1\1\2\3\4\0\0", HELLO_LEN + 10 },
	  SOCKS_CLOSE,
	  { "\5\0\5\1\0\1\0\0\0\0\0\0", 12 },
	  "",
	  0,
	  0 },
	{ { HELLO "\4\1\0\1", HELLO_LEN + 4 }, SOCKS_CLOSE, { "\5\0", 2 }, "", 0, 0 },
};

static void check(size_t i, size_t step)
{
	struct outcome outcome = talk(cases[i].said, step);

	if (outcome.event != cases[i].event || outcome.sent_len != cases[i].sent.len ||
	    memcmp(outcome.sent, cases[i].sent.data, outcome.sent_len) != 0 ||
	    strcmp(outcome.result.host, cases[i].host) != 0 || outcome.result.port != cases[i].port)
		fail_msg("case %zu, %zu bytes at a time: event %d, host '%s'", i, step,
			 outcome.event, outcome.result.host);
	if (outcome.event == SOCKS_CONNECT)
		assert_int_equal(outcome.left, cases[i].left);
}

static void conversations_go_as_they_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step <= 64; step++)
			check(i, step);
}

/* What could say more than a name where hosts are parsed. */
static void what_is_no_name_is_refused(void **state)
{
	static const struct bytes names[] = {
		{ "", 0 },     { "a:80", 4 },  { "u@a", 3 },   { "a b", 3 },
		{ "a\0b", 3 }, { "a/b", 3 },   { "[::1]", 5 }, { "\xc3\xa4.de", 5 },
		{ "a%2e", 4 }, { "a\r\n", 3 }, { "*.a", 3 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char said[64] = HELLO "\5\1\0\3";
		struct outcome outcome;

		said[7] = (char)names[i].len;
		memcpy(said + 8, names[i].data, names[i].len);
		memcpy(said + 8 + names[i].len, "\1\xbb", 2);
		outcome = talk((struct bytes){ said, 10 + names[i].len }, 64);
		if (outcome.event != SOCKS_CLOSE || outcome.sent[3] != SOCKS_FAILED)
			fail_msg("case %zu", i);
	}
}

static void the_longest_name_fits(void **state)
{
	char said[HELLO_LEN + SOCKS_MESSAGE_MAX] = HELLO "\5\1\0\3\xff";
	struct outcome outcome;

	(void)state;
	memset(said + 8, 'a', 255);
	said[sizeof(said) - 1] = 1;
	outcome = talk((struct bytes){ said, sizeof(said) }, sizeof(said));
	assert_int_equal(outcome.event, SOCKS_CONNECT);
	assert_int_equal(strlen(outcome.result.host), 255);
	assert_int_equal(outcome.result.port, 1);
}

static void replies_are_ten_bytes(void **state)
{
	char reply[SOCKS_REPLY_LEN];

	(void)state;
	socks_format_reply(SOCKS_SUCCEEDED, reply);
	assert_memory_equal(reply, "\5\0\0\1\0\0\0\0\0\0", sizeof(reply));
	socks_format_reply(SOCKS_NOT_ALLOWED, reply);
	assert_memory_equal(reply, "\5\2\0\1\0\0\0\0\0\0", sizeof(reply));
}

int main(void)
{
	RUN_TESTS(TEST(conversations_go_as_they_should), TEST(what_is_no_name_is_refused),
		  TEST(the_longest_name_fits), TEST(replies_are_ten_bytes));
}
