/* SPDX-License-Identifier: MIT */
/* TLS towards origins: who is believed, what is said of the others, and how streams end. */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "tls/tls_client.h"

#define PATIENCE_MS 5000
#define DAY_S       86400L
#define GOOD_NAMES  "DNS:origin.test,DNS:*.wild.test,IP:127.0.0.1,IP:::1"

struct client {
	struct stream stream;
	int calls;
	enum tls_alpn alpn;
	struct err err;
};

static struct loop loop;
static struct tls_client *tls;
static struct identity authority, other_authority, good;
static SSL_CTX *good_context;
static int listener_fd;
static char dir[] = "/tmp/warder-tls-XXXXXX";
static char ca_path[64], system_path[64], wrong_path[64], config_path[64];

/* ---- once for all ---- */

/* A configuration that would make itself felt, in place before OpenSSL is first called. */
static void begin_openssl(void)
{
	FILE *file = fopen(config_path, "we");
	struct err err = { 0 };

	assert_non_null(file);
	fputs("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
	      "[c]\nMaxProtocol = TLSv1.2\n",
	      file);
	fclose(file);
	setenv("OPENSSL_CONF", config_path, 1);
	assert_int_equal(tls_client_new(NULL, &tls, &err), 0);
	tls_client_free(tls);
}

static int set_up_all(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", dir);
	snprintf(system_path, sizeof(system_path), "%s/system.pem", dir);
	snprintf(wrong_path, sizeof(wrong_path), "%s/wrong.pem", dir);
	snprintf(config_path, sizeof(config_path), "%s/openssl.cnf", dir);
	begin_openssl();
	signal(SIGPIPE, SIG_DFL);
	/* The system's own authorities have nothing to do here, and one test brings its own. */
	setenv("SSL_CERT_FILE", "/nonexistent", 1);
	setenv("SSL_CERT_DIR", "/nonexistent", 1);
	authority = identity_new(NULL, NULL, -DAY_S, DAY_S);
	other_authority = identity_new(NULL, NULL, -DAY_S, DAY_S);
	good = identity_new(GOOD_NAMES, &authority, -DAY_S, DAY_S);
	good_context = server_context(&good);
	identity_write(&authority, ca_path, "we");
	listener_fd = listen_on_loopback(5);
	return 0;
}

static int tear_down_all(void **state)
{
	(void)state;
	unlink(ca_path);
	unlink(system_path);
	unlink(wrong_path);
	unlink(config_path);
	rmdir(dir);
	SSL_CTX_free(good_context);
	identity_free(&authority);
	identity_free(&other_authority);
	identity_free(&good);
	close_fd(&listener_fd);
	return 0;
}

static int set_up(void **state)
{
	struct err err = { 0 };

	(void)state;
	if (loop_init(&loop) < 0)
		return -1;
	return tls_client_new(ca_path, &tls, &err);
}

static int tear_down(void **state)
{
	(void)state;
	tls_client_free(tls);
	tls = NULL;
	loop_fini(&loop);
	return 0;
}

/* ---- one handshake ---- */

static void on_done(void *owner, struct stream *stream, enum tls_alpn alpn, const struct err *err,
		    uint64_t now_ms)
{
	struct client *client = owner;

	assert_true(now_ms > 0);
	assert_int_equal(stream == NULL, err != NULL);
	client->calls++;
	client->alpn = alpn;
	if (stream)
		client->stream = *stream;
	else
		client->err = *err;
}

static unsigned int offer = TLS_ALPN_HTTP1;

static struct tls_handshake *start(struct client *client, struct tls_server *server,
				   const char *name, uint64_t timeout_ms)
{
	struct tls_handshake *handshake;

	*client = (struct client){ .stream.fd = -1 };
	fcntl(server->client_fd, F_SETFL, O_NONBLOCK);
	handshake = tls_handshake_start(tls, &loop, take_fd(&server->client_fd), name, offer,
					timeout_ms, clock_now_ms(), on_done, client);
	assert_int_equal(client->calls, 0); /* never from inside */
	return handshake;
}

static void finish(struct client *client, struct tls_server *server)
{
	uint64_t end_ms = clock_now_ms() + 2ULL * PATIENCE_MS;

	while (client->calls == 0) {
		assert_true(clock_now_ms() < end_ms);
		tls_server_pump(server);
		assert_int_equal(loop_turn(&loop, server->step ? 0 : 1), 0);
	}
	assert_int_equal(client->calls, 1);
}

