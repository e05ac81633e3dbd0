/* SPDX-License-Identifier: MIT */
/* TLS towards the agent: what it is shown, what it is refused, and that it works confined. */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/confine.h"
#include "tls/leaf.h"
#include "tls/mint.h"
#include "tls/tls_server.h"

#define PATIENCE_MS 5000
#define BOTH        (TLS_ALPN_H2 | TLS_ALPN_HTTP1)

/* Our side of a connection, and how it went. */
struct side {
	struct stream stream;
	int calls;
	enum tls_alpn alpn;
	struct err err;
};

static struct loop loop;
static struct tls_authority *authority;
static int listener_fd;

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

/* ---- once for all ---- */

static int set_up_all(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_DFL);
	listener_fd = listen_on_loopback(5);
	return 0;
}

static int tear_down_all(void **state)
{
	(void)state;
	close_fd(&listener_fd);
	return 0;
}

static int set_up(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(tls_authority_new("01J0TEST", &authority, &err), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tls_authority_free(authority);
	authority = NULL;
	loop_fini(&loop);
	return 0;
}

static X509 *authority_certificate(const struct tls_authority *of)
{
	struct bytes pem = tls_authority_pem(of);
	BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
	X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	assert_non_null(certificate);
	BIO_free(bio);
	return certificate;
}

/* ---- the agent ---- */

/* One that trusts the run's authority and nobody else, and is as strict as they come. */
static SSL_CTX *agent_context(int version)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	X509 *trusted = authority_certificate(authority);

	X509_STORE_add_cert(SSL_CTX_get_cert_store(context), trusted);
	X509_free(trusted);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
	SSL_CTX_set_security_level(context, 2);
	SSL_CTX_set_min_proto_version(context, version);
	SSL_CTX_set_max_proto_version(context, version);
	return context;
}

/* The other end of the test's `struct tls_server` is ours, this one is the agent. */
static void agent_open(struct tls_server *agent, SSL_CTX *context, const char *name,
		       const char *sni)
{
	tls_server_open(agent, context, listener_fd);
	SSL_set_connect_state(agent->ssl);
	fcntl(agent->client_fd, F_SETFL, O_NONBLOCK);
	if (sni)
		SSL_set_tlsext_host_name(agent->ssl, sni);
	if (!X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(agent->ssl), name))
		assert_int_equal(SSL_set1_host(agent->ssl, name), 1);
	ERR_clear_error();
}

static void on_done(void *owner, struct stream *stream, enum tls_alpn alpn, const struct err *err,
		    uint64_t now_ms)
{
	struct side *side = owner;

	assert_true(now_ms > 0);
	assert_int_equal(stream == NULL, err != NULL);
	side->calls++;
	side->alpn = alpn;
	if (stream)
		side->stream = *stream;
	else
		side->err = *err;
}

static struct tls_accept *start(struct side *side, struct tls_server *agent, struct bytes first,
				const char *name, unsigned int alpn, uint64_t timeout_ms)
{
	struct tls_accept *accept;

	*side = (struct side){ .stream.fd = -1 };
	accept = tls_accept_start(authority, &loop, take_fd(&agent->client_fd), first, name, alpn,
				  timeout_ms, clock_now_ms(), on_done, side);
	assert_int_equal(side->calls, 0); /* never from inside */
	return accept;
}

static void finish(struct side *side, struct tls_server *agent)
{
	uint64_t end_ms = clock_now_ms() + 2ULL * PATIENCE_MS;

	while (side->calls == 0) {
		assert_true(clock_now_ms() < end_ms);
		tls_server_pump(agent);
		assert_int_equal(loop_turn(&loop, agent->step ? 0 : 1), 0);
	}
	assert_int_equal(side->calls, 1);
	for (int i = 0; i < 3; i++)
		tls_server_pump(agent);
}

static void shake_hands(struct side *side, struct tls_server *agent, const char *name,
			unsigned int alpn)
{
	assert_non_null(start(side, agent, BYTES(""), name, alpn, PATIENCE_MS));
	finish(side, agent);
}

static void side_close(struct side *side, struct tls_server *agent)
{
	stream_close(&side->stream);
	tls_server_close(agent);
}

