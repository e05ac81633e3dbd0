/* SPDX-License-Identifier: MIT */
/* How OpenSSL is begun, whoever comes first. */
#ifndef TLS_LIBRARY_H
#define TLS_LIBRARY_H

#include <openssl/crypto.h>

/*
 * Without the system's openssl.cnf, nor the one that OPENSSL_CONF names: it could load code and
 * lower what is asked of peers. The first call in a process settles it; others cost nothing.
 */
static inline void library_init(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}

#endif
