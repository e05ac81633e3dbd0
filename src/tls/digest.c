/* SPDX-License-Identifier: MIT */
/* SHA-256 and HMAC-SHA-256. */
#include "tls/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "tls/library.h"

/* Looked up once: OpenSSL would otherwise search for it with every call. */
static const EVP_MD *get_sha256(void)
{
	static EVP_MD *sha256;

	library_init();
	if (!sha256)
		sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (!sha256)
		abort();
	return sha256;
}

void digest_sha256(struct bytes data, unsigned char *ret_digest)
{
	static EVP_MD_CTX *context;
	unsigned int len = DIGEST_LEN;

	if (!context)
		context = EVP_MD_CTX_new();
	if (!context || EVP_DigestInit_ex2(context, get_sha256(), NULL) != 1 ||
	    EVP_DigestUpdate(context, data.data, data.len) != 1 ||
	    EVP_DigestFinal_ex(context, ret_digest, &len) != 1)
		abort();
}

void digest_hmac_sha256(struct bytes key, struct bytes data, unsigned char *ret_digest)
{
	unsigned int len = DIGEST_LEN;

	if (!HMAC(get_sha256(), key.data, (int)key.len, (const unsigned char *)data.data, data.len,
		  ret_digest, &len))
		abort();
}

bool digest_is_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && CRYPTO_memcmp(a.data, b.data, a.len) == 0;
}