static void assert_talks(struct side *side, struct tls_server *agent)
{
	char data[8];
	ssize_t n = -EAGAIN;
	int r = -1;

	/* With TLS 1.2 the last bytes of a handshake are ours. */
	for (int i = 0; i < 10000 && !SSL_is_init_finished(agent->ssl); i++)
		tls_server_pump(agent);
	assert_int_equal(SSL_write(agent->ssl, "ping", 4), 4);
	for (int i = 0; i < 10000 && n == -EAGAIN; i++) {
		tls_server_pump(agent);
		n = stream_read(&side->stream, data, sizeof(data));
	}
	assert_int_equal(n, 4);
	assert_memory_equal(data, "ping", 4);
	assert_int_equal(stream_write(&side->stream, "pong", 4), 4);
	for (int i = 0; i < 10000 && r < 0; i++) {
		tls_server_pump(agent);
		r = SSL_read(agent->ssl, data, sizeof(data));
	}
	assert_int_equal(r, 4);
	assert_memory_equal(data, "pong", 4);
}

/* ---- what it is shown ---- */

static void every_name_has_its_certificate(void **state)
{
	static const struct {
		const char *name, *sni;
	} cases[] = {
		{ "api.example.com", "api.example.com" },
		{ "api.example.com", NULL },
		{ "api.example.com", "API.Example.com" },
		{ "api.example.com", "api.example.com." },
		{ "under_score.example", "under_score.example" },
		{ "localhost", "localhost" },
		{ "192.0.2.7", NULL },
		{ "192.0.2.7", "192.0.2.7" }, /* not as RFC 6066 has it, but some do */
		{ "2001:db8::7", NULL },
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
		SSL_CTX *context = agent_context(versions[i % 2]);
		struct tls_server agent;
		struct side side;

		agent_open(&agent, context, cases[i / 2].name, cases[i / 2].sni);
		shake_hands(&side, &agent, cases[i / 2].name, BOTH);
		assert_string_equal(side.err.text, "");
		assert_int_equal(SSL_get_verify_result(agent.ssl), X509_V_OK);
		assert_int_equal(SSL_version(agent.ssl), versions[i % 2]);
		assert_int_equal(side.alpn, TLS_ALPN_NONE);
		assert_talks(&side, &agent);
		side_close(&side, &agent);
		SSL_CTX_free(context);
	}
}

static void long_names_fit(void **state)
{
	char name[254];
	SSL_CTX *context = agent_context(TLS1_3_VERSION);
	struct tls_server agent;
	struct side side;

	(void)state;
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 50 == 49 ? '.' : 'a';
	name[sizeof(name) - 1] = '\0';
	agent_open(&agent, context, name, name);
	shake_hands(&side, &agent, name, BOTH);
	assert_string_equal(side.err.text, "");
	side_close(&side, &agent);
	SSL_CTX_free(context);
}

static void what_is_no_name_is_refused(void **state)
{
	static char long_name[255];
	const char *const names[] = { "",
				      "*.example.com",
				      "a b",
				      ".a",
				      "a..b",
				      "a.",
				      "a\nb",
				      "a,DNS:b",
				      "user@host",
				      "a:1",
				      "a/b",
				      "[::1",
				      "\xc3\xa4.example",
				      long_name };

	(void)state;
	memset(long_name, 'a', sizeof(long_name) - 1);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		SSL_CTX *context = agent_context(TLS1_3_VERSION);
		struct tls_server agent;
		struct side side;

		agent_open(&agent, context, "a.example", NULL);
		shake_hands(&side, &agent, names[i], BOTH);
		assert_int_equal(side.err.code, EINVAL);
		side_close(&side, &agent);
		SSL_CTX_free(context);
	}
}

static int64_t seconds_until(const ASN1_TIME *time, time_t from)
{
	ASN1_TIME *base = ASN1_TIME_set(NULL, from);
	int days, seconds;

	assert_int_equal(ASN1_TIME_diff(&days, &seconds, base, time), 1);
	ASN1_TIME_free(base);
	return (int64_t)days * MINT_DAY_S + seconds;
}

