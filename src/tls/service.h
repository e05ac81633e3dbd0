/* SPDX-License-Identifier: MIT */
/*
 * TLS as a server with the operator's certificate: 1.3 only, and one protocol by ALPN that every
 * caller must ask for. Who the caller is, TLS does not say; that is for what it says first.
 */
#ifndef TLS_SERVICE_H
#define TLS_SERVICE_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"
#include "event/loop.h"
#include "net/stream.h"
#include "tls/alpn.h"

struct tls_service; /* what handshakes share */

/*
 * `certificate` is a PEM file, with those between it and its authority behind it; `key` the text of
 * its private key as PEM, without a passphrase, which is not kept. `alpn` is the set of what may be
 * chosen. An error never has any of the key in it.
 */
int tls_service_new(const char *certificate, struct bytes key, unsigned int alpn,
		    struct tls_service **ret_service, struct err *err) must_check;

/* Handshakes that are under way, and streams, live on. */
void tls_service_free(struct tls_service *service);

/*
 * With a stream to copy, which is the callee's from then on, and a NULL `err`; or with a NULL
 * stream and an error: EPROTO (a fault of TLS), ETIMEDOUT, ECONNRESET or another errno of the
 * socket. The text says what the caller did, not who it is. The handshake is gone when it is
 * called.
 */
typedef void tls_service_done(void *owner, struct stream *ret_stream, const struct err *err,
			      uint64_t now_ms);

struct tls_caller; /* one handshake under way */

/* Takes over `fd`, connected and not blocking. `done` is called from the loop only. */
struct tls_caller *tls_service_accept(struct tls_service *service, struct loop *loop, int fd,
				      uint64_t timeout_ms, uint64_t now_ms, tls_service_done *done,
				      void *owner) must_check;

/* `done` is not called any more; the descriptor is closed. */
void tls_caller_cancel(struct tls_caller *caller);

#endif
