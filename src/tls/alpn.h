/* SPDX-License-Identifier: MIT */
/* The protocols that are negotiated within a handshake (RFC 7301). Needs no OpenSSL to read. */
#ifndef TLS_ALPN_H
#define TLS_ALPN_H

#include "base/bytes.h"

/* As a set of what is offered, or the one that was chosen. */
enum tls_alpn {
	TLS_ALPN_NONE = 0, /* nobody asked: HTTP/1.1 */
	TLS_ALPN_HTTP1 = 1,
	TLS_ALPN_H2 = 2,
	TLS_ALPN_WARDER = 4, /* the link between machines; never with the others */
};

#define TLS_ALPN_WIRE_MAX 24

/* The protocol of that name, byte for byte; TLS_ALPN_NONE for any other. */
enum tls_alpn tls_alpn_find(struct bytes name);

/* Writes the set as it is sent, the preferred one first; returns the length. */
size_t tls_alpn_format(unsigned int set, unsigned char ret_wire[TLS_ALPN_WIRE_MAX]);

#endif
