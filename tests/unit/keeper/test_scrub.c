/* SPDX-License-Identifier: MIT */
/* INV-NO-REFLECTION: the secret is taken out of a stream, however it is cut. */
#include <stdlib.h>

#include "unit.h"

#include "keeper/scrub.h"

static char out[4096];
static size_t out_len;

static void emit(void *owner, struct bytes data)
{
	(void)owner;
	memcpy(out + out_len, data.data, data.len);
	out_len += data.len;
}

static struct secret *open_secret(const char *value)
{
	struct secret *secret = NULL;
	struct err err;

	setenv("SCRUBBED", value, 1);
	assert_int_equal(secret_open("env:SCRUBBED", &secret, &err), 0);
	return secret;
}

/* What should come of it, found the slow way: leftmost matches, none overlapping. */
static void scrub_slowly(const char *text, size_t len, const char *secret, char *ret_text)
{
	size_t secret_len = strlen(secret);

	memcpy(ret_text, text, len);
	for (size_t i = 0; i + secret_len <= len;) {
		if (memcmp(text + i, secret, secret_len) == 0) {
			memset(ret_text + i, '*', secret_len);
			i += secret_len;
		} else {
			i++;
		}
	}
}

static void scrub_in_pieces(const struct scrub_pattern *pattern, const char *text, size_t len,
			    size_t first, size_t others)
{
	struct scrub scrub = { .held = NULL };
	struct bytes rest = { text, len };

	out_len = 0;
	for (size_t size = first; rest.len > 0; size = others)
		scrub_push(&scrub, pattern, bytes_take(&rest, size < rest.len ? size : rest.len),
			   emit, NULL);
	scrub_finish(&scrub, pattern, emit, NULL);
}

static void it_is_taken_out_at_every_cut(void **state)
{
	static const struct {
		const char *secret, *text;
	} rows[] = {
		{ "sk-123", "sk-123" },
		{ "sk-123", "xsk-123ysk-123sk-123z" },
		{ "sk-123", "sk-12sk-1sk-sksk-123s" },
		{ "aab", "aaaab aab aaaab" },
		{ "aaa", "aaaaaaaa" },
		{ "abab", "abababab ab aba abab" },
		{ "abcabd", "abcabcabdabcab" },
		{ "x", "axbxxc" },
		{ "a b,c", "a b a b,c a b,ca b,c" },
		{ "sk-123", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct secret *secret = open_secret(rows[i].secret);
		struct scrub_pattern *pattern = scrub_pattern_new(secret);
		size_t len = strlen(rows[i].text);
		char expected[256];

		scrub_slowly(rows[i].text, len, rows[i].secret, expected);
		for (size_t cut = 1; cut <= len; cut++) {
			for (size_t others = 1; others <= len; others++) {
				scrub_in_pieces(pattern, rows[i].text, len, cut, others);
				assert_int_equal(out_len, len);
				assert_memory_equal(out, expected, len);
			}
		}
		scrub_pattern_free(pattern);
		secret_free(secret);
	}
}

static void it_agrees_with_the_slow_way(void **state)
{
	(void)state;
	srand(1);
	for (int round = 0; round < 3000; round++) {
		char secret_text[8] = "", text[128], expected[128];
		size_t secret_len = 1 + (size_t)rand() % 6, len = (size_t)rand() % sizeof(text);
		struct scrub_pattern *pattern;
		struct secret *secret;

		for (size_t i = 0; i < secret_len; i++)
			secret_text[i] = (char)('a' + rand() % 2);
		for (size_t i = 0; i < len; i++)
			text[i] = (char)('a' + rand() % 3);
		secret = open_secret(secret_text);
		pattern = scrub_pattern_new(secret);
		scrub_slowly(text, len, secret_text, expected);
		scrub_in_pieces(pattern, text, len, 1 + (size_t)rand() % 9, 1 + (size_t)rand() % 9);
		assert_int_equal(out_len, len);
		assert_memory_equal(out, expected, len);
		scrub_pattern_free(pattern);
		secret_free(secret);
	}
}

/* An event of a stream is not held back for what follows it. */
static void an_event_goes_on_at_once(void **state)
{
	struct secret *secret = open_secret("sk-123");
	struct scrub_pattern *pattern = scrub_pattern_new(secret);
	struct scrub scrub = { .held = NULL };

	(void)state;
	out_len = 0;
	scrub_push(&scrub, pattern, BYTES("data: {\"x\":\"sk-\"}\n\n"), emit, NULL);
	assert_int_equal(out_len, 19);
	scrub_finish(&scrub, pattern, emit, NULL);
	scrub_pattern_free(pattern);
	secret_free(secret);
}

/* Which ends are held back must tell nothing: guesses are delayed alike, right or wrong. */
static void right_and_wrong_guesses_are_held_back_alike(void **state)
{
	static const char *const guesses[] = {
		"sk-12", "sk-13", "xx-12", "sk-1", "aaaa", "s", "q"
	};
	struct secret *secret = open_secret("sk-123");
	struct scrub_pattern *pattern = scrub_pattern_new(secret);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(guesses); i++) {
		struct scrub scrub = { .held = NULL };

		out_len = 0;
		scrub_push(&scrub, pattern, bytes_of(guesses[i]), emit, NULL);
		assert_int_equal(out_len, 0);
		scrub_finish(&scrub, pattern, emit, NULL);
		assert_int_equal(out_len, strlen(guesses[i]));
	}
	scrub_pattern_free(pattern);
	secret_free(secret);
}

static void without_a_secret_everything_goes_through(void **state)
{
	(void)state;
	scrub_in_pieces(NULL, "abc", 3, 1, 1);
	assert_int_equal(out_len, 3);
	assert_false(scrub_is_in(NULL, BYTES("abc")));
}

int main(void)
{
	RUN_TESTS(TEST(it_is_taken_out_at_every_cut), TEST(it_agrees_with_the_slow_way),
		  TEST(an_event_goes_on_at_once), TEST(right_and_wrong_guesses_are_held_back_alike),
		  TEST(without_a_secret_everything_goes_through));
}