static void shake_hands(struct client *client, struct tls_server *server, const char *name)
{
	assert_non_null(start(client, server, name, PATIENCE_MS));
	finish(client, server);
	/* The server may have something to read still, or to send: its tickets. */
	for (int i = 0; i < 3; i++)
		tls_server_pump(server);
}

static struct err fail_with(SSL_CTX *context, const char *name)
{
	struct tls_server server;
	struct client client;

	tls_server_open(&server, context, listener_fd);
	shake_hands(&client, &server, name);
	assert_int_equal(client.stream.fd, -1);
	tls_server_close(&server);
	return client.err;
}

/* The same with a certificate that is made for it. */
static struct err fail_as(const char *names, const struct identity *issuer, long begins_s,
			  long ends_s)
{
	struct identity identity = identity_new(names, issuer, begins_s, ends_s);
	SSL_CTX *context = server_context(&identity);
	struct err err = fail_with(context, "origin.test");

	SSL_CTX_free(context);
	identity_free(&identity);
	return err;
}

/* Reads until there is nothing, or `len` bytes; what ended it. */
static ssize_t read_some(struct stream *stream, struct tls_server *server, char *data, size_t len,
			 size_t *ret_len)
{
	ssize_t n = -EAGAIN;

	*ret_len = 0;
	for (int idle = 0; *ret_len < len && idle < 50;) {
		tls_server_pump(server);
		n = stream_read(stream, data + *ret_len, len - *ret_len);
		if (n > 0)
			*ret_len += (size_t)n;
		else if (n != -EAGAIN)
			break;
		idle = n > 0 ? 0 : idle + 1;
	}
	return n;
}

static void assert_talks(struct client *client, struct tls_server *server)
{
	char data[16];
	size_t len;

	assert_int_equal(stream_write(&client->stream, "ping", 4), 4);
	for (int i = 0; i < 1000 && SSL_pending(server->ssl) == 0; i++) {
		tls_server_pump(server);
		ERR_clear_error();
		if (SSL_peek(server->ssl, data, sizeof(data)) > 0)
			break;
	}
	assert_int_equal(SSL_read(server->ssl, data, sizeof(data)), 4);
	assert_memory_equal(data, "ping", 4);
	assert_int_equal(SSL_write(server->ssl, "pong", 4), 4);
	for (int i = 0; i < 1000 && BIO_pending(server->out) > 0; i++)
		tls_server_pump(server);
	read_some(&client->stream, server, data, 4, &len);
	assert_int_equal(len, 4);
	assert_memory_equal(data, "pong", 4);
}

/* ---- who is believed ---- */

