/* SPDX-License-Identifier: MIT */
/* TLS with the operator's certificate: what it takes, whom it turns away, and what it says of it.
 */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>

#include "base/clock.h"
#include "tls/service.h"
#include "tls/tls_client.h"

#define TURNS 100000

struct side {
	struct stream stream;
	int calls;
	struct err err;
};

static struct loop loop;
static int listener_fd;
static struct identity authority, leaf, other;
static char ca_path[] = "/tmp/warder-service-ca-XXXXXX";
static char leaf_path[] = "/tmp/warder-service-leaf-XXXXXX";
static char key_pem[4096], other_pem[4096], locked_pem[4096];

static void write_key(EVP_PKEY *key, const EVP_CIPHER *cipher, char *ret_pem)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data;
	long len;

	assert_int_equal(
		PEM_write_bio_PrivateKey(bio, key, cipher, (unsigned char *)"pass", 4, NULL, NULL),
		1);
	len = BIO_get_mem_data(bio, &data);
	assert_true(len < 4096);
	memcpy(ret_pem, data, (size_t)len);
	BIO_free(bio);
}

static int set_up_all(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	authority = identity_new(NULL, NULL, -60, 3600);
	leaf = identity_new("DNS:keeper.test", &authority, -60, 3600);
	other = identity_new("DNS:keeper.test", &authority, -60, 3600);
	close(mkstemp(ca_path));
	close(mkstemp(leaf_path));
	identity_write(&authority, ca_path, "w");
	identity_write(&leaf, leaf_path, "w");
	write_key(leaf.key, NULL, key_pem);
	write_key(other.key, NULL, other_pem);
	write_key(leaf.key, EVP_aes_128_cbc(), locked_pem);
	listener_fd = listen_on_loopback(5);
	return loop_init(&loop);
}

static int tear_down_all(void **state)
{
	(void)state;
	loop_fini(&loop);
	close_fd(&listener_fd);
	unlink(ca_path);
	unlink(leaf_path);
	identity_free(&authority);
	identity_free(&leaf);
	identity_free(&other);
	return 0;
}

static struct tls_service *new_service(void)
{
	struct tls_service *service = NULL;
	struct err err;

	assert_int_equal(
		tls_service_new(leaf_path, bytes_of(key_pem), TLS_ALPN_WARDER, &service, &err), 0);
	return service;
}

static void what_cannot_be_used_is_named(void **state)
{
	static const struct {
		const char *certificate;
		const char *key;
		const char *words;
	} rows[] = {
		{ "/nonexistent", key_pem, "open the certificate '/nonexistent'" },
		{ "/dev/null", key_pem, "cannot be used" },
		{ leaf_path, "", "no private key in PEM" },
		{ leaf_path, "sk-not-a-key", "no private key in PEM" },
		{ leaf_path, locked_pem, "without a passphrase" }, /* and nobody is asked for one */
		{ leaf_path, other_pem, "does not belong to the certificate" },
	};
	struct tls_service *service = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = { 0 };

		assert_true(tls_service_new(rows[i].certificate, bytes_of(rows[i].key),
					    TLS_ALPN_WARDER, &service, &err) < 0);
		if (!strstr(err.text, rows[i].words))
			fail_msg("row %zu: '%s'", i, err.text);
		assert_null(strstr(err.text, "sk-not"));
	}
	assert_null(service);
}

static void on_done(void *owner, struct stream *stream, const struct err *err, uint64_t now_ms)
{
	struct side *side = owner;

	(void)now_ms;
	side->calls++;
	if (stream)
		side->stream = *stream;
	else
		side->err = *err;
}

static void on_client_done(void *owner, struct stream *stream, enum tls_alpn alpn,
			   const struct err *err, uint64_t now_ms)
{
	if (stream)
		assert_int_equal(alpn, TLS_ALPN_WARDER);
	on_done(owner, stream, err, now_ms);
}

/* Our own client and our own service. */
static void call(struct side *client, struct side *server, const char *ca, const char *name)
{
	struct tls_service *service = new_service();
	struct tls_client *tls = NULL;
	int fd, accepted_fd;
	struct err err;

	*client = *server = (struct side){ .stream.fd = -1 };
	fd = connect_pair(listener_fd, &accepted_fd);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(tls_client_new(ca, &tls, &err), 0);
	tls_client_set_own(tls, "name it");
	assert_non_null(tls_service_accept(service, &loop, accepted_fd, 5000, clock_now_ms(),
					   on_done, server));
	assert_non_null(tls_handshake_start(tls, &loop, fd, name, TLS_ALPN_WARDER, 5000,
					    clock_now_ms(), on_client_done, client));
	tls_service_free(service); /* what is under way goes on */
	for (int i = 0; (client->calls == 0 || server->calls == 0) && i < TURNS; i++)
		assert_int_equal(loop_turn(&loop, 10), 0);
	tls_client_free(tls);
}