static void the_authority_is_a_week_s(void **state)
{
	X509 *certificate = authority_certificate(authority);
	struct bytes pem = tls_authority_pem(authority);
	char name[128];
	time_t now = time(NULL);
	int64_t left = seconds_until(X509_get0_notAfter(certificate), now);

	(void)state;
	X509_NAME_oneline(X509_get_subject_name(certificate), name, sizeof(name));
	assert_string_equal(name, "/CN=warder run 01J0TEST");
	assert_true(left > 7 * MINT_DAY_S - 60 && left <= 7 * MINT_DAY_S);
	assert_true(seconds_until(X509_get0_notBefore(certificate), now) <= -MINT_DAY_S);
	assert_true(X509_check_ca(certificate) == 1);
	assert_int_equal(X509_get_pathlen(certificate), 0);
	assert_int_equal(X509_get_key_usage(certificate), KU_KEY_CERT_SIGN);
	assert_null(memmem(pem.data, pem.len, "PRIVATE", 7));
	X509_free(certificate);
}

static void ids_of_any_length_name_an_authority(void **state)
{
	char id[65];
	struct tls_authority *other;
	struct err err;
	X509 *certificate;

	(void)state;
	memset(id, 'r', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	assert_int_equal(tls_authority_new(id, &other, &err), 0);
	certificate = authority_certificate(other);
	X509_free(certificate);
	tls_authority_free(other);
	tls_authority_free(NULL);
}

static void a_leaf_is_for_a_server_and_a_week(void **state)
{
	time_t now = time(NULL);
	X509 *leaf = leaf_get(authority, "a.example", now);
	int64_t begins, ends;

	(void)state;
	begins = seconds_until(X509_get0_notBefore(leaf), now);
	ends = seconds_until(X509_get0_notAfter(leaf), now);
	assert_int_equal(begins, -MINT_DAY_S);
	assert_true(ends - begins <= 7 * MINT_DAY_S);
	assert_int_equal(X509_check_ca(leaf), 0);
	assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
	assert_int_equal(X509_check_host(leaf, "a.example", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(leaf, "b.a.example", 0, 0, NULL), 0);
}

/* ---- leaves are kept ---- */

/* The certificate itself may be gone by the time it is compared. */
static void serial_of(const char *name, int64_t now_s, unsigned char ret_serial[20])
{
	X509 *leaf = leaf_get(authority, name, now_s);

	assert_non_null(leaf);
	memset(ret_serial, 0, 20);
	memcpy(ret_serial, X509_get0_serialNumber(leaf)->data,
	       (size_t)X509_get0_serialNumber(leaf)->length);
}

static void five_hundred_names_are_bounded(void **state)
{
	unsigned char serials[500][20], again[20];
	char name[32];
	time_t now = time(NULL);

	(void)state;
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%d.example", i);
		serial_of(name, now, serials[i]);
	}
	for (int i = 499; i >= 500 - TLS_AUTHORITY_LEAVES_MAX; i--) {
		snprintf(name, sizeof(name), "n%d.example", i);
		serial_of(name, now, again);
		assert_memory_equal(serials[i], again, sizeof(again));
	}
	serial_of("n0.example", now, again);
	assert_memory_not_equal(serials[0], again, sizeof(again));
	/* The one that was longest unused made room for it: now that is n499. */
	serial_of("n244.example", now, again);
	assert_memory_equal(serials[244], again, sizeof(again));
	serial_of("n499.example", now, again);
	assert_memory_not_equal(serials[499], again, sizeof(again));
}

static void a_leaf_is_made_anew_before_it_ends(void **state)
{
	unsigned char first[20], again[20];
	time_t now = time(NULL);

	(void)state;
	serial_of("a.example", now, first);
	serial_of("a.example", now + MINT_LEAF_S - LEAF_RENEW_S - 1, again);
	assert_memory_equal(first, again, sizeof(first));
	serial_of("a.example", now + MINT_LEAF_S - LEAF_RENEW_S, again);
	assert_memory_not_equal(first, again, sizeof(first));
}

/* A leaf never outlives its authority, and nothing is gained by making another then. */
static void the_end_of_the_authority_is_the_end(void **state)
{
	unsigned char first[20], again[20];
	time_t now = time(NULL), late = now + MINT_AUTHORITY_S - 10;
	X509 *certificate = authority_certificate(authority);
	X509 *leaf = leaf_get(authority, "a.example", late);

	(void)state;
	assert_int_equal(
		ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(certificate)), 0);
	X509_free(certificate);
	serial_of("a.example", late, first);
	serial_of("a.example", late + 5, again);
	assert_memory_equal(first, again, sizeof(first));
}

