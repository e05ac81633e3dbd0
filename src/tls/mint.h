/* SPDX-License-Identifier: MIT */
/* Certificates of a run: the authority's own, and those that it signs. */
#ifndef TLS_MINT_H
#define TLS_MINT_H

#include <openssl/x509.h>
#include <stdint.h>

#include "base/attr.h"

#define MINT_DAY_S       INT64_C(86400)
#define MINT_BACKDATE_S  MINT_DAY_S       /* for whoever's clock is behind */
#define MINT_AUTHORITY_S (7 * MINT_DAY_S) /* from now on */
#define MINT_LEAF_S      (6 * MINT_DAY_S) /* a week with the day before */

/* P-256. NULL, and so with the others, when OpenSSL cannot. */
EVP_PKEY *mint_key(void) must_check;

X509 *mint_authority(EVP_PKEY *key, const char *run_id, int64_t now_s) must_check;

/*
 * For a host name or an address; `key` is the leaf's. Valid until `end_s`. NULL and EINVAL in
 * errno for what is neither, a wildcard included; the name is only ever what it is compared as.
 */
X509 *mint_leaf(X509 *authority, EVP_PKEY *authority_key, EVP_PKEY *key, const char *name,
		int64_t now_s, int64_t end_s) must_check;

#endif
