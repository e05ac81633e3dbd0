/* SPDX-License-Identifier: MIT */
/* Sockets and TLS of both ends of a benchmark. */
#include "wire.h"

#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_AHEAD 65536
#define TICKET_MS  1000

static SSL_CTX *client_context, *server_context;
static SSL_SESSION *ticket; /* the last one */

/* ---- TLS ---- */

static SSL_CTX *new_context(const SSL_METHOD *method)
{
	SSL_CTX *context = SSL_CTX_new(method);

	if (!context)
		errx(1, "no TLS");
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD);
	return context;
}

static int on_ticket(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	SSL_SESSION_free(ticket);
	ticket = session;
	return 1; /* it is ours */
}

static SSL_CTX *get_client_context(void)
{
	static const unsigned char h1[] = "\x08http/1.1";

	if (client_context)
		return client_context;
	client_context = new_context(TLS_client_method());
	SSL_CTX_set_session_cache_mode(client_context,
				       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(client_context, on_ticket);
	SSL_CTX_set_alpn_protos(client_context, h1, sizeof(h1) - 1);
	return client_context;
}

static int take_h1(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
		   const unsigned char *offered, unsigned int offered_len, void *arg)
{
	static const unsigned char h1[] = "\x08http/1.1";
	unsigned char *name;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&name, ret_len, h1, sizeof(h1) - 1, offered, offered_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret_name = name;
	return SSL_TLSEXT_ERR_OK;
}

void wire_serve_tls(const char *certificate, const char *key)
{
	server_context = new_context(TLS_server_method());
	SSL_CTX_set_alpn_select_cb(server_context, take_h1, NULL);
	if (SSL_CTX_use_certificate_file(server_context, certificate, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(server_context, key, SSL_FILETYPE_PEM) != 1)
		errx(1, "cannot use %s and %s", certificate, key);
}

/* What recv and send would say. */
static ssize_t result_of(struct wire *wire, int n)
{
	int code = n > 0 ? SSL_ERROR_NONE : SSL_get_error(wire->ssl, n);

	if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
		errno = EAGAIN;
	else if (code == SSL_ERROR_ZERO_RETURN)
		return 0;
	else if (code != SSL_ERROR_NONE)
		errno = ECONNRESET;
	return code == SSL_ERROR_NONE ? n : -1;
}

/* ---- where ---- */

static void find_unix(const char *path, struct wire_target *ret_target)
{
	struct sockaddr_un *address = (struct sockaddr_un *)&ret_target->address;

	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	ret_target->address_len = sizeof(*address);
}

static void find_host(const char *host, const char *port, struct wire_target *ret_target)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	int code = getaddrinfo(host, port, &hints, &found);

	if (code != 0)
		errx(1, "%s:%s: %s", host, port, gai_strerror(code));
	memcpy(&ret_target->address, found->ai_addr, found->ai_addrlen);
	ret_target->address_len = found->ai_addrlen;
	freeaddrinfo(found);
}

void wire_find(const char *text, const char *label, struct wire_target *ret_target)
{
	char copy[512], host[600], *colon, *slash;
	const char *dot = *label ? "." : "";

	memset(ret_target, 0, sizeof(*ret_target));
	strcpy(ret_target->name, "127.0.0.1:8080");
	if (strncmp(text, "unix:", 5) == 0) {
		find_unix(text + 5, ret_target);
		return;
	}
	ret_target->is_tls = strncmp(text, "tls:", 4) == 0;
	snprintf(copy, sizeof(copy), "%s", strlen(text) > 4 ? text + 4 : "");
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	colon = strchr(copy, ':');
	if ((!ret_target->is_tls && strncmp(text, "tcp:", 4) != 0) || !colon)
		errx(2, "not a target: %s", text);
	*colon = '\0';
	snprintf(host, sizeof(host), "%s%s%s", slash ? "" : label, slash ? "" : dot, copy);
	find_host(host, colon + 1, ret_target);
	if (ret_target->is_tls && slash)
		snprintf(ret_target->name, sizeof(ret_target->name), "%s%s%s", label, dot, slash);
	else if (ret_target->is_tls)
		snprintf(ret_target->name, sizeof(ret_target->name), "%.*s", WIRE_NAME_MAX, host);
}

/* ---- connections ---- */

static int shake_hands(struct wire *wire, const char *name, SSL_SESSION *session)
{
	wire->ssl = SSL_new(get_client_context());
	if (!wire->ssl || !SSL_set_fd(wire->ssl, wire->fd) ||
	    !SSL_set_tlsext_host_name(wire->ssl, name) ||
	    (session && !SSL_set_session(wire->ssl, session)))
		errx(1, "no TLS");
	if (SSL_connect(wire->ssl) == 1)
		return 0;
	wire_close(wire);
	errno = EPROTO;
	return -1;
}

int wire_open(struct wire *wire, const struct wire_target *target, SSL_SESSION *session)
{
	int one = 1;

	*wire = (struct wire){ .fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC,
					    0) };
	if (wire->fd < 0)
		return -1;
	if (target->address.ss_family != AF_UNIX)
		setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(wire->fd, (const struct sockaddr *)&target->address, target->address_len) < 0) {
		wire_close(wire);
		return -1;
	}
	return target->is_tls ? shake_hands(wire, target->name, session) : 0;
}

SSL_SESSION *wire_take_session(struct wire *wire)
{
	struct pollfd more = { .fd = wire->fd, .events = POLLIN };
	SSL_SESSION *taken;
	char byte;

	/* With nothing but tickets to read, SSL_peek would wait for ever: one record at a time. */
	SSL_clear_mode(wire->ssl, SSL_MODE_AUTO_RETRY);
	while (!ticket && poll(&more, 1, TICKET_MS) == 1)
		if (SSL_peek(wire->ssl, &byte, 1) > 0 ||
		    SSL_get_error(wire->ssl, -1) != SSL_ERROR_WANT_READ)
			break;
	taken = ticket;
	ticket = NULL;
	return taken;
}

void wire_accept(struct wire *wire, int fd)
{
	/* So much is sent without waiting that nobody has to. */
	int one = 1, room = 200000;

	*wire = (struct wire){ .fd = fd };
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!server_context)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	wire->ssl = SSL_new(server_context);
	if (!wire->ssl || !SSL_set_fd(wire->ssl, fd))
		errx(1, "no TLS");
	SSL_set_accept_state(wire->ssl);
}

void wire_close(struct wire *wire)
{
	/* OpenSSL would not take up the session of a connection again that ended unsaid. */
	if (wire->ssl)
		SSL_set_shutdown(wire->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(wire->ssl);
	close(wire->fd);
	*wire = (struct wire){ .fd = -1 };
}

ssize_t wire_send(struct wire *wire, const char *data, size_t len)
{
	if (wire->ssl)
		return result_of(wire, SSL_write(wire->ssl, data, (int)len));
	return send(wire->fd, data, len, MSG_NOSIGNAL);
}

ssize_t wire_recv(struct wire *wire, char *data, size_t size)
{
	if (wire->ssl)
		return result_of(wire, SSL_read(wire->ssl, data, (int)size));
	return recv(wire->fd, data, size, 0);
}

bool wire_has_more(const struct wire *wire)
{
	return wire->ssl && SSL_has_pending(wire->ssl);
}

int wire_send_whole(struct wire *wire, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = wire_send(wire, data, len);
		struct pollfd room = { .fd = wire->fd, .events = POLLOUT };

		if (n < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}