/* ---- what is negotiated ---- */

static void the_best_common_protocol_is_chosen(void **state)
{
	static const struct {
		const char *offer;
		unsigned int alpn;
		bool is_accepted;
		enum tls_alpn chosen;
	} cases[] = {
		{ "\x02h2\x08http/1.1", BOTH, true, TLS_ALPN_H2 },
		{ "\x08http/1.1\x02h2", BOTH, true, TLS_ALPN_H2 },
		{ "\x08http/1.1\x02h2", TLS_ALPN_HTTP1, true, TLS_ALPN_HTTP1 },
		{ "\x08http/1.1", BOTH, true, TLS_ALPN_HTTP1 },
		{ "\x08http/1.0\x08http/1.1", BOTH, true, TLS_ALPN_HTTP1 },
		{ "", BOTH, true, TLS_ALPN_NONE },
		{ "\x02h2", TLS_ALPN_HTTP1, false, TLS_ALPN_NONE },
		{ "\x02h3", BOTH, false, TLS_ALPN_NONE },
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
		SSL_CTX *context = agent_context(versions[i % 2]);
		const char *offer = cases[i / 2].offer;
		struct tls_server agent;
		struct side side;

		if (*offer)
			SSL_CTX_set_alpn_protos(context, (const unsigned char *)offer,
						(unsigned int)strlen(offer));
		agent_open(&agent, context, "a.example", "a.example");
		shake_hands(&side, &agent, "a.example", cases[i / 2].alpn);
		assert_int_equal(side.stream.fd >= 0, cases[i / 2].is_accepted);
		assert_int_equal(side.alpn, cases[i / 2].chosen);
		if (!cases[i / 2].is_accepted)
			assert_non_null(strstr(side.err.text, "offers no protocol"));
		side_close(&side, &agent);
		SSL_CTX_free(context);
	}
}

static bool is_resumed(SSL_CTX *context, const char *name, const char *sni, SSL_SESSION **session)
{
	struct tls_server agent;
	struct side side;
	bool was_reused;

	agent_open(&agent, context, name, sni);
	if (*session)
		assert_int_equal(SSL_set_session(agent.ssl, *session), 1);
	shake_hands(&side, &agent, name, BOTH);
	assert_string_equal(side.err.text, "");
	assert_talks(&side, &agent); /* reads the tickets of TLS 1.3 as well */
	was_reused = SSL_session_reused(agent.ssl) != 0;
	SSL_shutdown(agent.ssl); /* else OpenSSL thinks badly of the session */
	SSL_SESSION_free(*session);
	*session = SSL_get1_session(agent.ssl);
	side_close(&side, &agent);
	return was_reused;
}

static void sessions_are_resumed_with_the_same_name(void **state)
{
	(void)state;
	for (size_t v = 0; v < 2 * ARRAY_LEN(versions); v++) {
		const char *sni = v % 2 ? "a.example" : NULL;
		SSL_CTX *context = agent_context(versions[v / 2]);
		SSL_SESSION *session = NULL;

		assert_false(is_resumed(context, "a.example", sni, &session));
		assert_true(is_resumed(context, "a.example", sni, &session));
		assert_true(is_resumed(context, "a.example", sni, &session));
		/* The agent would not be shown the other name's certificate. */
		assert_false(is_resumed(context, "b.example", sni ? "b.example" : NULL, &session));
		SSL_SESSION_free(session);
		SSL_CTX_free(context);
	}
}

