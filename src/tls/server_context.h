/* SPDX-License-Identifier: MIT */
/* What all handshakes with the agent share. */
#ifndef TLS_SERVER_CONTEXT_H
#define TLS_SERVER_CONTEXT_H

#include <openssl/ssl.h>

/* Of one handshake: the app data of its SSL until it is done. */
struct server_terms {
	const char *name;  /* whom the agent may ask for */
	unsigned int alpn; /* what may be chosen */
};

/* The keys of its tickets are its own. NULL when OpenSSL cannot. */
SSL_CTX *server_context_new(void);

/* Tickets that were given out under this name, and no others, are taken back. */
void server_context_bind(SSL *ssl, const char *name);

#endif
