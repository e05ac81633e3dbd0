/* SPDX-License-Identifier: MIT */
/* One handshake with the agent. */
#include "tls/tls_server.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/die.h"
#include "net/resolve.h"
#include "tls/fault.h"
#include "tls/handshake.h"
#include "tls/leaf.h"
#include "tls/server_context.h"
#include "tls/tls_stream.h"

struct tls_accept {
	struct handshake base;
	struct tls_authority *authority;
	struct server_terms terms;
	tls_accepted *done;
	void *owner;
	uint64_t timeout_ms;
	char name[];
};

static void free_accept(struct tls_accept *accept)
{
	leaf_release_context(accept->authority);
	free(accept);
}

void tls_accept_cancel(struct tls_accept *accept)
{
	handshake_cancel(&accept->base);
	free_accept(accept);
}

static void on_failed(struct handshake *base, int code, uint64_t now_ms)
{
	struct tls_accept *accept = OWNER_OF(base, struct tls_accept, base);
	tls_accepted *done = accept->done;
	void *owner = accept->owner;
	struct err err = { 0 };

	if (code == ETIMEDOUT)
		err_say(&err, ETIMEDOUT, "TLS as '%s': no handshake in %" PRIu64 " ms",
			accept->name, accept->timeout_ms);
	else if (code == EINVAL)
		err_say(&err, EINVAL, "TLS as '%s': not a host name", accept->name);
	else
		fault_describe_agent(code, accept->name, &err);
	tls_accept_cancel(accept);
	done(owner, NULL, TLS_ALPN_NONE, &err, now_ms);
}

static void on_done(struct handshake *base, uint64_t now_ms)
{
	struct tls_accept *accept = OWNER_OF(base, struct tls_accept, base);
	struct stream stream = base->stream;
	tls_accepted *done = accept->done;
	void *owner = accept->owner;
	enum tls_alpn alpn;

	handshake_alpn(base, accept->terms.alpn, &alpn); /* we chose it ourselves */
	SSL_set_app_data(stream.state, NULL);
	free_accept(accept);
	done(owner, &stream, alpn, NULL, now_ms);
}

/* 0, or EINVAL for what is no name. */
static int prepare(struct tls_accept *accept, int fd, struct bytes first)
{
	SSL_CTX *context = leaf_hold_context(accept->authority);
	X509 *leaf = leaf_get(accept->authority, accept->name, time(NULL));
	SSL *ssl;

	tls_stream_init_server(&accept->base.stream, context, fd, first);
	if (!leaf)
		return EINVAL;
	ssl = accept->base.stream.state;
	server_context_bind(ssl, accept->name);
	if (!SSL_set_app_data(ssl, &accept->terms) || !SSL_use_certificate(ssl, leaf) ||
	    !SSL_use_PrivateKey(ssl, leaf_key(accept->authority)))
		die_no_memory();
	return 0;
}

struct tls_accept *tls_accept_start(struct tls_authority *authority, struct loop *loop, int fd,
				    struct bytes first, const char *name, unsigned int alpn,
				    uint64_t timeout_ms, uint64_t now_ms, tls_accepted *done,
				    void *owner)
{
	static const struct handshake_ops ops = { on_done, on_failed };
	size_t size = strnlen(name, RESOLVE_NAME_MAX + 1) + 1; /* too long a one stays too long */
	struct tls_accept *accept = calloc(1, sizeof(*accept) + size);

	if (!accept)
		die_no_memory();
	*accept = (struct tls_accept){
		.base = { .ops = &ops, .loop = loop },
		.authority = authority,
		.terms = { .name = accept->name, .alpn = alpn },
		.done = done,
		.owner = owner,
		.timeout_ms = timeout_ms,
	};
	memcpy(accept->name, name, size - 1);
	handshake_start(&accept->base, prepare(accept, fd, first), timeout_ms, now_ms);
	return accept;
}
