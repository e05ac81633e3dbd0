/* SPDX-License-Identifier: MIT */
/* Run tokens: byte for byte what node's crypto makes, and nothing else (INV-RUN-IDENTITY). */
#include "unit.h"

#include "keeper/token.h"

/* Made with createHmac("sha256", secret).update(data).digest("base64url") of node. */
static const struct {
	const char *secret;
	struct token token;
	const char *text;
} vectors[] = {
	{ "secret",
	  { "task-123", 0, 1770000000 },
	  "task-123|0|1770000000.qxjfTtSccy7Iu7U32nPpSzAimctP20vbcw5tOba-WPk" },
	{ "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
	  "kk"
	  "kkkkkkkkkk",
	  { "01ARYZ6S410000000000000000", 7, 1999999999 },
	  "01ARYZ6S410000000000000000|7|1999999999.VCBC3w3rdWizrusgabxnqRCcbBVKbP1oK4ltig52jlM" },
	{ "\xc3\xbc\xc3\xb1\xc3\xad",
	  { "a.b-c_d", 4294967295, 4102444800 },
	  "a.b-c_d|4294967295|4102444800.djGFiSk09pj4Ty6B-VZnU9F7aO_bhYfzP18yIW9R0t0" },
	{ "x", { "r", 1, 1 }, "r|1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts" },
};

static struct secret *open_secret(const char *value)
{
	struct secret *secret = NULL;
	struct err err;

	setenv("TEST_SECRET", value, 1);
	assert_int_equal(secret_open("env:TEST_SECRET", &secret, &err), 0);
	return secret;
}

static void tokens_are_nodes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		struct secret *secret = open_secret(vectors[i].secret);
		struct token token;
		char text[TOKEN_MAX];

		token_mint(&vectors[i].token, secret, text);
		assert_string_equal(text, vectors[i].text);
		assert_int_equal(token_verify(bytes_of(text), secret, 0, &token), TOKEN_VALID);
		assert_string_equal(token.run_id, vectors[i].token.run_id);
		assert_int_equal(token.attempt, vectors[i].token.attempt);
		assert_int_equal(token.expiry, vectors[i].token.expiry);
		secret_free(secret);
	}
}

static void any_change_is_noticed(void **state)
{
	struct secret *secret = open_secret("secret");
	char text[TOKEN_MAX];
	struct token token;
	size_t len;

	(void)state;
	token_mint(&vectors[0].token, secret, text);
	len = strlen(text);
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++) {
			text[i] ^= (char)(1 << bit);
			assert_int_not_equal(
				token_verify((struct bytes){ text, len }, secret, 0, &token),
				TOKEN_VALID);
			text[i] ^= (char)(1 << bit);
		}
	for (size_t cut = 0; cut < len; cut++)
		assert_int_not_equal(token_verify((struct bytes){ text, cut }, secret, 0, &token),
				     TOKEN_VALID);
	assert_int_equal(token_verify((struct bytes){ text, len }, secret, 0, &token), TOKEN_VALID);
	secret_free(secret);
}

static void the_clock_and_the_secret_count(void **state)
{
	struct secret *secret = open_secret("secret"), *other = open_secret("Secret");
	struct bytes text = bytes_of(vectors[0].text);
	struct token token;

	(void)state;
	assert_int_equal(token_verify(text, secret, 1770000000, &token), TOKEN_VALID);
	assert_int_equal(token_verify(text, secret, 1770000001, &token), TOKEN_EXPIRED);
	assert_int_equal(token_verify(text, other, 0, &token), TOKEN_FORGED);
	secret_free(secret);
	secret_free(other);
}

/* Rightly signed, but not of the form: nobody who holds the secret writes these. */
static void other_forms_are_malformed(void **state)
{
	static const char *const texts[] = {
		"",
		".",
		"r|1|1",
		"r|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r||1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|01|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|+1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|1|1|.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|1|99999999999.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|4294967296|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"../r|1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"|1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
		"r|1|1.-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts=",
		"r|1|1,-Udx-c_4BQT5W_ad5sSMfecFalpFOgEhqb_PNSRT6ts",
	};
	struct secret *secret = open_secret("x");
	struct token token;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (token_verify(bytes_of(texts[i]), secret, 0, &token) != TOKEN_MALFORMED)
			fail_msg("not malformed: '%s'", texts[i]);
	secret_free(secret);
}

static void an_error_never_shows_a_secret(void **state)
{
	struct secret *secret = NULL;
	struct err err;

	(void)state;
	assert_true(secret_open("sk-live-0123456789", &secret, &err) < 0);
	assert_null(strstr(err.text, "sk-live"));
	assert_true(secret_open("env:NO_SUCH_VARIABLE", &secret, &err) < 0);
	assert_non_null(strstr(err.text, "NO_SUCH_VARIABLE"));
	assert_true(secret_open("file:/nonexistent", &secret, &err) < 0);
	setenv("TEST_SECRET", "", 1);
	assert_true(secret_open("env:TEST_SECRET", &secret, &err) < 0);
	assert_null(secret);
}

int main(void)
{
	RUN_TESTS(TEST(tokens_are_nodes), TEST(any_change_is_noticed),
		  TEST(the_clock_and_the_secret_count), TEST(other_forms_are_malformed),
		  TEST(an_error_never_shows_a_secret));
}
