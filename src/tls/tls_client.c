/* SPDX-License-Identifier: MIT */
/* What all handshakes share, and one handshake. */
#include "tls/tls_client.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/die.h"
#include "net/resolve.h"
#include "tls/fault.h"
#include "tls/handshake.h"
#include "tls/library.h"
#include "tls/session_cache.h"
#include "tls/tls_stream.h"

#define SECURITY_LEVEL 2 /* 112 bits: RSA keys of 2048 bits, no SHA-1 in signatures */

struct tls_client {
	SSL_CTX *context;
	struct session_cache sessions;
	size_t handshake_count;
	bool has_system_trust; /* the system's authorities have been looked for */
	bool has_file;         /* ... and those of a file are there */
	const char *trust_hint;
};

/* ---- what is shared ---- */

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	session_peer_set(SSL_get_app_data(ssl), session);
	return 1; /* it is the peer's now */
}

static SSL_CTX *new_context(void)
{
	SSL_CTX *context;
	X509_VERIFY_PARAM *verify;

	context = SSL_CTX_new(TLS_client_method());
	if (!context)
		die_no_memory();
	SSL_CTX_set_security_level(context, SECURITY_LEVEL);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* An idle stream keeps no buffers; one read takes all the records that have come. */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_new_session);

	verify = SSL_CTX_get0_param(context);
	/* Whoever names a certificate trusts it, though it may not be at the root. */
	X509_VERIFY_PARAM_set_flags(verify, X509_V_FLAG_PARTIAL_CHAIN);
	/* RFC 9525: names are in subjectAltName, with at most one whole label a wildcard. */
	X509_VERIFY_PARAM_set_hostflags(verify, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
							X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (!SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION))
		die_no_memory();
	return context;
}

/* Adds the certificates of a PEM file to the trusted ones. */
static int trust_file(SSL_CTX *context, const char *path, struct err *err)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	_cleanup_file_ FILE *file = fopen(path, "re");
	X509 *certificate;
	size_t count = 0;
	unsigned long error;

	if (!file)
		return err_set(err, errno, "open '%s'", path);
	ERR_clear_error();
	while ((certificate = PEM_read_X509_AUX(file, NULL, NULL, NULL))) {
		int is_added = X509_STORE_add_cert(store, certificate);

		X509_free(certificate);
		if (!is_added)
			die_no_memory();
		count++;
	}
	error = ERR_peek_last_error();
	ERR_clear_error();
	if (ferror(file))
		return err_set(err, EIO, "read '%s'", path);
	if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
		return err_say(err, EINVAL, "read '%s': certificate %zu in it is damaged", path,
			       count + 1);
	if (count == 0)
		return err_say(err, EINVAL, "read '%s': there is no certificate in it", path);
	return 0;
}

int tls_client_new(const char *ca_file, struct tls_client **ret_client, struct err *err)
{
	struct tls_client *client = calloc(1, sizeof(*client));
	int r = 0;

	if (!client)
		die_no_memory();
	client->trust_hint = "--upstream-ca can add one";
	library_init();
	/* Without certificates to read, there is time for it until it is needed. */
	if (ca_file) {
		client->context = new_context();
		client->has_file = true;
		r = trust_file(client->context, ca_file, err);
	}
	if (r < 0) {
		tls_client_free(client);
		return r;
	}
	*ret_client = client;
	return 0;
}

void tls_client_set_own(struct tls_client *client, const char *trust_hint)
{
	if (!client->context)
		client->context = new_context();
	client->trust_hint = trust_hint;
	client->has_system_trust = client->has_file; /* there is nothing more to look for */
	if (!SSL_CTX_set_min_proto_version(client->context, TLS1_3_VERSION))
		die_no_memory();
}

void tls_client_free(struct tls_client *client)
{
	if (!client)
		return;
	assert(client->handshake_count == 0);
	session_cache_fini(&client->sessions);
	SSL_CTX_free(client->context);
	free(client);
}

/* Slow where it is one big file, so not before it is needed. Without any, nobody is trusted. */
static void trust_system(struct tls_client *client)
{
	if (client->has_system_trust)
		return;
	client->has_system_trust = true;
	if (!client->context)
		client->context = new_context();
	if (!SSL_CTX_set_default_verify_paths(client->context))
		ERR_clear_error();
}

/* ---- one handshake ---- */

struct tls_handshake {
	struct handshake base;
	struct tls_client *client;
	tls_done *done;
	void *owner;
	uint64_t timeout_ms;
	unsigned int alpn;
	char name[];
};

static void free_handshake(struct tls_handshake *handshake)
{
	handshake->client->handshake_count--;
	free(handshake);
}

void tls_handshake_cancel(struct tls_handshake *handshake)
{
	handshake_cancel(&handshake->base);
	free_handshake(handshake);
}

