/* SPDX-License-Identifier: MIT */
/* The keys of WebSocket's handshake. */
#include "unit.h"

#include "tls/ws_key.h"

static void the_accept_is_as_in_the_rfc(void **state)
{
	struct bytes key = BYTES("dGhlIHNhbXBsZSBub25jZQ==");
	char accept[WS_ACCEPT_TEXT_LEN + 1];

	(void)state;
	assert_true(ws_key_is_valid(key));
	ws_key_accept(key, accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void keys_are_valid_and_differ(void **state)
{
	char one[WS_KEY_TEXT_LEN + 1], other[WS_KEY_TEXT_LEN + 1];

	(void)state;
	ws_key_make(one);
	ws_key_make(other);
	assert_true(ws_key_is_valid(bytes_of(one)));
	assert_true(ws_key_is_valid(bytes_of(other)));
	assert_string_not_equal(one, other);
}

/* RFC 6455 4.1: base64 of 16 bytes. */
static void what_is_no_key_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"dGhlIHNhbXBsZSBub25jZQ",
		"dGhlIHNhbXBsZSBub25jZQ=",
		"dGhlIHNhbXBsZSBub25jZR==", /* a bit that means nothing */
		"dGhlIHNhbXBsZSBub25jZQQ=", /* 17 bytes */
		"dGhlIHNhbXBsZSBub25jZQQQ", /* 18 bytes */
		"dGhlIHNhbXBsZSBub25j====", /* 15 bytes, and what they are not */
		"dGhlIHNhbXBsZSBub25j=Q==",
		"dGhlIHNhbXBsZSBub25jZ===",
		"dGhlIHNhbXBsZSBub2-jZQ==", /* base64url */
		"dGhlIHNhbXBsZSBub25 ZQ==",
		" GhlIHNhbXBsZSBub25jZQ==",
		"dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ==",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (ws_key_is_valid(bytes_of(rows[i])))
			fail_msg("'%s' was taken for a key", rows[i]);
}

int main(void)
{
	RUN_TESTS(TEST(the_accept_is_as_in_the_rfc), TEST(keys_are_valid_and_differ),
		  TEST(what_is_no_key_is_refused));
}
