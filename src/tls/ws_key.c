/* SPDX-License-Identifier: MIT */
/* base64(SHA-1(key, GUID)), by OpenSSL. */
#include "tls/ws_key.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/random.h>

#include "tls/library.h"

#define KEY_LEN  16
#define SHA1_LEN 20

void ws_key_make(char *ret_text)
{
	unsigned char key[KEY_LEN];

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		abort();
	EVP_EncodeBlock((unsigned char *)ret_text, key, sizeof(key));
}

/* Decoded and written again it is the same: no other digits, and nothing in unused bits. */
bool ws_key_is_valid(struct bytes key)
{
	unsigned char decoded[WS_KEY_TEXT_LEN / 4 * 3];
	unsigned char again[WS_KEY_TEXT_LEN + 1];

	if (key.len != WS_KEY_TEXT_LEN || EVP_DecodeBlock(decoded, (const unsigned char *)key.data,
							  WS_KEY_TEXT_LEN) != sizeof(decoded))
		return false;
	EVP_EncodeBlock(again, decoded, KEY_LEN);
	return memcmp(again, key.data, WS_KEY_TEXT_LEN) == 0;
}

void ws_key_accept(struct bytes key, char *ret_text)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[WS_KEY_TEXT_LEN + sizeof(guid) - 1];
	unsigned char digest[SHA1_LEN];

	assert(key.len == WS_KEY_TEXT_LEN);
	memcpy(text, key.data, key.len);
	memcpy(text + key.len, guid, sizeof(guid) - 1);
	library_init();
	if (EVP_Digest(text, sizeof(text), digest, NULL, EVP_sha1(), NULL) != 1)
		abort();
	EVP_EncodeBlock((unsigned char *)ret_text, digest, sizeof(digest));
}
