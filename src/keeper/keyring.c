/* SPDX-License-Identifier: MIT */
/* Several keys for run tokens. */
#include "keeper/keyring.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "tls/digest.h"

/* Also two that differ, as HMAC pads short keys and digests long ones. */
static bool is_same(const struct secret *a, const struct secret *b)
{
	unsigned char digests[2][DIGEST_LEN];

	digest_hmac_sha256(secret_get(a), BYTES(""), digests[0]);
	digest_hmac_sha256(secret_get(b), BYTES(""), digests[1]);
	return digest_is_equal((struct bytes){ (char *)digests[0], DIGEST_LEN },
			       (struct bytes){ (char *)digests[1], DIGEST_LEN });
}

static int check(const struct keyring *ring, const char *id, const struct secret *secret,
		 struct err *err)
{
	if (!runid_is_valid(id))
		return err_say(err, EINVAL,
			       "'%.60s' is not the id of a key: letters, digits, '.', '-' and '_'",
			       id);
	if (ring->count == KEYRING_MAX)
		return err_say(err, E2BIG, "more than %d keys for run tokens", KEYRING_MAX);
	for (size_t i = 0; i < ring->count; i++) {
		if (strcmp(ring->keys[i].id, id) == 0)
			return err_say(err, EEXIST, "two keys for run tokens have the id '%s'", id);
		/* To take one of them out would revoke nothing. */
		if (is_same(ring->keys[i].secret, secret))
			return err_say(err, EEXIST,
				       "the keys '%s' and '%s' for run tokens are the same",
				       ring->keys[i].id, id);
	}
	return 0;
}

bool keyring_has(const struct keyring *ring, const struct secret *secret)
{
	bool has = false;

	for (size_t i = 0; i < ring->count; i++)
		has |= is_same(ring->keys[i].secret, secret);
	return has;
}

int keyring_add(struct keyring *ring, const char *id, struct secret *secret, struct err *err)
{
	int r = check(ring, id, secret, err);

	if (r < 0) {
		secret_free(secret);
		return r;
	}
	snprintf(ring->keys[ring->count].id, sizeof(ring->keys[0].id), "%s", id);
	ring->keys[ring->count++].secret = secret;
	return 0;
}

bool keyring_remove(struct keyring *ring, const char *id)
{
	for (size_t i = 0; i < ring->count; i++) {
		if (strcmp(ring->keys[i].id, id) != 0)
			continue;
		secret_free(ring->keys[i].secret);
		ring->count--;
		memmove(&ring->keys[i], &ring->keys[i + 1],
			(ring->count - i) * sizeof(ring->keys[0]));
		return true;
	}
	return false;
}

void keyring_fini(struct keyring *ring)
{
	while (ring->count > 0)
		secret_free(ring->keys[--ring->count].secret);
}

void keyring_mint(const struct keyring *ring, const struct token *token, char *ret_text)
{
	assert(ring->count > 0);
	token_mint(token, ring->keys[ring->count - 1].secret, ret_text);
}

enum token_verdict keyring_verify(const struct keyring *ring, struct bytes text, uint64_t now,
				  struct token *ret_token, const char **ret_id)
{
	struct token token = { .attempt = 0 };
	struct token_parts parts;
	size_t found = 0;

	if (!token_read(text, &token, &parts))
		return TOKEN_MALFORMED;
	/* Each of them, whichever it is: the time tells how many there are, and no more. */
	for (size_t i = 0; i < ring->count; i++) {
		size_t mask = -(size_t)token_is_signed(&parts, ring->keys[i].secret);

		found = (found & ~mask) | ((i + 1) & mask);
	}
	if (found == 0)
		return TOKEN_FORGED;
	*ret_token = token;
	if (token.expiry < now)
		return TOKEN_EXPIRED;
	if (ret_id)
		*ret_id = ring->keys[found - 1].id;
	return TOKEN_VALID;
}