static void a_caller_that_trusts_us_comes_in(void **state)
{
	struct side client, server;
	char got[8];

	(void)state;
	call(&client, &server, ca_path, "keeper.test");
	assert_true(client.stream.fd >= 0 && server.stream.fd >= 0);
	assert_int_equal(stream_write(&client.stream, "hello", 5), 5);
	assert_int_equal(stream_read(&server.stream, got, sizeof(got)), 5);
	assert_memory_equal(got, "hello", 5);
	stream_close(&client.stream);
	assert_int_equal(stream_read(&server.stream, got, sizeof(got)), 0);
	stream_close(&server.stream);
}

static void a_caller_that_does_not_trust_us_does_not(void **state)
{
	struct side client, server;

	(void)state;
	/* With a file of its own, the system's authorities do not count either way. */
	call(&client, &server, leaf_path, "keeper.test"); /* names the leaf itself: trusted */
	assert_true(client.stream.fd >= 0);
	stream_close(&client.stream);
	stream_close(&server.stream);
	call(&client, &server, ca_path, "other.test");
	assert_true(client.stream.fd < 0);
	assert_int_equal(client.err.code, EKEYREJECTED);
	assert_non_null(strstr(client.err.text, "for another name"));
	stream_close(&server.stream);
	call(&client, &server, NULL, "keeper.test");
	assert_int_equal(client.err.code, EKEYREJECTED);
	assert_non_null(strstr(client.err.text, "not from a trusted authority; name it"));
	stream_close(&server.stream);
}

/* A client of the test's own making. */
static void call_with(SSL_CTX *context, const char *garbage, uint64_t timeout_ms,
		      struct side *ret_server)
{
	struct tls_service *service = new_service();
	struct tls_server client;

	*ret_server = (struct side){ .stream.fd = -1 };
	tls_server_open(&client, context, listener_fd);
	fcntl(client.client_fd, F_SETFL, O_NONBLOCK);
	SSL_set_connect_state(client.ssl);
	assert_non_null(tls_service_accept(service, &loop, take_fd(&client.client_fd), timeout_ms,
					   clock_now_ms(), on_done, ret_server));
	if (garbage)
		assert_true(send(client.fd, garbage, strlen(garbage), 0) > 0);
	for (int i = 0; ret_server->calls == 0 && i < TURNS; i++) {
		if (!garbage && context)
			tls_server_pump(&client);
		assert_int_equal(loop_turn(&loop, 10), 0);
	}
	tls_server_close(&client);
	tls_service_free(service);
}

static void others_are_turned_away(void **state)
{
	static const unsigned char warder[] = "\10warder/1", h2[] = "\2h2";
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	struct side server;

	(void)state;
	SSL_CTX_set_alpn_protos(context, warder, sizeof(warder) - 1);
	call_with(context, NULL, 5000, &server); /* the control */
	assert_true(server.stream.fd >= 0);
	stream_close(&server.stream);

	SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
	call_with(context, NULL, 5000, &server);
	assert_true(server.stream.fd < 0);
	assert_string_equal(server.err.text, "it does not speak TLS 1.3");
	SSL_CTX_set_max_proto_version(context, 0);

	SSL_CTX_set_alpn_protos(context, h2, sizeof(h2) - 1);
	call_with(context, NULL, 5000, &server);
	assert_string_equal(server.err.text, "it offers no protocol that is spoken here");
	SSL_CTX_set_alpn_protos(context, NULL, 0);
	call_with(context, NULL, 5000, &server);
	assert_string_equal(server.err.text, "it asks for no protocol");

	call_with(context, "GET / HTTP/1.1\r\n\r\n", 5000, &server);
	assert_string_equal(server.err.text, "it does not speak TLS");
	call_with(context, "\26\3", 20, &server);
	assert_int_equal(server.err.code, ETIMEDOUT);
	SSL_CTX_free(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_cannot_be_used_is_named),
		TEST(a_caller_that_trusts_us_comes_in),
		TEST(a_caller_that_does_not_trust_us_does_not),
		TEST(others_are_turned_away),
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
