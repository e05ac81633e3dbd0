/* SPDX-License-Identifier: MIT */
/*
 * TLS towards origins: 1.2 or newer, the peer always verified, by name or address, against the
 * system's authorities and those of one more file; the protocol by ALPN; sessions resumed.
 */
#ifndef TLS_TLS_CLIENT_H
#define TLS_TLS_CLIENT_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "event/loop.h"
#include "net/stream.h"
#include "tls/alpn.h"

struct tls_client; /* what handshakes share: settings, trust, sessions */

/*
 * `ca_file`, a PEM bundle, may be NULL. It is read here, so that a wrong one is found at once;
 * the system's authorities are not looked for before the first handshake.
 */
int tls_client_new(const char *ca_file, struct tls_client **ret_client, struct err *err) must_check;

/*
 * For a peer that is one of us, before any handshake: TLS 1.3 and nothing else, and where there is
 * a file of authorities, no others count. The hint, for whom nobody trusted has signed, is
 * borrowed.
 */
void tls_client_set_own(struct tls_client *client, const char *trust_hint);

/* No handshake may be under way any more; streams live on. */
void tls_client_free(struct tls_client *client);

/*
 * With a stream to copy, which is the callee's from then on, what was negotiated, and a NULL
 * `err`: the handshake is done and the peer is who it should be. Or with a NULL stream and an
 * error: EKEYREJECTED (the certificate), EPROTO (any other fault of TLS), ETIMEDOUT, ECONNRESET or
 * another errno of the socket. The handshake is gone when it is called.
 */
typedef void tls_done(void *owner, struct stream *ret_stream, enum tls_alpn alpn,
		      const struct err *err, uint64_t now_ms);

struct tls_handshake;

/*
 * Takes over `fd`, connected and not blocking. `name` is whom to expect: a host name, or an
 * address (which is not sent as SNI). `alpn` is the set of what is offered, not empty; a server
 * that chooses anything else is refused, one that knows nothing of it is not (TLS_ALPN_NONE).
 * `done` is never called from here, only from the loop.
 */
struct tls_handshake *tls_handshake_start(struct tls_client *client, struct loop *loop, int fd,
					  const char *name, unsigned int alpn, uint64_t timeout_ms,
					  uint64_t now_ms, tls_done *done, void *owner) must_check;

/* `done` is not called any more; the descriptor is closed. */
void tls_handshake_cancel(struct tls_handshake *handshake);

#endif
