/* SPDX-License-Identifier: MIT */
/* INV-NO-REFLECTION: the secret is taken out of a stream, however it is cut. */
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

static struct scrub_set *make_set(const char *value, const char *placeholder)
{
	struct scrub_secret secret = { bytes_of(value), bytes_of(placeholder) };
	struct scrub_set *set = NULL;

	assert_int_equal(scrub_set_new(&secret, 1, &set), 0);
	return set;
}

static void scrub_in_pieces(const struct scrub_set *set, const char *text, size_t len, size_t first,
			    size_t others)
{
	struct scrub scrub = { .held = NULL };
	struct bytes rest = { text, len };

	out_len = 0;
	for (size_t size = first; rest.len > 0; size = others)
		scrub_push(&scrub, set, bytes_take(&rest, size < rest.len ? size : rest.len), emit,
			   NULL);
	scrub_finish(&scrub, set, emit, NULL);
}

static void assert_at_every_cut(const struct scrub_set *set, const char *text, const char *expected)
{
	size_t len = strlen(text);

	assert_int_equal(strlen(expected), len);
	for (size_t cut = 1; cut <= len; cut++) {
		for (size_t others = 1; others <= len; others++) {
			scrub_in_pieces(set, text, len, cut, others);
			assert_int_equal(out_len, len);
			assert_memory_equal(out, expected, len);
		}
	}
}

static void it_is_taken_out_at_every_cut(void **state)
{
	static const struct {
		const char *secret, *text, *expected;
	} rows[] = {
		{ "sk-123", "sk-123", "******" },
		{ "sk-123", "xsk-123ysk-123sk-123z", "x******y************z" },
		{ "sk-123", "sk-12sk-1sk-sksk-123s", "sk-12sk-1sk-sk******s" },
		{ "aab", "aaaab aab aaaab", "aa*** *** aa***" },
		{ "aaa", "aaaaaaaa", "******aa" },
		{ "abab", "abababab ab aba abab", "******** ab aba ****" },
		{ "x", "axbxxc", "a*b**c" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct scrub_set *set = make_set(rows[i].secret, "");

		assert_at_every_cut(set, rows[i].text, rows[i].expected);
		scrub_set_free(set);
	}
}

static void each_form_becomes_the_placeholder_s(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "key sk-se/cret\"99.", "key sk-XY/ZABC\"11." },
		{ "{\"k\":\"sk-se/cret\\\"99\"}", "{\"k\":\"sk-XY/ZABC\\\"11\"}" },
		{ "{\"k\":\"sk-se\\/cret\\\"99\"}", "{\"k\":\"sk-XY\\/ZABC\\\"11\"}" },
		{ "sk\\u002dse\\u002fcret\\u002299", "sk\\u002dXY\\u002fZABC\\u002211" },
		{ "?k=sk-se%2Fcret%2299&", "?k=sk-XY%2FZABC%2211&" },
		{ "?k=sk-se%2fcret%2299&", "?k=sk-XY%2fZABC%2211&" },
		{ "736b2d73652f637265742239390a", "736b2d58592f5a4142432231310a" },
		{ "736B2D73652F637265742239390A", "736B2D58592F5A4142432231310A" },
		{ "c2stc2UvY3JldCI5OQ==", "c2stWFkvWkFCQyIxMQ==" },         /* it alone */
		{ "dTpzay1zZS9jcmV0Ijk5Og==", "dTpzay1YWS9aQUJDIjExOg==" }, /* u:it: */
		{ "OnNrLXNlL2NyZXQiOTk=", "OnNrLVhZL1pBQkMiMTE=" },         /* :it */
		{ "sk-se/cret\"9 and sk-se/cret9", "sk-se/cret\"9 and sk-se/cret9" },
	};
	struct scrub_set *set = make_set("sk-se/cret\"99", "sk-XY/ZABC\"11");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_at_every_cut(set, rows[i].text, rows[i].expected);
	scrub_set_free(set);
}

/* A base64 digit that the secret shares with its neighbours says at most four bits of it. */
static void base64_shows_no_more_than_its_ends(void **state)
{
	struct scrub_set *set = make_set("0123456789abcdef", "ABCDEFGHIJKLMNOP");

	(void)state;
	/* base64 of "xx", the secret, "y": only the digits at both ends stay. */
	assert_at_every_cut(set, "eHgwMTIzNDU2Nzg5YWJjZGVmeQ==", "eHgBQkNERUZHSElKS0xNTk9QeQ==");
	scrub_set_free(set);
}

