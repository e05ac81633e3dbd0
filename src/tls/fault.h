/* SPDX-License-Identifier: MIT */
/* What went wrong in a handshake, in words. */
#ifndef TLS_FAULT_H
#define TLS_FAULT_H

#include <openssl/ssl.h>

#include "base/err.h"

/*
 * `trust_hint` says what could make a certificate trusted. `code` is what tls_stream_failed made of
 * it. The text is made of our words and OpenSSL's own; nothing that the peer sent is in it.
 */
void fault_describe(const SSL *ssl, int code, const char *name, const char *trust_hint,
		    struct err *err);

/* The same where the peer is a client of our service, which is no agent. */
void fault_describe_caller(int code, struct err *err);

/* The same where the agent is the peer and we are `name`. */
void fault_describe_agent(int code, const char *name, struct err *err);

#endif
