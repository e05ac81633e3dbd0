/* SPDX-License-Identifier: MIT */
/* SHA-256 and HMAC-SHA-256. */
#include "tls/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

void digest_sha256(struct bytes data, unsigned char *ret_digest)
{
	unsigned int len = DIGEST_LEN;

	if (EVP_Digest(data.data, data.len, ret_digest, &len, EVP_sha256(), NULL) != 1)
		abort();
}

void digest_hmac_sha256(struct bytes key, struct bytes data, unsigned char *ret_digest)
{
	unsigned int len = DIGEST_LEN;

	if (!HMAC(EVP_sha256(), key.data, (int)key.len, (const unsigned char *)data.data, data.len,
		  ret_digest, &len))
		abort();
}

bool digest_is_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && CRYPTO_memcmp(a.data, b.data, a.len) == 0;
}
