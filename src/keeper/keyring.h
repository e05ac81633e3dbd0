/* SPDX-License-Identifier: MIT */
/*
 * The keys that run tokens are signed with: several at once, so that they can be changed. Tokens
 * are minted with the newest, and verified with each; when a key is taken out, what it has signed
 * is void. Which key it was is not in the token, whose form does not change, and is not to be told
 * by how long verifying takes.
 */
#ifndef KEEPER_KEYRING_H
#define KEEPER_KEYRING_H

#include "keeper/token.h"

#define KEYRING_MAX 8

struct keyring {
	struct {
		char id[RUNID_MAX + 1];
		struct secret *secret;
	} keys[KEYRING_MAX]; /* the newest one last */
	size_t count;
};

/* Takes the secret over, also when it fails. Ids are as base/runid.h has them; no two keys have the
 * same one, or the same secret. */
int keyring_add(struct keyring *ring, const char *id, struct secret *secret,
		struct err *err) must_check;

/* Whether one of its keys is as good as this one. */
bool keyring_has(const struct keyring *ring, const struct secret *secret);

/* False when there is no such key. */
bool keyring_remove(struct keyring *ring, const char *id);
void keyring_fini(struct keyring *ring);

/* With the newest key; there must be one. As token_mint. */
void keyring_mint(const struct keyring *ring, const struct token *token, char *ret_text);

/*
 * As token_verify, but *ret_token is filled for TOKEN_EXPIRED, too: whose it was is proven.
 * *ret_id, the ring's, is set only for TOKEN_VALID; it may be NULL.
 */
enum token_verdict keyring_verify(const struct keyring *ring, struct bytes text, uint64_t now,
				  struct token *ret_token, const char **ret_id);

#endif
