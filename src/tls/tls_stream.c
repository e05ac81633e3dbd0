/* SPDX-License-Identifier: MIT */
/*
 * TLS as a stream, over a BIO of our own: OpenSSL's writes to sockets in a way that raises SIGPIPE
 * when the peer has gone.
 */
#include "tls/tls_stream.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include "base/die.h"

/* ---- the socket below ---- */

static int socket_of(BIO *bio)
{
	return (int)(intptr_t)BIO_get_data(bio);
}

static int on_bio_write(BIO *bio, const char *data, int len)
{
	ssize_t n = send(socket_of(bio), data, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)n;
}

static int on_bio_read(BIO *bio, char *data, int len)
{
	ssize_t n = recv(socket_of(bio), data, (size_t)len, 0);

	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)n;
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

static BIO *new_bio(int fd)
{
	BIO *bio;

	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
		if (!method || !BIO_meth_set_write(method, on_bio_write) ||
		    !BIO_meth_set_read(method, on_bio_read) ||
		    !BIO_meth_set_ctrl(method, on_bio_control) || !OPENSSL_atexit(free_method))
			die_no_memory();
	}
	bio = BIO_new(method);
	if (!bio)
		die_no_memory();
	/* A BIO keeps a pointer, and a stream may move. */
	BIO_set_data(bio, (void *)(intptr_t)fd); // NOLINT(performance-no-int-to-ptr)
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
	bool has_pending = stream->has_pending;
	size_t done = 0;
	int result;
	ssize_t r;

	tls_stream_forget_errors();
	result = SSL_write_ex(stream->state, data, len, &done);
	if (result > 0)
		return (ssize_t)done;
	r = tls_stream_failed(stream, result);
	stream->has_pending = has_pending; /* that was a read's to say */
	return r == 0 ? -EPIPE : r;
}

static void tls_close(struct stream *stream)
{
	SSL *ssl = stream->state;
	struct session_peer *peer = SSL_get_app_data(ssl);

	tls_stream_forget_errors();
	if (SSL_is_init_finished(ssl))
		SSL_shutdown(ssl); /* once: what does not fit into the socket now is not sent */
	SSL_free(ssl);
	ERR_clear_error();
	session_peer_release(peer);
	close_fd(&stream->fd);
}

void tls_stream_init(struct stream *stream, SSL_CTX *context, int fd, struct session_peer *peer)
{
	static const struct stream_ops ops = { tls_read, tls_write, tls_close };
	SSL *ssl = SSL_new(context);
	BIO *bio = new_bio(fd);

	if (!ssl || !SSL_set_app_data(ssl, peer))
		die_no_memory();
	SSL_set_bio(ssl, bio, bio);
	SSL_set_connect_state(ssl);
	*stream = (struct stream){ .ops = &ops, .fd = fd, .state = ssl };
}
