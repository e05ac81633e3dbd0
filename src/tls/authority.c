/* SPDX-License-Identifier: MIT */
/* The run's keys and certificates, and a list of leaves, the most recently used one first. */
#include "tls/authority.h"

#include <assert.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <time.h>

#include "base/die.h"
#include "tls/digest.h"
#include "tls/leaf.h"
#include "tls/library.h"
#include "tls/mint.h"
#include "tls/server_context.h"

struct leaf {
	struct leaf *next;
	X509 *certificate;
	int64_t end_s;
	char name[];
};

struct tls_authority {
	EVP_PKEY *key;
	EVP_PKEY *leaf_key; /* one for all leaves: they are all ours */
	X509 *certificate;
	int64_t end_s;
	BIO *pem;
	SSL_CTX *context;
	struct leaf *leaves;
	size_t handshake_count;
};

/* ---- leaves ---- */

static void drop(struct leaf **at)
{
	struct leaf *leaf = *at;

	*at = leaf->next;
	X509_free(leaf->certificate); /* streams that show it have counted it */
	free(leaf);
}

static struct leaf *new_leaf(struct tls_authority *authority, const char *name, int64_t now_s)
{
	size_t size = strlen(name) + 1;
	int64_t end_s = now_s + MINT_LEAF_S;
	struct leaf *leaf;
	X509 *certificate;

	if (end_s > authority->end_s)
		end_s = authority->end_s;
	certificate = mint_leaf(authority->certificate, authority->key, authority->leaf_key, name,
				now_s, end_s);
	if (!certificate && errno == EINVAL)
		return NULL;
	leaf = calloc(1, sizeof(*leaf) + size);
	if (!certificate || !leaf)
		die_no_memory();
	leaf->certificate = certificate;
	leaf->end_s = end_s;
	memcpy(leaf->name, name, size);
	return leaf;
}

/* The end of the run's authority cannot be put off, so a leaf that ends with it stays. */
static bool is_fresh(const struct tls_authority *authority, const struct leaf *leaf, int64_t now_s)
{
	return leaf->end_s - now_s > LEAF_RENEW_S || leaf->end_s == authority->end_s;
}

/* Takes the leaf off the list; NULL if it is not there, or too old. */
static struct leaf *take(struct tls_authority *authority, const char *name, int64_t now_s)
{
	struct leaf **at = &authority->leaves, *found;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	if (!*at)
		return NULL;
	if (!is_fresh(authority, *at, now_s)) {
		drop(at);
		return NULL;
	}
	found = *at;
	*at = found->next;
	return found;
}

X509 *leaf_get(struct tls_authority *authority, const char *name, int64_t now_s)
{
	struct leaf *leaf = take(authority, name, now_s);
	struct leaf **at = &authority->leaves;

	if (!leaf)
		leaf = new_leaf(authority, name, now_s);
	if (!leaf)
		return NULL;
	leaf->next = authority->leaves;
	authority->leaves = leaf;
	for (size_t i = 0; *at && i < TLS_AUTHORITY_LEAVES_MAX; i++)
		at = &(*at)->next;
	if (*at)
		drop(at);
	return leaf->certificate;
}

EVP_PKEY *leaf_key(const struct tls_authority *authority)
{
	return authority->leaf_key;
}

SSL_CTX *leaf_hold_context(struct tls_authority *authority)
{
	authority->handshake_count++;
	return authority->context;
}

void leaf_release_context(struct tls_authority *authority)
{
	authority->handshake_count--;
}

/* ---- the authority ---- */

void tls_authority_free(struct tls_authority *authority)
{
	if (!authority)
		return;
	assert(authority->handshake_count == 0);
	while (authority->leaves)
		drop(&authority->leaves);
	SSL_CTX_free(authority->context);
	BIO_free(authority->pem);
	X509_free(authority->certificate);
	EVP_PKEY_free(authority->leaf_key);
	EVP_PKEY_free(authority->key);
	free(authority);
}

static bool make(struct tls_authority *authority, const char *run_id, int64_t now_s)
{
	authority->key = mint_key();
	authority->leaf_key = mint_key();
	if (!authority->key || !authority->leaf_key)
		return false;
	authority->end_s = now_s + MINT_AUTHORITY_S;
	authority->certificate = mint_authority(authority->key, run_id, now_s);
	authority->pem = BIO_new(BIO_s_mem());
	authority->context = server_context_new();
	return authority->certificate && authority->pem && authority->context &&
	       PEM_write_bio_X509(authority->pem, authority->certificate);
}

int tls_authority_new(const char *run_id, struct tls_authority **ret_authority, struct err *err)
{
	struct tls_authority *authority = calloc(1, sizeof(*authority));

	if (!authority)
		die_no_memory();
	library_init();
	ERR_clear_error();
	if (!make(authority, run_id, time(NULL))) {
		const char *reason = ERR_reason_error_string(ERR_peek_error());

		tls_authority_free(authority);
		return err_say(err, EIO, "make the run's certificate authority: %s",
			       reason ? reason : "OpenSSL does not say why");
	}
	*ret_authority = authority;
	return 0;
}

struct bytes tls_authority_pem(const struct tls_authority *authority)
{
	char *data;
	long len = BIO_get_mem_data(authority->pem, &data);

	return (struct bytes){ data, (size_t)len };
}