static void fail(struct tls_handshake *handshake, const struct err *err, uint64_t now_ms)
{
	tls_done *done = handshake->done;
	void *owner = handshake->owner;

	tls_handshake_cancel(handshake);
	done(owner, NULL, TLS_ALPN_NONE, err, now_ms);
}

static void on_failed(struct handshake *base, int code, uint64_t now_ms)
{
	struct tls_handshake *handshake = OWNER_OF(base, struct tls_handshake, base);
	struct err err = { 0 };

	if (code == ETIMEDOUT)
		err_say(&err, ETIMEDOUT, "TLS with '%s': no handshake in %" PRIu64 " ms",
			handshake->name, handshake->timeout_ms);
	else if (code == EINVAL)
		err_say(&err, EPROTO, "TLS with '%s': not a host name", handshake->name);
	else
		fault_describe(base->stream.state, code, handshake->name,
			       handshake->client->trust_hint, &err);
	fail(handshake, &err, now_ms);
}

static void on_done(struct handshake *base, uint64_t now_ms)
{
	struct tls_handshake *handshake = OWNER_OF(base, struct tls_handshake, base);
	struct stream stream = base->stream;
	tls_done *done = handshake->done;
	void *owner = handshake->owner;
	enum tls_alpn alpn;
	struct err err;

	/* A server may choose only what was offered; OpenSSL takes whatever it says. */
	if (!handshake_alpn(base, handshake->alpn, &alpn)) {
		err_say(&err, EPROTO,
			"TLS with '%s': the server chose a protocol it was not offered",
			handshake->name);
		fail(handshake, &err, now_ms);
		return;
	}
	free_handshake(handshake);
	done(owner, &stream, alpn, NULL, now_ms);
}

static const struct handshake_ops ops = { on_done, on_failed };

/* ---- the beginning of it ---- */

static uint16_t peer_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in6 v6;
		struct sockaddr_in v4;
	} address = { .any.sa_family = AF_UNSPEC };
	socklen_t len = sizeof(address);

	if (getpeername(fd, &address.any, &len) < 0)
		return 0;
	if (address.any.sa_family == AF_INET6)
		return ntohs(address.v6.sin6_port);
	return address.any.sa_family == AF_INET ? ntohs(address.v4.sin_port) : 0;
}

/* Says whom to expect; false for what cannot be a name. */
static bool expect(SSL *ssl, const char *name)
{
	X509_VERIFY_PARAM *verify = SSL_get0_param(ssl);
	unsigned char address[16];
	size_t len = resolve_literal(name, address);

	if (len > 0) /* RFC 6066, section 3: addresses are not sent as names */
		return X509_VERIFY_PARAM_set1_ip(verify, address, len) == 1;
	/* OpenSSL would take a leading dot for "anything below", and no name for any name. */
	if (name[0] == '\0' || name[0] == '.')
		return false;
	return X509_VERIFY_PARAM_set1_host(verify, name, 0) == 1 &&
	       SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* 0 or an errno: EINVAL is no name. */
static int prepare(struct tls_handshake *handshake, int fd)
{
	struct tls_client *client = handshake->client;
	struct session_peer *peer = session_cache_get(&client->sessions, handshake->name,
						      peer_port(fd));
	SSL_SESSION *session = peer->session;
	unsigned char wire[TLS_ALPN_WIRE_MAX];
	size_t len = tls_alpn_format(handshake->alpn, wire);
	SSL *ssl;

	trust_system(client);
	tls_stream_init_client(&handshake->base.stream, client->context, fd, peer);
	ssl = handshake->base.stream.state;
	tls_stream_forget_errors();
	if (!expect(ssl, handshake->name))
		return EINVAL;
	if (SSL_set_alpn_protos(ssl, wire, (unsigned int)len) != 0 ||
	    (session && SSL_SESSION_is_resumable(session) && !SSL_set_session(ssl, session)))
		die_no_memory();
	return 0;
}

struct tls_handshake *tls_handshake_start(struct tls_client *client, struct loop *loop, int fd,
					  const char *name, unsigned int alpn, uint64_t timeout_ms,
					  uint64_t now_ms, tls_done *done, void *owner)
{
	size_t size = strnlen(name, RESOLVE_NAME_MAX + 3) + 1;
	struct tls_handshake *handshake = calloc(1, sizeof(*handshake) + size);

	if (!handshake)
		die_no_memory();
	*handshake = (struct tls_handshake){
		.base = { .ops = &ops, .loop = loop },
		.client = client,
		.done = done,
		.owner = owner,
		.timeout_ms = timeout_ms,
		.alpn = alpn,
	};
	memcpy(handshake->name, name, size - 1);
	client->handshake_count++;
	handshake_start(&handshake->base, prepare(handshake, fd), timeout_ms, now_ms);
	return handshake;
}
