/* SPDX-License-Identifier: MIT */
/* TLS over a socket, as a stream. */
#ifndef TLS_TLS_STREAM_H
#define TLS_TLS_STREAM_H

#include <openssl/ssl.h>

#include "base/bytes.h"
#include "net/stream.h"
#include "tls/session_cache.h"

/*
 * Makes a stream of `fd` and its use of `peer`, and takes both over; its `state` is an SSL that
 * has not begun yet. The SSL's app data is the peer.
 */
void tls_stream_init_client(struct stream *stream, SSL_CTX *context, int fd,
			    struct session_peer *peer);

/* The same for a server, which has read `first` already; the app data is the caller's to use. */
void tls_stream_init_server(struct stream *stream, SSL_CTX *context, int fd, struct bytes first);

/*
 * What the result of a call on the SSL means: -EAGAIN, and what it waits for; 0, the clean end;
 * -ECONNRESET, -EPROTO or the socket's -errno, after which the stream can only be closed.
 */
ssize_t tls_stream_failed(struct stream *stream, int result);

/* To be called before each such call: what failed earlier must not be taken for its failure. */
void tls_stream_forget_errors(void);

#endif
