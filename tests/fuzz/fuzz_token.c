/* SPDX-License-Identifier: MIT */
/*
 * Run tokens on any bytes (INV-RUN-IDENTITY): what verifies is byte for byte what is minted
 * for the run it names, also among texts that are rightly signed; what was minted verifies,
 * and with any bit changed it does not.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "keeper/keyring.h"
#include "tls/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPIRY_END UINT64_C(10000000000) /* the first that has eleven digits */

static struct secret *open_secret(void)
{
	struct secret *secret = NULL;
	struct err err;

	setenv("FUZZ_SECRET", "secret", 1);
	if (secret_open("env:FUZZ_SECRET", &secret, &err) < 0)
		abort();
	return secret;
}

/* One key among others is as good as alone. */
static enum token_verdict verify_in_ring(struct bytes text, uint64_t now, struct token *ret_token)
{
	static struct keyring ring;
	const char *id = NULL;
	enum token_verdict verdict;
	struct err err;

	if (ring.count == 0) {
		struct secret *other = NULL;

		setenv("FUZZ_OTHER", "other", 1);
		if (secret_open("env:FUZZ_OTHER", &other, &err) < 0 ||
		    keyring_add(&ring, "right", open_secret(), &err) < 0 ||
		    keyring_add(&ring, "other", other, &err) < 0)
			abort();
	}
	verdict = keyring_verify(&ring, text, now, ret_token, &id);
	if (verdict == TOKEN_VALID && strcmp(id, "right") != 0)
		abort();
	return verdict;
}

static void check_text(struct bytes text, const struct secret *secret, uint64_t now)
{
	char again[TOKEN_MAX];
	struct token token, in_ring;
	enum token_verdict verdict = token_verify(text, secret, now, &token);

	if (verify_in_ring(text, now, &in_ring) != verdict)
		abort();
	if (verdict != TOKEN_VALID)
		return;
	if (token.expiry < now)
		abort();
	token_mint(&token, secret, again);
	if (!bytes_equal(text, bytes_of(again)))
		abort();
}

/* As somebody who holds the secret could sign anything. */
static void check_signed(struct bytes data, const struct secret *secret, uint64_t now)
{
	char text[TOKEN_MAX + BASE64_LEN(DIGEST_LEN) + 2];
	unsigned char digest[DIGEST_LEN];

	if (data.len > TOKEN_MAX)
		return;
	digest_hmac_sha256(secret_get(secret), data, digest);
	if (data.len > 0)
		memcpy(text, data.data, data.len);
	text[data.len] = '.';
	base64_format(digest, sizeof(digest), text + data.len + 1);
	check_text((struct bytes){ text, data.len + 1 + BASE64_LEN(DIGEST_LEN) }, secret, now);
}

/* A token out of the input's bytes: numbers first, then the id, each byte made to fit. */
static struct token token_of(struct bytes data, uint64_t number)
{
	static const char
		letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	struct token token = { .attempt = (uint32_t)number, .expiry = number % EXPIRY_END };
	size_t len = data.len < RUNID_MAX ? data.len : RUNID_MAX;

	token.run_id[0] = 'r';
	for (size_t i = 1; i < len; i++)
		token.run_id[i] = letters[(unsigned char)data.data[i] % (sizeof(letters) - 1)];
	return token;
}

static void check_minted(const struct token *token, const struct secret *secret, uint64_t number)
{
	char text[TOKEN_MAX];
	struct token again;
	size_t len, bit;

	token_mint(token, secret, text);
	len = strlen(text);
	if (token_verify(bytes_of(text), secret, token->expiry, &again) != TOKEN_VALID ||
	    strcmp(again.run_id, token->run_id) != 0 || again.attempt != token->attempt ||
	    again.expiry != token->expiry)
		abort();
	if (token_verify(bytes_of(text), secret, token->expiry + 1, &again) != TOKEN_EXPIRED)
		abort();
	bit = number % (len * 8);
	text[bit / 8] ^= (char)(1 << bit % 8);
	if (token_verify((struct bytes){ text, len }, secret, 0, &again) == TOKEN_VALID)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct secret *secret;
	struct bytes text = { (const char *)data, size };
	uint64_t number = 0;
	struct token token;

	if (!secret)
		secret = open_secret();
	if (size < sizeof(number))
		return 0;
	memcpy(&number, bytes_take(&text, sizeof(number)).data, sizeof(number));
	check_text(text, secret, number % EXPIRY_END);
	check_signed(text, secret, number % EXPIRY_END);
	token = token_of(text, number);
	check_minted(&token, secret, number);
	return 0;
}
