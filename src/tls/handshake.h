/* SPDX-License-Identifier: MIT */
/* A handshake on the loop, of whichever side; a part of whatever knows what it is for. */
#ifndef TLS_HANDSHAKE_H
#define TLS_HANDSHAKE_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "base/err.h"
#include "event/loop.h"
#include "net/stream.h"
#include "tls/alpn.h"

struct handshake;

/*
 * What becomes of it; each is called once at most, and only from the loop. The owner takes the
 * stream or closes it, and frees what the handshake is a part of; it is out of the loop already.
 */
struct handshake_ops {
	void (*on_done)(struct handshake *handshake, uint64_t now_ms);
	/* `code` as tls_stream_failed has it, ETIMEDOUT, or what was given to handshake_start. */
	void (*on_failed)(struct handshake *handshake, int code, uint64_t now_ms);
};

struct handshake {
	const struct handshake_ops *ops;
	struct loop *loop;
	struct stream stream; /* its state is an SSL */
	struct loop_source source;
	struct loop_timer deadline;
	int code; /* of what failed before the loop was reached */
};

/* With its ops, loop and stream set. A `code` that is not 0 fails it in the loop's next turn. */
void handshake_start(struct handshake *handshake, int code, uint64_t timeout_ms, uint64_t now_ms);

/* Nothing is called any more; the stream is closed. */
void handshake_cancel(struct handshake *handshake);

/* False when something was chosen that is not in the set. */
bool handshake_alpn(const struct handshake *handshake, unsigned int set, enum tls_alpn *ret_alpn);

#endif
