/* SPDX-License-Identifier: MIT */
/*
 * TLS as a stream, over a BIO of our own: OpenSSL's writes to sockets in a way that raises SIGPIPE
 * when the peer has gone.
 */
#include "tls/tls_stream.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/die.h"

/* ---- the socket below ---- */

/* A BIO keeps a pointer, and a stream may move: so this is the BIO's. */
struct below {
	int fd;            /* the stream's */
	char *first;       /* bytes that were read before TLS began; NULL when they are used up */
	struct bytes rest; /* of them */
	bool has_more;     /* another record follows at once */
};

static int on_bio_write(BIO *bio, const char *data, int len)
{
	struct below *below = BIO_get_data(bio);
	/* Not a segment of its own then: each would be processed, and wake the peer, by itself. */
	int more = below->has_more ? MSG_MORE : 0;
	ssize_t n = send(below->fd, data, (size_t)len, MSG_NOSIGNAL | more);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int read_first(struct below *below, char *data, size_t len)
{
	if (len > below->rest.len)
		len = below->rest.len;
	memcpy(data, bytes_take(&below->rest, len).data, len);
	if (below->rest.len == 0) {
		free(below->first);
		below->first = NULL;
	}
	return (int)len;
}

static int on_bio_read(BIO *bio, char *data, int len)
{
	struct below *below = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (below->first)
		return read_first(below, data, (size_t)len);
	n = recv(below->fd, data, (size_t)len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static int on_bio_free(BIO *bio)
{
	struct below *below = BIO_get_data(bio);

	if (below)
		free(below->first);
	free(below);
	return 1;
}

static long on_bio_control(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void free_method(void)
{
	BIO_meth_free(method);
	method = NULL;
}

static struct below *new_below(int fd, struct bytes first)
{
	struct below *below = calloc(1, sizeof(*below));

	if (!below)
		die_no_memory();
	below->fd = fd;
	if (first.len == 0)
		return below;
	below->first = malloc(first.len);
	if (!below->first)
		die_no_memory();
	memcpy(below->first, first.data, first.len);
	below->rest = (struct bytes){ below->first, first.len };
	return below;
}

static BIO *new_bio(int fd, struct bytes first)
{
	BIO *bio;

	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
		if (!method || !BIO_meth_set_write(method, on_bio_write) ||
		    !BIO_meth_set_read(method, on_bio_read) ||
		    !BIO_meth_set_ctrl(method, on_bio_control) ||
		    !BIO_meth_set_destroy(method, on_bio_free) || !OPENSSL_atexit(free_method))
			die_no_memory();
	}
	bio = BIO_new(method);
	if (!bio)
		die_no_memory();
	BIO_set_data(bio, new_below(fd, first));
	BIO_set_init(bio, 1);
	return bio;
}

/* ---- the stream ---- */

void tls_stream_forget_errors(void)
{
	ERR_clear_error();
	errno = 0;
}

ssize_t tls_stream_failed(struct stream *stream, int result)
{
	int code = errno;
	SSL *ssl = stream->state;

	stream->has_pending = false;
	switch (SSL_get_error(ssl, result)) {
	case SSL_ERROR_WANT_READ:
		stream->waits_for = LOOP_READ;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		stream->waits_for = LOOP_WRITE;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (code == 0 || code == EAGAIN)
			code = ECONNRESET;
		break;
	default:
		code = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
			       ? ECONNRESET
			       : EPROTO;
	}
	/* OpenSSL wants nothing more to be sent after a failure, close_notify included. */
	SSL_set_quiet_shutdown(ssl, 1);
	return -code;
}

static ssize_t tls_read(struct stream *stream, char *data, size_t len)
{
	SSL *ssl = stream->state;
	size_t done = 0;
	int result;

	tls_stream_forget_errors();
	result = SSL_read_ex(ssl, data, len, &done);
	if (result <= 0)
		return tls_stream_failed(stream, result);
	stream->has_pending = SSL_has_pending(ssl) != 0;
	return (ssize_t)done;
}

static ssize_t tls_write(struct stream *stream, const char *data, size_t len)
{
	struct below *below = BIO_get_data(SSL_get_wbio(stream->state));
	bool has_pending = stream->has_pending;
	size_t done = 0;
	int result;
	ssize_t r;

	tls_stream_forget_errors();
	/* A call writes one record; what is left, the caller writes right after it. */
	below->has_more = len > SSL3_RT_MAX_PLAIN_LENGTH;
	result = SSL_write_ex(stream->state, data, len, &done);
	below->has_more = false;
	if (result > 0)
		return (ssize_t)done;
	r = tls_stream_failed(stream, result);
	stream->has_pending = has_pending; /* that was a read's to say */
	return r == 0 ? -EPIPE : r;
}

static void tls_close(struct stream *stream)
{
	SSL *ssl = stream->state;
	struct session_peer *peer = SSL_is_server(ssl) ? NULL : SSL_get_app_data(ssl);

	tls_stream_forget_errors();
	if (SSL_is_init_finished(ssl))
		SSL_shutdown(ssl); /* once: what does not fit into the socket now is not sent */
	SSL_free(ssl);
	ERR_clear_error();
	if (peer)
		session_peer_release(peer);
	close_fd(&stream->fd);
}

static SSL *init(struct stream *stream, SSL_CTX *context, int fd, struct bytes first)
{
	static const struct stream_ops ops = { tls_read, tls_write, tls_close };
	SSL *ssl = SSL_new(context);
	BIO *bio = new_bio(fd, first);

	if (!ssl)
		die_no_memory();
	SSL_set_bio(ssl, bio, bio);
	*stream = (struct stream){ .ops = &ops, .fd = fd, .state = ssl };
	return ssl;
}

void tls_stream_init_client(struct stream *stream, SSL_CTX *context, int fd,
			    struct session_peer *peer)
{
	SSL *ssl = init(stream, context, fd, (struct bytes){ NULL, 0 });

	SSL_set_connect_state(ssl);
	if (!SSL_set_app_data(ssl, peer))
		die_no_memory();
}

void tls_stream_init_server(struct stream *stream, SSL_CTX *context, int fd, struct bytes first)
{
	SSL_set_accept_state(init(stream, context, fd, first));
}
