/* SPDX-License-Identifier: MIT */
/* Minting and verifying run tokens. */
#include "keeper/token.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "tls/digest.h"

#define SIGNATURE_LEN BASE64_LEN(DIGEST_LEN)

const char *token_verdict_name(enum token_verdict verdict)
{
	static const char *const names[] = {
		[TOKEN_VALID] = "valid",
		[TOKEN_MALFORMED] = "malformed",
		[TOKEN_FORGED] = "wrong signature",
		[TOKEN_EXPIRED] = "expired",
	};

	return names[verdict];
}

static void sign(struct bytes data, const struct secret *secret, char *ret_signature)
{
	unsigned char digest[DIGEST_LEN];

	digest_hmac_sha256(secret_get(secret), data, digest);
	base64_format(digest, sizeof(digest), ret_signature);
}

void token_mint(const struct token *token, const struct secret *secret, char *ret_text)
{
	int len = snprintf(ret_text, TOKEN_MAX, "%s|%" PRIu32 "|%" PRIu64, token->run_id,
			   token->attempt, token->expiry);

	assert(runid_is_valid(token->run_id));
	assert(len > 0 && (size_t)len + 1 + SIGNATURE_LEN < TOKEN_MAX);
	sign((struct bytes){ ret_text, (size_t)len }, secret, ret_text + len + 1);
	ret_text[len] = '.';
}

/* Digits only, without a leading zero, up to `most`: one way to write each number. */
static bool read_number(struct bytes text, uint64_t most, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (text.len == 0 || text.len > 10 || (text.len > 1 && text.data[0] == '0'))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text.data[i] - '0');
	}
	*ret_value = value;
	return value <= most;
}

static bool read_data(struct bytes data, struct token *ret_token)
{
	struct bytes run_id, attempt;
	uint64_t number;

	if (!bytes_split(&data, '|', &run_id) || !bytes_split(&data, '|', &attempt) ||
	    run_id.len > RUNID_MAX || memchr(run_id.data, '\0', run_id.len))
		return false;
	memcpy(ret_token->run_id, run_id.data, run_id.len);
	ret_token->run_id[run_id.len] = '\0';
	if (!runid_is_valid(ret_token->run_id) || !read_number(attempt, UINT32_MAX, &number))
		return false;
	ret_token->attempt = (uint32_t)number;
	return read_number(data, UINT64_C(9999999999), &ret_token->expiry);
}

bool token_read(struct bytes text, struct token *ret_token, struct token_parts *ret_parts)
{
	struct bytes data = text;

	/* The signature has a fixed length, so the last dot has a fixed place. */
	if (text.len <= SIGNATURE_LEN + 1 || text.len >= TOKEN_MAX)
		return false;
	data.len = text.len - SIGNATURE_LEN - 1;
	*ret_parts = (struct token_parts){ data, { text.data + data.len + 1, SIGNATURE_LEN } };
	return text.data[data.len] == '.' && read_data(data, ret_token);
}

bool token_is_signed(const struct token_parts *parts, const struct secret *secret)
{
	char signature[SIGNATURE_LEN + 1];

	sign(parts->data, secret, signature);
	return digest_is_equal(parts->signature, (struct bytes){ signature, SIGNATURE_LEN });
}

enum token_verdict token_verify(struct bytes text, const struct secret *secret, uint64_t now,
				struct token *ret_token)
{
	struct token token = { .attempt = 0 };
	struct token_parts parts;

	if (!token_read(text, &token, &parts))
		return TOKEN_MALFORMED;
	if (!token_is_signed(&parts, secret))
		return TOKEN_FORGED;
	if (token.expiry < now)
		return TOKEN_EXPIRED;
	*ret_token = token;
	return TOKEN_VALID;
}