static void names_and_addresses_are_verified(void **state)
{
	static const struct {
		const char *name, *sni;
	} cases[] = {
		{ "origin.test", "origin.test" },
		{ "ORIGIN.test", "ORIGIN.test" },
		{ "a.wild.test", "a.wild.test" },
		{ "127.0.0.1", "" },
		{ "::1", "" },
		{ "[::1]", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tls_server server;
		struct client client;

		tls_server_open(&server, good_context, listener_fd);
		shake_hands(&client, &server, cases[i].name);
		assert_string_equal(client.err.text, "");
		assert_string_equal(server.sni, cases[i].sni);
		assert_talks(&client, &server);
		stream_close(&client.stream);
		tls_server_close(&server);
	}
}

static void others_are_not(void **state)
{
	static const char *const names[] = { "other.test", "test",      "a.b.wild.test",
					     "wild.test",  "127.0.0.2", "xorigin.test" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err err = fail_with(good_context, names[i]);

		assert_int_equal(err.code, EKEYREJECTED);
		assert_non_null(strstr(err.text, "the certificate is for another name"));
		assert_non_null(strstr(err.text, names[i]));
	}
}

/* OpenSSL would take ".test" for any name below it, and no name for any name. */
static void what_is_no_name_is_refused(void **state)
{
	static char long_name[400];
	const char *const names[] = { "", ".test", ".origin.test", long_name };

	(void)state;
	memset(long_name, 'a', sizeof(long_name) - 1);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(fail_with(good_context, names[i]).code, EPROTO);
}

static void certificates_fail_in_their_own_words(void **state)
{
	struct err err;

	(void)state;
	err = fail_as(GOOD_NAMES, &authority, -2 * DAY_S, -DAY_S);
	assert_int_equal(err.code, EKEYREJECTED);
	assert_non_null(strstr(err.text, "certificate has expired"));

	err = fail_as(GOOD_NAMES, &authority, DAY_S, 2 * DAY_S);
	assert_int_equal(err.code, EKEYREJECTED);
	assert_non_null(strstr(err.text, "not valid yet"));

	err = fail_as(GOOD_NAMES, &other_authority, -DAY_S, DAY_S);
	assert_int_equal(err.code, EKEYREJECTED);
	assert_non_null(strstr(err.text, "not from a trusted authority"));

	err = fail_as(GOOD_NAMES, NULL, -DAY_S, DAY_S);
	assert_int_equal(err.code, EKEYREJECTED);
	assert_non_null(strstr(err.text, "not from a trusted authority"));

	/* The name is in the certificate, but not where names belong. */
	err = fail_as("email:origin.test", &authority, -DAY_S, DAY_S);
	assert_int_equal(err.code, EKEYREJECTED);
	assert_non_null(strstr(err.text, "the certificate is for another name"));
}

static void one_that_is_named_itself_is_trusted(void **state)
{
	struct identity alone = identity_new(GOOD_NAMES, NULL, -DAY_S, DAY_S);
	SSL_CTX *context = server_context(&alone);
	struct tls_server server;
	struct client client;
	struct err err = { 0 };

	(void)state;
	tls_client_free(tls);
	identity_write(&alone, ca_path, "ae"); /* the second one of the file */
	assert_int_equal(tls_client_new(ca_path, &tls, &err), 0);
	identity_write(&authority, ca_path, "we");
	tls_server_open(&server, context, listener_fd);
	shake_hands(&client, &server, "origin.test");
	assert_string_equal(client.err.text, "");
	stream_close(&client.stream);
	tls_server_close(&server);
	SSL_CTX_free(context);
	identity_free(&alone);
}

/* Also that the system's trust is not read before it is needed: the file is made afterwards. */
static void the_systems_authorities_are_trusted(void **state)
{
	struct tls_server server;
	struct client client;
	struct err err = { 0 };

	(void)state;
	tls_client_free(tls);
	setenv("SSL_CERT_FILE", system_path, 1);
	assert_int_equal(tls_client_new(NULL, &tls, &err), 0);
	identity_write(&authority, system_path, "we");
	tls_server_open(&server, good_context, listener_fd);
	shake_hands(&client, &server, "origin.test");
	setenv("SSL_CERT_FILE", "/nonexistent", 1);
	assert_string_equal(client.err.text, "");
	stream_close(&client.stream);
	tls_server_close(&server);
}

static void a_wrong_file_is_found_at_once(void **state)
{
	struct tls_client *none = NULL;
	struct err err = { 0 };
	FILE *file;

	(void)state;
	assert_int_equal(tls_client_new("/nonexistent", &none, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent"));
	assert_int_equal(tls_client_new("/", &none, &err), -EIO);
	assert_int_equal(tls_client_new("/dev/null", &none, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no certificate"));

	identity_write(&authority, wrong_path, "we");
	file = fopen(wrong_path, "ae");
	fputs("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", file);
	fclose(file);
	assert_int_equal(tls_client_new(wrong_path, &none, &err), -EINVAL);
	assert_non_null(strstr(err.text, "certificate 2 in it is damaged"));
	assert_null(none);
	tls_client_free(NULL);
}

/* ---- other faults ---- */

static void old_versions_are_refused(void **state)
{
	SSL_CTX *context = server_context(&good);
	struct err err;

	(void)state;
	SSL_CTX_set_security_level(context, 0);
	SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION);
	err = fail_with(context, "origin.test");
	assert_int_equal(err.code, EPROTO);
	assert_non_null(strstr(err.text, "TLS 1.2"));
	SSL_CTX_free(context);
}

/* What the server was offered, and what it is to say. */
struct choice {
	char offered[32];
	const char *chosen; /* NULL: nothing */
};

static int choose(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
		  const unsigned char *offered, unsigned int offered_len, void *arg)
{
	struct choice *choice = arg;

	(void)ssl;
	assert_true(offered_len < sizeof(choice->offered));
	memcpy(choice->offered, offered, offered_len);
	choice->offered[offered_len] = '\0';
	if (!choice->chosen)
		return SSL_TLSEXT_ERR_NOACK;
	*ret = (const unsigned char *)choice->chosen;
	*ret_len = (unsigned char)strlen(choice->chosen);
	return SSL_TLSEXT_ERR_OK;
}

static void only_what_was_offered_is_taken(void **state)
{
	static const struct {
		unsigned int offer;
		const char *offered, *chosen;
		bool is_taken;
		enum tls_alpn alpn;
	} cases[] = {
		{ TLS_ALPN_HTTP1, "\x08http/1.1", "http/1.1", true, TLS_ALPN_HTTP1 },
		{ TLS_ALPN_HTTP1, "\x08http/1.1", NULL, true, TLS_ALPN_NONE },
		{ TLS_ALPN_HTTP1, "\x08http/1.1", "h2", false, TLS_ALPN_NONE },
		{ TLS_ALPN_H2, "\x02h2", "h2", true, TLS_ALPN_H2 },
		{ TLS_ALPN_H2, "\x02h2", "http/1.1", false, TLS_ALPN_NONE },
		{ TLS_ALPN_H2 | TLS_ALPN_HTTP1, "\x02h2\x08http/1.1", "h2", true, TLS_ALPN_H2 },
		{ TLS_ALPN_H2 | TLS_ALPN_HTTP1, "\x02h2\x08http/1.1", "http/1.1", true,
		  TLS_ALPN_HTTP1 },
		{ TLS_ALPN_H2 | TLS_ALPN_HTTP1, "\x02h2\x08http/1.1", "h3", false, TLS_ALPN_NONE },
	};
	SSL_CTX *context = server_context(&good);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct choice choice = { .chosen = cases[i].chosen };
		struct tls_server server;
		struct client client;

		SSL_CTX_set_alpn_select_cb(context, choose, &choice);
		offer = cases[i].offer;
		tls_server_open(&server, context, listener_fd);
		shake_hands(&client, &server, "origin.test");
		assert_string_equal(choice.offered, cases[i].offered);
		assert_int_equal(client.stream.fd >= 0, cases[i].is_taken);
		assert_int_equal(client.alpn, cases[i].alpn);
		assert_int_equal(client.err.code, cases[i].is_taken ? 0 : EPROTO);
		stream_close(&client.stream);
		tls_server_close(&server);
	}
	offer = TLS_ALPN_HTTP1;
	SSL_CTX_free(context);
}

static void fail_in_plain(const char *said, size_t len, int code, const char *text)
{
	struct tls_server server;
	struct client client;

	tls_server_open(&server, good_context, listener_fd);
	assert_non_null(start(&client, &server, "origin.test", PATIENCE_MS));
	assert_int_equal(loop_turn(&loop, 100), 0);
	if (len > 0)
		assert_int_equal(send(server.fd, said, len, 0), len);
	shutdown(server.fd, SHUT_WR);
	while (client.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_int_equal(client.err.code, code);
	assert_non_null(strstr(client.err.text, text));
	tls_server_close(&server);
}

static void servers_without_tls_are_recognised(void **state)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	static const char alert[] = "\x15\x03\x03\x00\x02\x02\x28"; /* handshake_failure */

	(void)state;
	fail_in_plain(http, sizeof(http) - 1, EPROTO, "does not speak TLS");
	fail_in_plain(alert, sizeof(alert) - 1, EPROTO, "refused every offer");
	fail_in_plain("", 0, ECONNRESET, "closed the connection");
}

static void silence_ends_at_the_deadline(void **state)
{
	struct tls_server server;
	struct client client;
	uint64_t start_ms = clock_now_ms();

	(void)state;
	tls_server_open(&server, good_context, listener_fd);
	assert_non_null(start(&client, &server, "origin.test", 60));
	while (client.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_true(clock_now_ms() - start_ms >= 59);
	assert_int_equal(client.err.code, ETIMEDOUT);
	tls_server_close(&server);
}

/* A connection that breaks after any number of bytes is never a stream, and never hangs. */
static void a_handshake_cut_anywhere_fails(void **state)
{
	size_t whole;
	struct tls_server server;
	struct client client;
	SSL_CTX *context = server_context(&good);

	(void)state;
	SSL_CTX_set_num_tickets(context, 0); /* all it sends is needed */
	tls_server_open(&server, context, listener_fd);
	shake_hands(&client, &server, "origin.test");
	whole = server.sent;
	assert_true(whole > 500);
	stream_close(&client.stream);
	tls_server_close(&server);
	for (size_t cut = 1; cut < whole; cut += cut < 100 || cut + 100 > whole ? 1 : 13) {
		tls_server_open(&server, context, listener_fd);
		server.cut_after = cut;
		shake_hands(&client, &server, "origin.test");
		assert_int_equal(client.stream.fd, -1);
		assert_int_equal(client.err.code, ECONNRESET);
		tls_server_close(&server);
	}
	SSL_CTX_free(context);
}

static void a_handshake_can_be_cancelled_at_any_time(void **state)
{
	(void)state;
	for (int turns = 0; turns < 40; turns++) {
		struct tls_server server;
		struct client client;
		struct tls_handshake *handshake;

		tls_server_open(&server, good_context, listener_fd);
		server.step = 100;
		handshake = start(&client, &server, "origin.test", PATIENCE_MS);
		for (int i = 0; i < turns && client.calls == 0; i++) {
			tls_server_pump(&server);
			assert_int_equal(loop_turn(&loop, 0), 0);
		}
		if (client.calls == 0) {
			tls_handshake_cancel(handshake);
			assert_int_equal(loop_turn(&loop, 0), 0);
			assert_int_equal(client.calls, 0);
		}
		stream_close(&client.stream);
		tls_server_close(&server);
	}
}

static void what_cannot_begin_can_be_cancelled(void **state)
{
	struct tls_server server;
	struct client client;

	(void)state;
	tls_server_open(&server, good_context, listener_fd);
	tls_handshake_cancel(start(&client, &server, "", PATIENCE_MS));
	assert_int_equal(loop_turn(&loop, 0), 0);
	assert_int_equal(client.calls, 0);
	tls_server_close(&server);
}

/* ---- streams ---- */

static void open_stream(struct client *client, struct tls_server *server, SSL_CTX *context,
			size_t step)
{
	tls_server_open(server, context, listener_fd);
	server->step = step;
	shake_hands(client, server, "origin.test");
	assert_string_equal(client->err.text, "");
}

static SSL_CTX *context_for(int version)
{
	SSL_CTX *context = server_context(&good);

	SSL_CTX_set_min_proto_version(context, version);
	SSL_CTX_set_max_proto_version(context, version);
	return context;
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

static void bytes_come_through_however_they_are_split(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 5, 7, 64, 1000 };

	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
		SSL_CTX *context = context_for(versions[v]);

		for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
			struct tls_server server;
			struct client client;

			open_stream(&client, &server, context, steps[i]);
			assert_talks(&client, &server);
			assert_talks(&client, &server);
			stream_close(&client.stream);
			tls_server_close(&server);
		}
		SSL_CTX_free(context);
	}
}

/* What one read took off the socket is all given out, without the socket being ready again. */
static void pending_bytes_are_announced(void **state)
{
	struct tls_server server;
	struct client client;
	char data[64];
	size_t len = 0;

	(void)state;
	open_stream(&client, &server, good_context, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(SSL_write(server.ssl, "0123456789", 10), 10);
	tls_server_pump(&server);
	do {
		ssize_t n = stream_read(&client.stream, data + len, 4);

		assert_true(n > 0);
		len += (size_t)n;
	} while (client.stream.has_pending && len < 30);
	assert_int_equal(len, 30);
	assert_memory_equal(data, "012345678901234567890123456789", 30);
	assert_int_equal(stream_read(&client.stream, data, 4), -EAGAIN);
	assert_int_equal(client.stream.waits_for, LOOP_READ);
	assert_false(client.stream.has_pending);
	stream_close(&client.stream);
	tls_server_close(&server);
}

/* Much more than the socket takes: the same bytes again after -EAGAIN, from another place. */
static void a_full_socket_is_waited_for(void **state)
{
	enum {
		SIZE = 8 << 20
	};
	char *data = malloc(SIZE), *copy = malloc(SIZE), *got = malloc(SIZE);
	struct tls_server server;
	struct client client;
	size_t sent = 0, received = 0;
	int waits = 0;

	(void)state;
	assert_true(data && copy && got);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = copy[i] = (char)(i * 31 + i / 251);
	open_stream(&client, &server, good_context, 0);
	while (received < SIZE) {
		ssize_t n = -EAGAIN;
		int r;

		while (sent < SIZE &&
		       (n = stream_write(&client.stream, (waits % 2 ? data : copy) + sent,
					 SIZE - sent)) > 0)
			sent += (size_t)n;
		if (sent < SIZE) {
			assert_int_equal(n, -EAGAIN);
			assert_int_equal(client.stream.waits_for, LOOP_WRITE);
			waits++;
		}
		tls_server_pump(&server);
		while ((r = SSL_read(server.ssl, got + received, (int)(SIZE - received))) > 0)
			received += (size_t)r;
	}
	assert_true(waits > 0);
	assert_memory_equal(data, got, SIZE);
	stream_close(&client.stream);
	tls_server_close(&server);
	free(data);
	free(copy);
	free(got);
}

static void a_clean_end_is_told_from_a_cut(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions) * 2; v++) {
		SSL_CTX *context = context_for(versions[v / 2]);
		bool is_clean = v % 2;
		struct tls_server server;
		struct client client;
		char data[8];
		size_t len;

		open_stream(&client, &server, context, 0);
		assert_int_equal(SSL_write(server.ssl, "last", 4), 4);
		if (is_clean)
			SSL_shutdown(server.ssl);
		tls_server_pump(&server);
		close_fd(&server.fd);
		assert_int_equal(read_some(&client.stream, &server, data, sizeof(data), &len),
				 is_clean ? 0 : -ECONNRESET);
		assert_int_equal(len, 4);
		stream_close(&client.stream);
		tls_server_close(&server);
		SSL_CTX_free(context);
	}
}

static void closing_says_goodbye(void **state)
{
	struct tls_server server;
	struct client client;
	char data[8];
	int result;

	(void)state;
	open_stream(&client, &server, good_context, 0);
	stream_close(&client.stream);
	tls_server_pump(&server);
	result = SSL_read(server.ssl, data, sizeof(data));
	assert_int_equal(SSL_get_error(server.ssl, result), SSL_ERROR_ZERO_RETURN);
	tls_server_close(&server);
}

/* The default action of SIGPIPE would end this program. */
static void a_write_to_nobody_is_an_error(void **state)
{
	struct linger at_once = { .l_onoff = 1 };
	struct tls_server server;
	struct client client;
	ssize_t n = 0;

	(void)state;
	open_stream(&client, &server, good_context, 0);
	setsockopt(server.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close_fd(&server.fd);
	for (int i = 0; i < 10 && n >= 0; i++)
		n = stream_write(&client.stream, "x", 1);
	assert_true(n == -ECONNRESET || n == -EPIPE);
	n = stream_write(&client.stream, "x", 1);
	assert_true(n < 0 && n != -EAGAIN);
	stream_close(&client.stream);
	tls_server_close(&server);
}

static void garbage_ends_the_stream(void **state)
{
	struct tls_server server;
	struct client client;
	char data[8];
	size_t len;

	(void)state;
	open_stream(&client, &server, good_context, 0);
	assert_int_equal(send(server.fd, "\x17\x03\x03\x00\x05garbage", 12, 0), 12);
	assert_int_equal(read_some(&client.stream, &server, data, sizeof(data), &len), -EPROTO);
	stream_close(&client.stream);
	tls_server_close(&server);
}

/* TLS 1.2 has it; a server that asks for it is told no, and the stream goes on. */
static void there_is_no_renegotiation(void **state)
{
	SSL_CTX *context = context_for(TLS1_2_VERSION);
	struct tls_server server;
	struct client client;

	(void)state;
	open_stream(&client, &server, context, 0);
	assert_int_equal(SSL_renegotiate(server.ssl), 1);
	SSL_do_handshake(server.ssl); /* HelloRequest */
	for (int i = 0; i < 5; i++) {
		char data[8];
		ssize_t n;

		tls_server_pump(&server);
		n = stream_read(&client.stream, data, sizeof(data));
		assert_int_equal(n, -EAGAIN);
	}
	assert_int_equal(SSL_num_renegotiations(client.stream.state), 0);
	stream_close(&client.stream);
	tls_server_close(&server);
	SSL_CTX_free(context);
}

static void no_configuration_file_is_read(void **state)
{
	struct tls_server server;
	struct client client;

	(void)state;
	open_stream(&client, &server, good_context, 0);
	assert_int_equal(SSL_version(client.stream.state), TLS1_3_VERSION);
	stream_close(&client.stream);
	tls_server_close(&server);
}

/* ---- sessions ---- */

static bool is_resumed(SSL_CTX *context, const char *name, int listener)
{
	struct tls_server server;
	struct client client;
	bool was_reused;

	tls_server_open(&server, context, listener);
	shake_hands(&client, &server, name);
	assert_string_equal(client.err.text, "");
	was_reused = SSL_session_reused(server.ssl) != 0;
	assert_talks(&client, &server); /* reads the tickets of TLS 1.3 as well */
	stream_close(&client.stream);
	tls_server_close(&server);
	return was_reused;
}

static void sessions_are_resumed_with_the_same_peer(void **state)
{
	int other_listener = listen_on_loopback(5);

	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
		SSL_CTX *context = context_for(versions[v]);
		const char *name = v ? "origin.test" : "a.wild.test";

		SSL_CTX_set_session_id_context(context, (const unsigned char *)"t", 1);
		assert_false(is_resumed(context, name, listener_fd));
		assert_true(is_resumed(context, name, listener_fd));
		assert_true(is_resumed(context, name, listener_fd));
		assert_false(is_resumed(context, name, other_listener)); /* another port */
		assert_false(is_resumed(context, "127.0.0.1", listener_fd));
		assert_true(is_resumed(context, name, listener_fd));
		SSL_CTX_free(context);
		tear_down(NULL);
		assert_int_equal(set_up(NULL), 0);
	}
	close_fd(&other_listener);
}

/* More names than are kept: the first is forgotten, the last is not. */
static void sessions_are_bounded(void **state)
{
	char name[32];

	(void)state;
	for (int i = 0; i < 66; i++) {
		snprintf(name, sizeof(name), "n%d.wild.test", i);
		assert_false(is_resumed(good_context, name, listener_fd));
	}
	assert_true(is_resumed(good_context, "n65.wild.test", listener_fd));
	assert_true(is_resumed(good_context, "n2.wild.test", listener_fd));
	assert_false(is_resumed(good_context, "n0.wild.test", listener_fd));
}

/* Its tickets come when there is nobody left to keep them. */
static void a_stream_outlives_the_client(void **state)
{
	struct tls_server server;
	struct client client;
	struct err err = { 0 };

	(void)state;
	open_stream(&client, &server, good_context, 0);
	tls_client_free(tls);
	assert_talks(&client, &server);
	stream_close(&client.stream);
	tls_server_close(&server);
	assert_int_equal(tls_client_new(ca_path, &tls, &err), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(names_and_addresses_are_verified),
		T(others_are_not),
		T(what_is_no_name_is_refused),
		T(certificates_fail_in_their_own_words),
		T(one_that_is_named_itself_is_trusted),
		T(the_systems_authorities_are_trusted),
		T(a_wrong_file_is_found_at_once),
		T(old_versions_are_refused),
		T(only_what_was_offered_is_taken),
		T(servers_without_tls_are_recognised),
		T(silence_ends_at_the_deadline),
		T(a_handshake_cut_anywhere_fails),
		T(a_handshake_can_be_cancelled_at_any_time),
		T(what_cannot_begin_can_be_cancelled),
		T(bytes_come_through_however_they_are_split),
		T(pending_bytes_are_announced),
		T(a_full_socket_is_waited_for),
		T(a_clean_end_is_told_from_a_cut),
		T(closing_says_goodbye),
		T(a_write_to_nobody_is_an_error),
		T(garbage_ends_the_stream),
		T(there_is_no_renegotiation),
		T(no_configuration_file_is_read),
		T(sessions_are_resumed_with_the_same_peer),
		T(sessions_are_bounded),
		T(a_stream_outlives_the_client),
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
