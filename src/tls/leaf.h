/* SPDX-License-Identifier: MIT */
/* The side of the authority that only handshakes see. */
#ifndef TLS_LEAF_H
#define TLS_LEAF_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "tls/authority.h"

#define LEAF_RENEW_S INT64_C(3600) /* one that has less left than this is made anew */

/* What a handshake shares with others; and a count of those that are under way. */
SSL_CTX *leaf_hold_context(struct tls_authority *authority);
void leaf_release_context(struct tls_authority *authority);

/*
 * The certificate of that name, made or kept from before, and the authority's until the next
 * call; `now_s` is the wall clock's. NULL for what is no name.
 */
X509 *leaf_get(struct tls_authority *authority, const char *name, int64_t now_s);

/* The key of all of them. */
EVP_PKEY *leaf_key(const struct tls_authority *authority);

#endif
