/* SPDX-License-Identifier: MIT */
/*
 * Asks a server something on the operator's behalf: one GET over HTTP/1.1, with TLS or without,
 * on the loop. Its reply streams to the owner, within a time and a size. No redirect is followed:
 * the key was given for this server.
 */
#ifndef KEEPER_FETCH_H
#define KEEPER_FETCH_H

#include "base/err.h"
#include "http/head.h"
#include "keeper/secret.h"
#include "net/connect.h"
#include "tls/tls_client.h"

struct fetch; /* one request under way */

/* Read by fetch_start, and not needed any more when that has returned. */
struct fetch_request {
	bool is_tls;
	const char *host;      /* whom TLS is to verify */
	const char *authority; /* as Host has it */
	const char *dial_host; /* where it is */
	uint16_t dial_port;
	struct bytes target;           /* path and query: ASCII without spaces */
	const char *key_header;        /* such as "authorization"; or NULL without a key */
	const char *key_prefix;        /* such as "Bearer " */
	const struct secret *key;      /* one line, as upstream_open checks it; or NULL */
	uint64_t timeout_ms, body_max; /* of all of it */
};

/* What becomes of it, called from the loop only. */
struct fetch_ops {
	/*
	 * The head, once, and then the body piece by piece. Their views last for the call. A
	 * negative errno, with *err set, ends the fetch with that.
	 */
	int (*on_head)(void *owner, const struct http_head *head, struct err *err);
	int (*on_data)(void *owner, struct bytes data, struct err *err);
	/*
	 * The last call: with NULL when the reply was whole, whatever its status; or with the
	 * error. E2BIG: it is larger than body_max. EPROTO: it is not HTTP, or was cut short.
	 * Otherwise as connect_start and tls_handshake_start have them. No error shows the key or
	 * anything of the reply.
	 */
	void (*on_done)(void *owner, const struct err *err, uint64_t now_ms);
};

/* `tls` may be NULL where is_tls is false. None of the three is called from here. */
struct fetch *fetch_start(struct net *net, struct loop *loop, struct tls_client *tls,
			  const struct fetch_request *request, const struct fetch_ops *ops,
			  void *owner, uint64_t now_ms) must_check;

/* Nothing is called any more. Not from on_head or on_data: these return an error instead. */
void fetch_cancel(struct fetch *fetch);

#endif
