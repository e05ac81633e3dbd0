/* SPDX-License-Identifier: MIT */
/* Several keys at once: each verifies, the newest signs, and one that is gone is gone. */
#include "unit.h"

#include "keeper/keyring.h"

static const struct token run = { "r-1", 2, 2000000000 };

static struct secret *open_secret(const char *value)
{
	struct secret *secret = NULL;
	struct err err;

	setenv("TEST_SECRET", value, 1);
	assert_int_equal(secret_open("env:TEST_SECRET", &secret, &err), 0);
	return secret;
}

static bool has(const struct keyring *ring, const char *value)
{
	struct secret *secret = open_secret(value);
	bool is_there = keyring_has(ring, secret);

	secret_free(secret);
	return is_there;
}

static void add(struct keyring *ring, const char *id, const char *value)
{
	struct err err;

	assert_int_equal(keyring_add(ring, id, open_secret(value), &err), 0);
}

/* A token of every key there ever was, as its holder minted it when it was the newest. */
static void keys_take_turns(void **state)
{
	char ids[KEYRING_MAX][8], texts[KEYRING_MAX][TOKEN_MAX];
	struct keyring ring = { .count = 0 };
	const char *id;
	struct token token;

	(void)state;
	for (int i = 0; i < KEYRING_MAX; i++) {
		struct secret *alone;

		snprintf(ids[i], sizeof(ids[i]), "k%d", i);
		add(&ring, ids[i], ids[i]);
		keyring_mint(&ring, &run, texts[i]);
		/* Byte for byte what one secret makes. */
		alone = open_secret(ids[i]);
		assert_int_equal(token_verify(bytes_of(texts[i]), alone, 0, &token), TOKEN_VALID);
		secret_free(alone);
	}
	for (int i = 0; i < KEYRING_MAX; i++) {
		id = NULL;
		assert_int_equal(keyring_verify(&ring, bytes_of(texts[i]), 0, &token, &id),
				 TOKEN_VALID);
		assert_string_equal(id, ids[i]);
		assert_string_equal(token.run_id, "r-1");
		assert_int_equal(token.attempt, 2);
	}
	for (int i = 0; i < KEYRING_MAX; i++) {
		assert_true(keyring_remove(&ring, ids[i]));
		assert_false(keyring_remove(&ring, ids[i]));
		for (int k = 0; k < KEYRING_MAX; k++)
			assert_int_equal(keyring_verify(&ring, bytes_of(texts[k]), 0, &token, NULL),
					 k > i ? TOKEN_VALID : TOKEN_FORGED);
	}
	keyring_fini(&ring);
}

static void what_a_token_says_counts_as_before(void **state)
{
	struct keyring ring = { .count = 0 }, none = { .count = 0 };
	char text[TOKEN_MAX];
	struct token token = { .run_id = "untouched" };
	const char *id = "untouched";

	(void)state;
	add(&ring, "old", "one");
	add(&ring, "new", "two");
	keyring_mint(&ring, &run, text);
	assert_int_equal(keyring_verify(&ring, bytes_of(text), run.expiry + 1, &token, &id),
			 TOKEN_EXPIRED);
	assert_string_equal(token.run_id, "r-1"); /* whose it was */
	snprintf(token.run_id, sizeof(token.run_id), "untouched");
	assert_int_equal(keyring_verify(&none, bytes_of(text), 0, &token, &id), TOKEN_FORGED);
	assert_int_equal(keyring_verify(&ring, BYTES("r|1|1"), 0, &token, &id), TOKEN_MALFORMED);
	text[strlen(text) - 1] ^= 4;
	assert_int_equal(keyring_verify(&ring, bytes_of(text), 0, &token, &id), TOKEN_FORGED);
	assert_string_equal(token.run_id, "untouched");
	assert_string_equal(id, "untouched");
	keyring_fini(&ring);
}

static void keys_that_make_no_sense_are_refused(void **state)
{
	struct keyring ring = { .count = 0 };
	struct err err;
	char id[8];

	(void)state;
	add(&ring, "a", "one");
	assert_int_equal(keyring_add(&ring, "a", open_secret("two"), &err), -EEXIST);
	assert_int_equal(keyring_add(&ring, "b", open_secret("one"), &err), -EEXIST);
	assert_string_equal(err.text, "the keys 'a' and 'b' for run tokens are the same");
	assert_true(has(&ring, "one"));
	assert_false(has(&ring, "two"));
	assert_int_equal(keyring_add(&ring, "a b", open_secret("two"), &err), -EINVAL);
	assert_int_equal(keyring_add(&ring, "", open_secret("two"), &err), -EINVAL);
	for (int i = 1; i < KEYRING_MAX; i++) {
		snprintf(id, sizeof(id), "k%d", i);
		add(&ring, id, id);
	}
	assert_int_equal(keyring_add(&ring, "c", open_secret("three"), &err), -E2BIG);
	assert_int_equal(ring.count, KEYRING_MAX);
	keyring_fini(&ring);
}

int main(void)
{
	RUN_TESTS(TEST(keys_take_turns), TEST(what_a_token_says_counts_as_before),
		  TEST(keys_that_make_no_sense_are_refused));
}
