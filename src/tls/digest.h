/* SPDX-License-Identifier: MIT */
/* Digests, by OpenSSL, which no other directory knows. */
#ifndef TLS_DIGEST_H
#define TLS_DIGEST_H

#include "base/bytes.h"

#define DIGEST_LEN 32

/* Ends the process when OpenSSL cannot: there is nothing to go on with. */
void digest_sha256(struct bytes data, unsigned char *ret_digest);
void digest_hmac_sha256(struct bytes key, struct bytes data, unsigned char *ret_digest);

/* Compares in a time that does not depend on where the difference is. */
bool digest_is_equal(struct bytes a, struct bytes b);

#endif
