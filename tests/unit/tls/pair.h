/* SPDX-License-Identifier: MIT */
/* A keeper's TLS and who comes to it: a service with a certificate of its own, and a client. */
#ifndef TESTS_TLS_PAIR_H
#define TESTS_TLS_PAIR_H

#include "peer.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tls/service.h"

struct tls_pair {
	struct tls_service *service;
	SSL_CTX *client;
};

static inline void tls_pair_init(struct tls_pair *pair)
{
	static const unsigned char alpn[] = "\10warder/1";
	char path[] = "/tmp/warder-pair-XXXXXX";
	struct identity identity = identity_new("DNS:keeper.test", NULL, -60, 3600);
	BIO *bio = BIO_new(BIO_s_mem());
	struct err err;
	char *data;
	long len;

	signal(SIGPIPE, SIG_IGN);
	close(mkstemp(path));
	identity_write(&identity, path, "w");
	assert_int_equal(PEM_write_bio_PrivateKey(bio, identity.key, NULL, NULL, 0, NULL, NULL), 1);
	len = BIO_get_mem_data(bio, &data);
	assert_int_equal(tls_service_new(path, (struct bytes){ data, (size_t)len }, TLS_ALPN_WARDER,
					 &pair->service, &err),
			 0);
	unlink(path);
	BIO_free(bio);
	identity_free(&identity);
	pair->client = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_alpn_protos(pair->client, alpn, sizeof(alpn) - 1);
}

static inline void tls_pair_fini(struct tls_pair *pair)
{
	tls_service_free(pair->service);
	SSL_CTX_free(pair->client);
}

#endif