static void another_run_s_tickets_are_nothing(void **state)
{
	SSL_SESSION *session = NULL;
	SSL_CTX *context = agent_context(TLS1_3_VERSION);

	(void)state;
	assert_false(is_resumed(context, "a.example", "a.example", &session));
	SSL_CTX_free(context);
	tear_down(NULL);
	set_up(NULL);
	context = agent_context(TLS1_3_VERSION);
	assert_false(is_resumed(context, "a.example", "a.example", &session));
	SSL_SESSION_free(session);
	SSL_CTX_free(context);
}

/* ---- what is refused ---- */

static struct err fail_with(SSL_CTX *context, const char *name, const char *sni)
{
	struct tls_server agent;
	struct side side;

	agent_open(&agent, context, name, sni);
	shake_hands(&side, &agent, "a.example", BOTH);
	assert_int_equal(side.stream.fd, -1);
	side_close(&side, &agent);
	return side.err;
}

static void an_agent_that_asks_for_another_name_is_turned_away(void **state)
{
	static const char *const others[] = { "b.example", "a.example.b", "a", "xa.example" };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(others); i++) {
		SSL_CTX *context = agent_context(versions[i % 2]);
		struct err err = fail_with(context, "a.example", others[i / 2]);

		assert_int_equal(err.code, EPROTO);
		assert_non_null(strstr(err.text, "asks for another name"));
		SSL_CTX_free(context);
	}
}

static void an_agent_that_does_not_trust_us_is_recognised(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
		SSL_CTX *context = agent_context(versions[v]);
		X509_STORE *empty = X509_STORE_new();
		struct err err;

		SSL_CTX_set_cert_store(context, empty);
		err = fail_with(context, "a.example", "a.example");
		assert_int_equal(err.code, EKEYREJECTED);
		assert_non_null(strstr(err.text, "trust store of its own"));
		SSL_CTX_free(context);
	}
}

static void old_versions_are_refused(void **state)
{
	SSL_CTX *context = agent_context(TLS1_1_VERSION);
	struct err err;

	(void)state;
	SSL_CTX_set_security_level(context, 0);
	err = fail_with(context, "a.example", "a.example");
	assert_int_equal(err.code, EPROTO);
	assert_non_null(strstr(err.text, "TLS 1.2"));
	SSL_CTX_free(context);
}

static void fail_in_plain(struct bytes first, struct bytes said, int code, const char *text)
{
	SSL_CTX *context = agent_context(TLS1_3_VERSION);
	struct tls_server agent;
	struct side side;

	agent_open(&agent, context, "a.example", NULL);
	if (said.len > 0)
		assert_int_equal(send(agent.fd, said.data, said.len, 0), said.len);
	shutdown(agent.fd, SHUT_WR);
	assert_non_null(start(&side, &agent, first, "a.example", BOTH, PATIENCE_MS));
	while (side.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_int_equal(side.err.code, code);
	assert_non_null(strstr(side.err.text, text));
	side_close(&side, &agent);
	SSL_CTX_free(context);
}

static void agents_without_tls_are_recognised(void **state)
{
	(void)state;
	fail_in_plain(BYTES("GET / HT"), BYTES("TP/1.1\r\n\r\n"), EPROTO, "does not speak TLS");
	fail_in_plain(BYTES(""), BYTES("CONNECT a:1 HTTP/1.1\r\n\r\n"), EPROTO,
		      "does not speak TLS");
	fail_in_plain(BYTES("SSH-2.0-x\r\n"), BYTES(""), EPROTO, "does not speak TLS");
	fail_in_plain(BYTES(""), BYTES(""), ECONNRESET, "closed the connection");
	fail_in_plain(BYTES("\x16\x03\x01"), BYTES(""), ECONNRESET, "closed the connection");
}

static void silence_ends_at_the_deadline(void **state)
{
	SSL_CTX *context = agent_context(TLS1_3_VERSION);
	struct tls_server agent;
	struct side side;
	uint64_t start_ms = clock_now_ms();

	(void)state;
	agent_open(&agent, context, "a.example", NULL);
	assert_non_null(start(&side, &agent, BYTES("\x16"), "a.example", BOTH, 60));
	while (side.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_true(clock_now_ms() - start_ms >= 59);
	assert_int_equal(side.err.code, ETIMEDOUT);
	side_close(&side, &agent);
	SSL_CTX_free(context);
}

/* ---- however the bytes come ---- */

/* Some of the ClientHello has been read before, the rest comes by itself. */
static void shake_hands_split(SSL_CTX *context, size_t at)
{
	struct tls_server agent;
	struct side side;
	char *hello;
	size_t len;

	agent_open(&agent, context, "a.example", "a.example");
	SSL_do_handshake(agent.ssl);
	ERR_clear_error();
	len = (size_t)BIO_get_mem_data(agent.out, &hello);
	assert_non_null(start(&side, &agent, (struct bytes){ hello, at < len ? at : len },
			      "a.example", BOTH, PATIENCE_MS));
	hello = malloc(at);
	assert_non_null(hello);
	assert_int_equal(BIO_read(agent.out, hello, (int)(at < len ? at : len)),
			 at < len ? at : len);
	free(hello);
	finish(&side, &agent);
	assert_string_equal(side.err.text, "");
	assert_talks(&side, &agent);
	side_close(&side, &agent);
}

static void a_hello_split_anywhere_is_read(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
		SSL_CTX *context = agent_context(versions[v]);

		for (size_t at = 1; at <= 320; at++) /* all of it, in the end */
			shake_hands_split(context, at);
		SSL_CTX_free(context);
	}
}

static void bytes_come_through_however_they_are_split(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 5, 7, 64, 1000 };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(steps); i++) {
		SSL_CTX *context = agent_context(versions[i % 2]);
		struct tls_server agent;
		struct side side;

		agent_open(&agent, context, "a.example", "a.example");
		agent.step = steps[i / 2];
		shake_hands(&side, &agent, "a.example", BOTH);
		assert_string_equal(side.err.text, "");
		assert_talks(&side, &agent);
		side_close(&side, &agent);
		SSL_CTX_free(context);
	}
}

