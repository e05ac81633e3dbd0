/* SPDX-License-Identifier: MIT */
/*
 * Run tokens: {runId}|{attempt}|{expiry}.{base64url(HMAC-SHA256(what is before the dot))}.
 *
 * Whoever holds one may act as that run until it expires. Minted on the host, verified on
 * every request of a socket that many runs share, and when a link from another machine begins
 * (INV-RUN-IDENTITY).
 */
#ifndef KEEPER_TOKEN_H
#define KEEPER_TOKEN_H

#include "base/bytes.h"
#include "base/runid.h"
#include "keeper/secret.h"

#define TOKEN_MAX 256

struct token {
	char run_id[RUNID_MAX + 1];
	uint32_t attempt;
	uint64_t expiry; /* seconds since 1970 */
};

enum token_verdict {
	TOKEN_VALID,
	TOKEN_MALFORMED,
	TOKEN_FORGED, /* the signature is another's */
	TOKEN_EXPIRED,
};

const char *token_verdict_name(enum token_verdict verdict);

/* Writes a token and a NUL into `text`, of TOKEN_MAX bytes. The run id must be valid. */
void token_mint(const struct token *token, const struct secret *secret, char *ret_text);

/* What is signed, and the signature it came with; both in the text. */
struct token_parts {
	struct bytes data, signature;
};

/* Reads a token of the right form, by whomever it is signed; *ret_token means nothing otherwise. */
bool token_read(struct bytes text, struct token *ret_token, struct token_parts *ret_parts);

/* In a time that does not depend on the signature. */
bool token_is_signed(const struct token_parts *parts, const struct secret *secret);

/* *ret_token is filled only for TOKEN_VALID. */
enum token_verdict token_verify(struct bytes text, const struct secret *secret, uint64_t now,
				struct token *ret_token);

#endif
