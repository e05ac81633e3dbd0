/* SPDX-License-Identifier: MIT */
/* Settings towards the agent, and the two questions that OpenSSL asks in between. */
#include "tls/server_context.h"

#include <assert.h>
#include <string.h>

#include "base/die.h"
#include "tls/alpn.h"
#include "tls/digest.h"
#include "tls/library.h"

#define SERVICE_SECURITY_LEVEL 2 /* as of the client */

/* A name may end in a dot, which means nothing here. */
static struct bytes without_dot(const char *name)
{
	struct bytes bytes = bytes_of(name);

	if (bytes.len > 0 && bytes.data[bytes.len - 1] == '.')
		bytes.len--;
	return bytes;
}

/*
 * The name was read off the ClientHello before, by code of ours: should OpenSSL have read another
 * one, then one of the two is wrong, and what was decided about the first does not hold.
 */
static int on_server_name(SSL *ssl, int *ret_alert, void *arg)
{
	const struct server_terms *terms = SSL_get_app_data(ssl);
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	(void)arg;
	if (!name)
		return SSL_TLSEXT_ERR_NOACK;
	if (bytes_equal_nocase(without_dot(name), without_dot(terms->name)))
		return SSL_TLSEXT_ERR_OK;
	*ret_alert = SSL_AD_UNRECOGNIZED_NAME;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* RFC 7301, section 3.2: whoever offers only what we do not speak is told so. */
static int on_alpn(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
		   const unsigned char *offered, unsigned int offered_len, void *arg)
{
	const struct server_terms *terms = SSL_get_app_data(ssl);
	struct bytes rest = { (const char *)offered, offered_len };
	enum tls_alpn best = TLS_ALPN_NONE;

	(void)arg;
	while (rest.len > 0) { /* OpenSSL has looked at the lengths */
		size_t len = (unsigned char)bytes_take(&rest, 1).data[0];
		struct bytes name = bytes_take(&rest, len);
		enum tls_alpn alpn = tls_alpn_find(name);

		if (!(alpn & terms->alpn) || alpn <= best)
			continue;
		best = alpn; /* the larger number is the better protocol */
		*ret_name = (const unsigned char *)name.data;
		*ret_len = (unsigned char)name.len;
	}
	return best != TLS_ALPN_NONE ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *new_context(int version)
{
	SSL_CTX *context;

	library_init();
	context = SSL_CTX_new(TLS_server_method());
	if (!context)
		return NULL;
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* As of the client; and the agent has the authority's certificate already. */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_set_read_ahead(context, 1);
	/* Tickets are the agent's to keep: nothing here grows with the number of sessions. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(context, on_alpn, NULL);
	if (!SSL_CTX_set_min_proto_version(context, version)) {
		SSL_CTX_free(context);
		return NULL;
	}
	return context;
}

SSL_CTX *server_context_new(void)
{
	SSL_CTX *context = new_context(TLS1_2_VERSION);

	if (context)
		SSL_CTX_set_tlsext_servername_callback(context, on_server_name);
	return context;
}

SSL_CTX *server_context_new_service(void)
{
	SSL_CTX *context = new_context(TLS1_3_VERSION);

	if (!context)
		return NULL;
	SSL_CTX_set_security_level(context, SERVICE_SECURITY_LEVEL);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(context, 0);
	return context;
}

void server_context_bind(SSL *ssl, const char *name)
{
	unsigned char digest[DIGEST_LEN];

	static_assert(DIGEST_LEN <= SSL_MAX_SID_CTX_LENGTH, "names a session");
	digest_sha256(bytes_of(name), digest);
	if (!SSL_set_session_id_context(ssl, digest, sizeof(digest)))
		die_no_memory();
}