static int add_padding(SSL *ssl, unsigned int type, unsigned int where, const unsigned char **ret,
		       size_t *ret_len, X509 *certificate, size_t i, int *ret_alert, void *arg)
{
	static unsigned char padding[40000];

	(void)ssl, (void)type, (void)where, (void)certificate, (void)i, (void)ret_alert;
	*ret = padding;
	*ret_len = *(size_t *)arg;
	return 1;
}

/* Key shares that withstand quantum computers make a hello larger than a packet, or a record. */
static void a_large_hello_is_read(void **state)
{
	static size_t sizes[] = { 1200, 12000, 40000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		SSL_CTX *context = agent_context(TLS1_3_VERSION);

		SSL_CTX_add_custom_ext(context, 65000, SSL_EXT_CLIENT_HELLO, add_padding, NULL,
				       &sizes[i], NULL, NULL);
		shake_hands_split(context, 1);
		shake_hands_split(context, sizes[i] / 2);
		shake_hands_split(context, sizes[i] + 1000);
		SSL_CTX_free(context);
	}
}

/* The request follows the handshake's last bytes, before the server has looked. */
static void what_comes_with_the_last_bytes_is_announced(void **state)
{
	SSL_CTX *context = agent_context(TLS1_3_VERSION);
	struct tls_server agent;
	struct side side;
	char data[16];

	(void)state;
	agent_open(&agent, context, "a.example", "a.example");
	assert_non_null(start(&side, &agent, BYTES(""), "a.example", BOTH, PATIENCE_MS));
	for (int i = 0; i < 100 && !SSL_is_init_finished(agent.ssl); i++) {
		pump_in(&agent);
		ERR_clear_error();
		SSL_do_handshake(agent.ssl);
		if (SSL_is_init_finished(agent.ssl))
			assert_int_equal(SSL_write(agent.ssl, "ping", 4), 4);
		pump_out(&agent);
		assert_int_equal(loop_turn(&loop, 0), 0);
	}
	finish(&side, &agent);
	assert_true(side.stream.has_pending);
	assert_int_equal(stream_read(&side.stream, data, sizeof(data)), 4);
	side_close(&side, &agent);
	SSL_CTX_free(context);
}