static void placeholders_of_other_lengths_are_fitted(void **state)
{
	struct scrub_set *set = make_set("0123456789", "abc");

	(void)state;
	assert_at_every_cut(set, "<0123456789>", "<abc*******>");
	scrub_set_free(set);
	set = make_set("0123456789", "abcdefghijklmnop");
	assert_at_every_cut(set, "<0123456789>", "<abcdefghij>");
	scrub_set_free(set);
}

static void many_secrets_are_taken_out_at_once(void **state)
{
	const struct scrub_secret secrets[] = {
		{ BYTES("password1"), BYTES("AAAAAAAAA") },
		{ BYTES("postgres://u:password1@h"), BYTES("BBBBBBBB://B:BBBBBBBBB@B") },
		{ BYTES("password1"), BYTES("CCCCCCCCC") },
	};
	struct scrub_set *set = NULL;

	(void)state;
	assert_int_equal(scrub_set_new(secrets, ARRAY_LEN(secrets), &set), 0);
	assert_at_every_cut(set, "postgres://u:password1@x password1 postgres://u:password1@h",
			    "postgres://u:AAAAAAAAA@x AAAAAAAAA BBBBBBBB://B:BBBBBBBBB@B");
	scrub_set_free(set);
}

static void a_whole_text_is_scrubbed(void **state)
{
	struct scrub_set *set = make_set("sk-12345", "sk-abcde");
	char text[32];

	(void)state;
	assert_true(scrub_text(set, BYTES("Bearer sk-12345;"), text));
	assert_memory_equal(text, "Bearer sk-abcde;", 16);
	assert_false(scrub_text(set, BYTES("Bearer sk-1234"), text));
	assert_memory_equal(text, "Bearer sk-1234", 14);
	assert_true(scrub_is_in(set, BYTES("a sk-12345")));
	assert_true(scrub_is_in(set, BYTES("736b2d3132333435")));
	assert_false(scrub_is_in(set, BYTES("a sk-1234")));
	scrub_set_free(set);
}

static void what_cannot_be_looked_for_is_refused(void **state)
{
	struct scrub_secret secrets[SCRUB_SECRETS_MAX + 1] = { 0 };
	struct scrub_set *set = NULL;

	(void)state;
	assert_int_equal(scrub_set_new(secrets, 1, &set), -EINVAL);
	assert_int_equal(scrub_set_new(secrets, ARRAY_LEN(secrets), &set), -E2BIG);
	assert_null(set);
}

/* An event of a stream is not held back for what follows it. */
static void what_cannot_begin_a_secret_goes_on_at_once(void **state)
{
	struct scrub_set *set = make_set("sk-123", "");
	struct scrub scrub = { .held = NULL };

	(void)state;
	out_len = 0;
	scrub_push(&scrub, set, BYTES("data: tasks\n\n"), emit, NULL);
	assert_int_equal(out_len, 13);
	scrub_push(&scrub, set, BYTES("data: s"), emit, NULL);
	assert_int_equal(out_len, 19); /* the last byte could */
	scrub_push(&scrub, set, BYTES("\n\n"), emit, NULL);
	assert_int_equal(out_len, 22);
	scrub_set_free(set);
}

/* Which ends are held back must tell nothing: guesses are delayed alike, right or wrong. */
static void right_and_wrong_guesses_are_held_back_alike(void **state)
{
	static const char *const guesses[] = {
		"sk-12", "sk-13", "xx-12", "sk-1", "aaaa", "s", "q"
	};
	struct scrub_set *set = make_set("sk-123", "");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(guesses); i++) {
		struct scrub scrub = { .held = NULL };

		out_len = 0;
		scrub_push(&scrub, set, bytes_of(guesses[i]), emit, NULL);
		assert_int_equal(out_len, 0);
		scrub_finish(&scrub, set, emit, NULL);
		assert_int_equal(out_len, strlen(guesses[i]));
	}
	scrub_set_free(set);
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
	RUN_TESTS(TEST(it_is_taken_out_at_every_cut), TEST(each_form_becomes_the_placeholder_s),
		  TEST(base64_shows_no_more_than_its_ends),
		  TEST(placeholders_of_other_lengths_are_fitted),
		  TEST(many_secrets_are_taken_out_at_once), TEST(a_whole_text_is_scrubbed),
		  TEST(what_cannot_be_looked_for_is_refused),
		  TEST(what_cannot_begin_a_secret_goes_on_at_once),
		  TEST(right_and_wrong_guesses_are_held_back_alike),
		  TEST(without_a_secret_everything_goes_through));
}
