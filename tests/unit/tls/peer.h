/* SPDX-License-Identifier: MIT */
/*
 * The other side of a TLS connection: OpenSSL between two pieces of memory, so that the test
 * decides how many bytes go over the socket at a time, and when it breaks. And the certificates
 * for it, made as the test needs them.
 */
#ifndef TESTS_TLS_PEER_H
#define TESTS_TLS_PEER_H

#include "unit.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <sys/socket.h>

struct identity {
	X509 *certificate;
	EVP_PKEY *key;
};

static inline void identity_free(struct identity *identity)
{
	X509_free(identity->certificate);
	EVP_PKEY_free(identity->key);
	*identity = (struct identity){ 0 };
}

static inline void add_extension(X509 *certificate, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

/*
 * Ed25519, because its signatures have one length, and so has every handshake.
 * `names` is a subjectAltName, NULL for an authority; `issuer` may be NULL: it signs itself.
 */
static inline struct identity identity_new(const char *names, const struct identity *issuer,
					   long begins_s, long ends_s)
{
	static long serial = 1;
	struct identity made = { X509_new(), EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	X509_NAME *subject = X509_get_subject_name(made.certificate);
	const struct identity *by = issuer ? issuer : &made;
	char text[32];

	snprintf(text, sizeof(text), "%s %ld", names ? "leaf" : "authority", serial);
	X509_set_version(made.certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++);
	X509_gmtime_adj(X509_getm_notBefore(made.certificate), begins_s);
	X509_gmtime_adj(X509_getm_notAfter(made.certificate), ends_s);
	X509_set_pubkey(made.certificate, made.key);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (unsigned char *)text, -1, -1, 0);
	X509_set_issuer_name(made.certificate, X509_get_subject_name(by->certificate));
	if (names)
		add_extension(made.certificate, NID_subject_alt_name, names);
	add_extension(made.certificate, NID_basic_constraints,
		      names ? "critical,CA:FALSE" : "critical,CA:TRUE");
	assert_true(X509_sign(made.certificate, by->key, NULL) > 0);
	return made;
}

static inline void identity_write(const struct identity *identity, const char *path,
				  const char *mode)
{
	FILE *file = fopen(path, mode);

	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, identity->certificate), 1);
	fclose(file);
}

/* ---- the server ---- */

struct tls_server {
	SSL *ssl;
	BIO *in, *out;    /* ssl's */
	int fd;           /* its end of the connection */
	int client_fd;    /* the other one, for the client to take */
	size_t step;      /* bytes that go each way in one pump; 0: no limit */
	size_t sent;      /* to the client, in all */
	size_t cut_after; /* bytes to the client, then the connection is closed; 0: never */
	char sni[256];
};

static inline SSL_CTX *server_context(const struct identity *identity)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());

	assert_non_null(context);
	if (identity) {
		SSL_CTX_use_certificate(context, identity->certificate);
		assert_int_equal(SSL_CTX_use_PrivateKey(context, identity->key), 1);
	}
	return context;
}

static inline int listen_on_loopback(int backlog)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

/* A connection over loopback; the server's end goes to ret_fd. */
static inline int connect_pair(int listener_fd, int *ret_fd)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_int_equal(getsockname(listener_fd, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
	*ret_fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(*ret_fd >= 0);
	/* What is sent is there for the other side to read at once. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*ret_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static inline void tls_server_open(struct tls_server *server, SSL_CTX *context, int listener_fd)
{
	*server = (struct tls_server){ .fd = -1 };
	server->client_fd = connect_pair(listener_fd, &server->fd);
	server->ssl = SSL_new(context);
	server->in = BIO_new(BIO_s_mem());
	server->out = BIO_new(BIO_s_mem());
	BIO_set_mem_eof_return(server->in, -1);
	SSL_set_bio(server->ssl, server->in, server->out);
	SSL_set_accept_state(server->ssl);
}

static inline void tls_server_close(struct tls_server *server)
{
	SSL_free(server->ssl);
	close_fd(&server->fd);
}

static inline size_t at_most(size_t wanted, size_t limit)
{
	return limit && wanted > limit ? limit : wanted;
}

static inline void pump_in(struct tls_server *server)
{
	char data[65536];
	ssize_t n = recv(server->fd, data, at_most(sizeof(data), server->step), 0);

	if (n > 0)
		assert_int_equal(BIO_write(server->in, data, (int)n), n);
}

static inline void pump_out(struct tls_server *server)
{
	char *data;
	size_t len = (size_t)BIO_get_mem_data(server->out, &data);
	char taken[65536];

	len = at_most(at_most(len, sizeof(taken)), server->step);
	if (server->cut_after)
		len = len < server->cut_after - server->sent ? len
							     : server->cut_after - server->sent;
	if (len > 0) {
		ssize_t n = send(server->fd, data, len, MSG_NOSIGNAL);

		if (n > 0) {
			server->sent += (size_t)n;
			assert_int_equal(BIO_read(server->out, taken, (int)n), n);
		}
	}
	if (server->cut_after && server->sent >= server->cut_after)
		close_fd(&server->fd);
}

/* Lets some bytes go each way, and the server do what it can with them. */
static inline void tls_server_pump(struct tls_server *server)
{
	if (server->fd < 0)
		return;
	pump_in(server);
	ERR_clear_error();
	if (!SSL_is_init_finished(server->ssl))
		SSL_do_handshake(server->ssl);
	if (SSL_get_servername(server->ssl, TLSEXT_NAMETYPE_host_name))
		snprintf(server->sni, sizeof(server->sni), "%s",
			 SSL_get_servername(server->ssl, TLSEXT_NAMETYPE_host_name));
	ERR_clear_error();
	pump_out(server);
}

#endif
