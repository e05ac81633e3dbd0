/* SPDX-License-Identifier: MIT */
/* What all handshakes with the agent share, or all with the callers of a service. */
#ifndef TLS_SERVER_CONTEXT_H
#define TLS_SERVER_CONTEXT_H

#include <openssl/ssl.h>

/* Of one handshake: the app data of its SSL until it is done. */
struct server_terms {
	const char *name;  /* whom the agent may ask for; not of a service */
	unsigned int alpn; /* what may be chosen */
};

/* The keys of its tickets are its own. NULL when OpenSSL cannot. */
SSL_CTX *server_context_new(void);

/*
 * The same for a service of the operator's: TLS 1.3 only, whatever name the caller asks for, and no
 * tickets. It has no certificate yet.
 */
SSL_CTX *server_context_new_service(void);

/* Tickets that were given out under this name, and no others, are taken back. */
void server_context_bind(SSL *ssl, const char *name);

#endif
