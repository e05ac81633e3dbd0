/* SPDX-License-Identifier: MIT */
/*
 * TLS towards the agent: 1.2 or newer, with a certificate of the run's authority for whatever
 * name the agent expects; sessions are resumed by tickets, with the same name only.
 */
#ifndef TLS_TLS_SERVER_H
#define TLS_TLS_SERVER_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"
#include "event/loop.h"
#include "net/stream.h"
#include "tls/alpn.h"
#include "tls/authority.h"

/*
 * With a stream to copy, which is the callee's from then on, what was negotiated, and a NULL
 * `err`. Or with a NULL stream and an error: EKEYREJECTED (the agent does not believe the
 * certificate), EPROTO (any other fault of TLS), EINVAL (no certificate can be made for such a
 * name), ETIMEDOUT, ECONNRESET or another errno of the socket. The handshake is gone when it is
 * called.
 */
typedef void tls_accepted(void *owner, struct stream *ret_stream, enum tls_alpn alpn,
			  const struct err *err, uint64_t now_ms);

struct tls_accept; /* one handshake under way */

/*
 * Takes over `fd`, connected and not blocking, of which `first` has been read already (it is
 * copied). `name`, a host name or an address, is who the certificate says we are; an agent that
 * asks for another one by SNI is turned away, one that asks for none is not. `alpn` is the set of
 * what may be chosen: HTTP/2 is, where both are offered; an agent that offers only others is
 * turned away, one that offers nothing gets TLS_ALPN_NONE. `done` is never called from here, only
 * from the loop.
 */
struct tls_accept *tls_accept_start(struct tls_authority *authority, struct loop *loop, int fd,
				    struct bytes first, const char *name, unsigned int alpn,
				    uint64_t timeout_ms, uint64_t now_ms, tls_accepted *done,
				    void *owner) must_check;

/* `done` is not called any more; the descriptor is closed. */
void tls_accept_cancel(struct tls_accept *accept);

#endif