static void a_handshake_cut_anywhere_fails(void **state)
{
	(void)state;
	for (size_t v = 0; v < ARRAY_LEN(versions); v++) {
		SSL_CTX *context = agent_context(versions[v]);
		struct tls_server agent;
		struct side side;
		size_t whole;

		agent_open(&agent, context, "a.example", "a.example");
		shake_hands(&side, &agent, "a.example", BOTH);
		whole = agent.sent;
		side_close(&side, &agent);
		for (size_t cut = 1; cut < whole; cut++) {
			agent_open(&agent, context, "a.example", "a.example");
			agent.cut_after = cut;
			shake_hands(&side, &agent, "a.example", BOTH);
			assert_int_equal(side.stream.fd, -1);
			assert_true(side.err.code == ECONNRESET || side.err.code == EPIPE);
			side_close(&side, &agent);
		}
		SSL_CTX_free(context);
	}
}

static void a_handshake_can_be_cancelled_at_any_time(void **state)
{
	SSL_CTX *context = agent_context(TLS1_3_VERSION);

	(void)state;
	for (int turns = 0; turns < 40; turns++) {
		struct tls_server agent;
		struct side side;
		struct tls_accept *accept;

		agent_open(&agent, context, "a.example", "a.example");
		agent.step = 100;
		accept = start(&side, &agent, BYTES(""), turns % 5 ? "a.example" : "", BOTH,
			       PATIENCE_MS);
		for (int i = 0; i < turns && side.calls == 0; i++) {
			tls_server_pump(&agent);
			assert_int_equal(loop_turn(&loop, 0), 0);
		}
		if (side.calls == 0) {
			tls_accept_cancel(accept);
			assert_int_equal(loop_turn(&loop, 0), 0);
			assert_int_equal(side.calls, 0);
		}
		side_close(&side, &agent);
	}
	SSL_CTX_free(context);
}

static void a_stream_outlives_the_authority(void **state)
{
	SSL_CTX *context = agent_context(TLS1_3_VERSION);
	struct tls_server agent;
	struct side side;
	struct err err;

	(void)state;
	agent_open(&agent, context, "a.example", "a.example");
	shake_hands(&side, &agent, "a.example", BOTH);
	tls_authority_free(authority);
	assert_talks(&side, &agent);
	side_close(&side, &agent);
	SSL_CTX_free(context);
	assert_int_equal(tls_authority_new("01J0TEST", &authority, &err), 0);
}

/* ---- as the gate does it ---- */

/* Serves `count` connections, with nothing but what is open already. */
static int serve_confined(int count)
{
	struct err err;

	alarm(20); /* whatever becomes of the test */
	if (confine(&err) < 0)
		return 3;
	for (int i = 0; i < count; i++) {
		struct side side = { .stream.fd = -1 };
		int fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		char name[32], data[4];
		ssize_t n = -EAGAIN;

		snprintf(name, sizeof(name), "n%d.example", i / 2);
		if (!tls_accept_start(authority, &loop, fd, BYTES(""), name, BOTH, PATIENCE_MS,
				      clock_now_ms(), on_done, &side))
			return 4;
		while (side.calls == 0)
			if (loop_turn(&loop, 100) < 0)
				return 5;
		while (side.stream.fd >= 0 && n == -EAGAIN)
			n = stream_read(&side.stream, data, sizeof(data));
		if (n != 4 || stream_write(&side.stream, data, 4) != 4)
			return 6;
		stream_close(&side.stream);
	}
	return 0;
}

