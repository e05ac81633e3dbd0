/* SPDX-License-Identifier: MIT */
/* The operator's certificate and key, and handshakes with whoever calls. */
#include "tls/service.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/die.h"
#include "tls/fault.h"
#include "tls/handshake.h"
#include "tls/server_context.h"
#include "tls/tls_stream.h"

struct tls_service {
	SSL_CTX *context;
	unsigned int alpn;
};

/* ---- certificate and key ---- */

static int use_certificate(SSL_CTX *context, const char *path, struct err *err)
{
	/* OpenSSL does not say why it could not be opened. */
	if (access(path, R_OK) < 0)
		return err_set(err, errno, "open the certificate '%.200s'", path);
	if (SSL_CTX_use_certificate_chain_file(context, path) != 1)
		return err_say(err, EINVAL,
			       "the certificate '%.200s' cannot be used: no PEM, damaged, or too "
			       "weak (RSA keys have 2048 bits or more)",
			       path);
	return 0;
}

/* Nobody is asked for a passphrase: there is no one at this terminal. */
static int no_passphrase(char *text, int size, int is_write, void *owner)
{
	(void)text;
	(void)size;
	(void)is_write;
	(void)owner;
	return -1;
}

static EVP_PKEY *read_key(struct bytes pem)
{
	BIO *bio = pem.len <= INT_MAX ? BIO_new_mem_buf(pem.data, (int)pem.len) : NULL;
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;

	BIO_free(bio);
	return key;
}

static int use_key(SSL_CTX *context, struct bytes pem, const char *path, struct err *err)
{
	EVP_PKEY *key = read_key(pem);
	/* Fails, too, when it is not the certificate's. */
	bool is_used = key && SSL_CTX_use_PrivateKey(context, key) == 1 &&
		       SSL_CTX_check_private_key(context) == 1;

	EVP_PKEY_free(key);
	if (!key)
		return err_say(err, EINVAL,
			       "the key of '%.200s' is no private key in PEM without a passphrase",
			       path);
	return is_used ? 0
		       : err_say(err, EINVAL,
				 "the key does not belong to the certificate '%.200s', or is too "
				 "weak",
				 path);
}

int tls_service_new(const char *certificate, struct bytes key, unsigned int alpn,
		    struct tls_service **ret_service, struct err *err)
{
	SSL_CTX *context = server_context_new_service();
	struct tls_service *service = calloc(1, sizeof(*service));
	int r;

	if (!context || !service)
		die_no_memory();
	*service = (struct tls_service){ context, alpn };
	r = use_certificate(context, certificate, err);
	if (r == 0)
		r = use_key(context, key, certificate, err);
	ERR_clear_error();
	if (r < 0) {
		tls_service_free(service);
		return r;
	}
	*ret_service = service;
	return 0;
}

void tls_service_free(struct tls_service *service)
{
	if (!service)
		return;
	SSL_CTX_free(service->context); /* each handshake and stream has a use of it */
	free(service);
}

/* ---- one handshake ---- */

struct tls_caller {
	struct handshake base;
	struct server_terms terms;
	tls_service_done *done;
	void *owner;
	uint64_t timeout_ms;
};

void tls_caller_cancel(struct tls_caller *caller)
{
	handshake_cancel(&caller->base);
	free(caller);
}

static void fail(struct tls_caller *caller, const struct err *err, uint64_t now_ms)
{
	tls_service_done *done = caller->done;
	void *owner = caller->owner;

	tls_caller_cancel(caller);
	done(owner, NULL, err, now_ms);
}

static void on_failed(struct handshake *base, int code, uint64_t now_ms)
{
	struct tls_caller *caller = OWNER_OF(base, struct tls_caller, base);
	struct err err = { 0 };

	if (code == ETIMEDOUT)
		err_say(&err, ETIMEDOUT, "no handshake in %" PRIu64 " ms", caller->timeout_ms);
	else
		fault_describe_caller(code, &err);
	fail(caller, &err, now_ms);
}

static void on_done(struct handshake *base, uint64_t now_ms)
{
	struct tls_caller *caller = OWNER_OF(base, struct tls_caller, base);
	struct stream stream = base->stream;
	tls_service_done *done = caller->done;
	void *owner = caller->owner;
	enum tls_alpn alpn;
	struct err err;

	handshake_alpn(base, caller->terms.alpn, &alpn); /* we chose it ourselves */
	if (alpn == TLS_ALPN_NONE) {
		err_say(&err, EPROTO, "it asks for no protocol");
		fail(caller, &err, now_ms);
		return;
	}
	SSL_set_app_data(stream.state, NULL);
	free(caller);
	done(owner, &stream, NULL, now_ms);
}

struct tls_caller *tls_service_accept(struct tls_service *service, struct loop *loop, int fd,
				      uint64_t timeout_ms, uint64_t now_ms, tls_service_done *done,
				      void *owner)
{
	static const struct handshake_ops ops = { on_done, on_failed };
	static const struct bytes nothing;
	struct tls_caller *caller = calloc(1, sizeof(*caller));

	if (!caller)
		die_no_memory();
	*caller = (struct tls_caller){
		.base = { .ops = &ops, .loop = loop },
		.terms = { .alpn = service->alpn },
		.done = done,
		.owner = owner,
		.timeout_ms = timeout_ms,
	};
	tls_stream_init_server(&caller->base.stream, service->context, fd, nothing);
	if (!SSL_set_app_data(caller->base.stream.state, &caller->terms))
		die_no_memory();
	handshake_start(&caller->base, 0, timeout_ms, now_ms);
	return caller;
}