static bool talk_to_confined(SSL_CTX *context, const char *name, SSL_SESSION **session)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	SSL *ssl = SSL_new(context);
	char data[4];
	bool is_resumed_one;

	assert_int_equal(getsockname(listener_fd, (struct sockaddr *)&address, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
	SSL_set_fd(ssl, fd);
	SSL_set1_host(ssl, name);
	SSL_set_tlsext_host_name(ssl, name);
	if (*session)
		SSL_set_session(ssl, *session);
	assert_int_equal(SSL_connect(ssl), 1);
	assert_int_equal(SSL_write(ssl, "ping", 4), 4);
	assert_int_equal(SSL_read(ssl, data, 4), 4);
	is_resumed_one = SSL_session_reused(ssl) != 0;
	SSL_shutdown(ssl);
	SSL_SESSION_free(*session);
	*session = SSL_get1_session(ssl);
	SSL_free(ssl);
	close(fd);
	return is_resumed_one;
}

static void it_works_confined(void **state)
{
	int status = -1;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(serve_confined(8));
	for (int i = 0; i < 4; i++) {
		SSL_CTX *context = agent_context(versions[i % 2]);
		SSL_SESSION *session = NULL;
		char name[32];

		snprintf(name, sizeof(name), "n%d.example", i);
		assert_false(talk_to_confined(context, name, &session));
		assert_true(talk_to_confined(context, name, &session));
		SSL_SESSION_free(session);
		SSL_CTX_free(context);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- a client of another make ---- */

static pid_t start_curl(const char *ca_path, uint16_t port)
{
	char url[64], map[64];
	pid_t pid;

	snprintf(url, sizeof(url), "https://a.example:%u/", port);
	snprintf(map, sizeof(map), "a.example:%u:127.0.0.1", port);
	pid = fork();
	if (pid == 0) {
		execlp("curl", "curl", "-sS", "-q", "--http1.1", "-m", "10", "--noproxy", "*",
		       "--cacert", ca_path, "--resolve", map, "-o", "/dev/null", url, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void answer_once(struct side *side)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	char data[4096];
	ssize_t n = -EAGAIN;

	for (int i = 0; i < 1000 && n == -EAGAIN; i++) {
		n = stream_read(&side->stream, data, sizeof(data));
		if (n == -EAGAIN)
			usleep(1000);
	}
	assert_true(n > 0);
	assert_int_equal(stream_write(&side->stream, reply, sizeof(reply) - 1), sizeof(reply) - 1);
	stream_close(&side->stream);
}

static void curl_believes_it(void **state)
{
	char path[] = "/tmp/warder-ca-XXXXXX";
	int file = mkstemp(path), status = -1;
	struct bytes pem = tls_authority_pem(authority);
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	struct side side = { .stream.fd = -1 };
	pid_t pid;

	(void)state;
	assert_int_equal(write(file, pem.data, pem.len), pem.len);
	close(file);
	assert_int_equal(getsockname(listener_fd, (struct sockaddr *)&address, &len), 0);
	pid = start_curl(path, ntohs(address.sin_port));
	assert_non_null(tls_accept_start(
		authority, &loop, accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK), BYTES(""),
		"a.example", BOTH, PATIENCE_MS, clock_now_ms(), on_done, &side));
	while (side.calls == 0)
		assert_int_equal(loop_turn(&loop, 100), 0);
	assert_string_equal(side.err.text, "");
	assert_int_equal(side.alpn, TLS_ALPN_HTTP1);
	answer_once(&side);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(path);
	assert_int_equal(status, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_name_has_its_certificate),
		T(long_names_fit),
		T(what_is_no_name_is_refused),
		T(the_authority_is_a_week_s),
		T(ids_of_any_length_name_an_authority),
		T(a_leaf_is_for_a_server_and_a_week),
		T(five_hundred_names_are_bounded),
		T(a_leaf_is_made_anew_before_it_ends),
		T(the_end_of_the_authority_is_the_end),
		T(the_best_common_protocol_is_chosen),
		T(sessions_are_resumed_with_the_same_name),
		T(another_run_s_tickets_are_nothing),
		T(an_agent_that_asks_for_another_name_is_turned_away),
		T(an_agent_that_does_not_trust_us_is_recognised),
		T(old_versions_are_refused),
		T(agents_without_tls_are_recognised),
		T(silence_ends_at_the_deadline),
		T(a_hello_split_anywhere_is_read),
		T(bytes_come_through_however_they_are_split),
		T(a_large_hello_is_read),
		T(what_comes_with_the_last_bytes_is_announced),
		T(a_handshake_cut_anywhere_fails),
		T(a_handshake_can_be_cancelled_at_any_time),
		T(a_stream_outlives_the_authority),
		T(it_works_confined),
		T(curl_believes_it),
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
