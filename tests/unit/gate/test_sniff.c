/* SPDX-License-Identifier: MIT */
/* What the first bytes are, however few there are and however they are cut. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdlib.h>

#include "unit.h"

#include "gate/sniff.h"
#include "tls/alpn.h"

#define RECORD_HEAD 5

static struct sniff_result result;

/* In memory of its own, so that reading beyond it is noticed. */
static enum sniff_kind sniff_copy(const char *data, size_t len)
{
	char *copy = malloc(len ? len : 1);
	enum sniff_kind kind;

	assert_non_null(copy);
	memcpy(copy, data, len);
	kind = sniff((struct bytes){ copy, len }, &result);
	free(copy);
	return kind;
}

/* ---- text ---- */

static void texts_are_told_apart(void **state)
{
	static const struct {
		struct bytes text;
		enum sniff_kind kind;
	} cases[] = {
		{ { "", 0 }, SNIFF_NEEDS_MORE },
		{ { "G", 1 }, SNIFF_NEEDS_MORE },
		{ { "GET", 3 }, SNIFF_NEEDS_MORE },
		{ { "GET ", 4 }, SNIFF_HTTP1 },
		{ { "POST /v1 HTTP/1.1\r\n", 19 }, SNIFF_HTTP1 },
		{ { "CONNECT a:1", 11 }, SNIFF_HTTP1 },
		{ { "\r\nGET /", 7 }, SNIFF_HTTP1 },
		{ { "\r", 1 }, SNIFF_NEEDS_MORE },
		{ { "\r\n\r\n", 4 }, SNIFF_OTHER },
		{ { "PUT /", 5 }, SNIFF_HTTP1 },
		{ { "PROPFIND /", 10 }, SNIFF_NEEDS_MORE },
		{ { "PROPFIND / HTTP/1.1\r\n", 21 }, SNIFF_HTTP1 },
		{ { "M-SEARCH * HTTP/1.1\r\n", 21 }, SNIFF_HTTP1 },
		{ { "GETX/ HTTP/1.1\r\n", 16 }, SNIFF_OTHER },
		{ { "EHLO example.com\r\n", 18 }, SNIFF_OTHER },
		{ { "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 30 }, SNIFF_OTHER },
		{ { "SSH-2.0-OpenSSH_9.2p1\r\n", 23 }, SNIFF_OTHER },
		{ { "NICK agent\r\n", 12 }, SNIFF_OTHER },
		{ { "*1\r\n$4\r\nPING\r\n", 14 }, SNIFF_OTHER },
		{ { "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 52 }, SNIFF_OTHER },
		{ { "PRI", 3 }, SNIFF_NEEDS_MORE },
		{ { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", 23 }, SNIFF_NEEDS_MORE },
		{ { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24 }, SNIFF_HTTP2 },
		{ { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0", 26 }, SNIFF_HTTP2 },
		{ { "\5", 1 }, SNIFF_SOCKS5 },
		{ { "\5\1\0", 3 }, SNIFF_SOCKS5 },
		{ { "\4\1\0\x50", 4 }, SNIFF_OTHER }, /* SOCKS4 */
		{ { "\0", 1 }, SNIFF_OTHER },
		{ { "\0\0\0\x08\x04\xd2\x16\x2f", 8 }, SNIFF_OTHER }, /* PostgreSQL */
		{ { "\x80\x2e\1\3\1", 5 }, SNIFF_OTHER },             /* the hello of SSL 2 */
		{ { "\xff", 1 }, SNIFF_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (sniff_copy(cases[i].text.data, cases[i].text.len) != cases[i].kind)
			fail_msg("case %zu: '%.*s'", i, (int)cases[i].text.len, cases[i].text.data);
}

static void a_line_without_end_is_not_waited_for(void **state)
{
	char text[4000];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "PROPFIND /", 10);
	assert_int_equal(sniff_copy(text, 2047), SNIFF_NEEDS_MORE);
	assert_int_equal(sniff_copy(text, 2048), SNIFF_OTHER);
	assert_int_equal(sniff_copy(text, sizeof(text)), SNIFF_OTHER);
}

/* ---- TLS ---- */

static size_t padding_len;

static int add_padding(SSL *ssl, unsigned int type, unsigned int where, const unsigned char **ret,
		       size_t *ret_len, X509 *certificate, size_t i, int *ret_alert, void *arg)
{
	static unsigned char padding[65400];

	(void)ssl, (void)type, (void)where, (void)certificate, (void)i, (void)ret_alert, (void)arg;
	*ret = padding;
	*ret_len = padding_len;
	return padding_len > 0;
}

/* A hello of OpenSSL's, as it would send it; the caller frees it. */
static char *make_hello(const char *sni, const char *alpn, size_t padding, int version,
			size_t *ret_len)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	BIO *out = BIO_new(BIO_s_mem());
	char *data, *copy;

	padding_len = padding;
	SSL_CTX_set_max_proto_version(context, version);
	SSL_CTX_add_custom_ext(context, 65000, SSL_EXT_CLIENT_HELLO, add_padding, NULL, NULL, NULL,
			       NULL);
	ssl = SSL_new(context);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
	SSL_set_connect_state(ssl);
	if (sni)
		SSL_set_tlsext_host_name(ssl, sni);
	if (alpn)
		SSL_set_alpn_protos(ssl, (const unsigned char *)alpn, (unsigned int)strlen(alpn));
	SSL_do_handshake(ssl);
	ERR_clear_error();
	*ret_len = (size_t)BIO_get_mem_data(out, &data);
	copy = malloc(*ret_len);
	assert_non_null(copy);
	memcpy(copy, data, *ret_len);
	SSL_free(ssl);
	SSL_CTX_free(context);
	return copy;
}

/* The same message in records of `size` bytes, the last one the rest. One record in. */
static char *cut_into_records(const char *hello, size_t len, size_t size, size_t *ret_len)
{
	char *made = malloc(len * (RECORD_HEAD + 1));
	size_t at = 0;

	assert_non_null(made);
	for (size_t from = RECORD_HEAD; from < len; from += size) {
		size_t n = len - from < size ? len - from : size;

		memcpy(made + at, hello, 3);
		made[at + 3] = (char)(n >> 8);
		made[at + 4] = (char)n;
		memcpy(made + at + RECORD_HEAD, hello + from, n);
		at += RECORD_HEAD + n;
	}
	*ret_len = at;
	return made;
}

/* With every number of bytes there is one answer, and with all of them the other. */
static void assert_needs_all(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(sniff_copy(data, i), SNIFF_NEEDS_MORE);
	assert_int_equal(sniff_copy(data, len), SNIFF_TLS);
}

static void a_hello_is_read_in_whatever_records(void **state)
{
	static const struct {
		const char *sni, *alpn;
		unsigned int found;
		bool has_other;
	} cases[] = {
		{ "api.example.com", "\x02h2\x08http/1.1", TLS_ALPN_H2 | TLS_ALPN_HTTP1, false },
		{ "API.example.com", "\x08http/1.1", TLS_ALPN_HTTP1, false },
		{ NULL, "\x02h2\x04imap", TLS_ALPN_H2, true },
		{ NULL, NULL, 0, false },
	};
	static const size_t sizes[] = { 1, 2, 3, 4, 5, 7, 64, 100, 16384 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases) * ARRAY_LEN(sizes); i++) {
		size_t c = i / ARRAY_LEN(sizes), len, cut_len;
		char *hello = make_hello(cases[c].sni, cases[c].alpn, 0,
					 i % 2 ? TLS1_3_VERSION : TLS1_2_VERSION, &len);
		char *cut = cut_into_records(hello, len, sizes[i % ARRAY_LEN(sizes)], &cut_len);

		assert_needs_all(cut, cut_len);
		assert_string_equal(result.sni, cases[c].sni ? cases[c].sni : "");
		assert_int_equal(result.alpn, cases[c].found);
		assert_int_equal(result.has_other_alpn, cases[c].has_other);
		free(hello);
		free(cut);
	}
}

static void what_follows_a_hello_does_not_matter(void **state)
{
	size_t len;
	char *hello = make_hello("a.example", NULL, 0, TLS1_3_VERSION, &len);
	char *more = malloc(len + 10);

	(void)state;
	assert_non_null(more);
	memcpy(more, hello, len);
	memset(more + len, 0xee, 10);
	assert_int_equal(sniff_copy(more, len + 10), SNIFF_TLS);
	assert_string_equal(result.sni, "a.example");
	free(hello);
	free(more);
}

static void large_hellos_are_read_and_larger_ones_not(void **state)
{
	static const struct {
		size_t padding;
		enum sniff_kind kind;
	} cases[] = {
		{ 1200, SNIFF_TLS },  { 12000, SNIFF_TLS },   { 17000, SNIFF_TLS },
		{ 65000, SNIFF_TLS }, { 65350, SNIFF_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len;
		char *hello = make_hello("a.example", "\x02h2", cases[i].padding, TLS1_3_VERSION,
					 &len);

		assert_true(len > cases[i].padding);
		if (cases[i].kind == SNIFF_TLS)
			assert_int_equal(sniff_copy(hello, len - 1), SNIFF_NEEDS_MORE);
		assert_int_equal(sniff_copy(hello, len), cases[i].kind);
		assert_string_equal(result.sni, cases[i].kind == SNIFF_TLS ? "a.example" : "");
		free(hello);
	}
}

static char *find_bytes(char *data, size_t len, const char *bytes, size_t bytes_len)
{
	char *found = memmem(data, len, bytes, bytes_len);

	assert_non_null(found);
	return found;
}

/* A hello that OpenSSL made, with something in it changed. */
static void what_is_damaged_is_refused(void **state)
{
	static const struct {
		struct bytes from, to;
	} cases[] = {
		{ { "a.example", 9 }, { "a.\0xample", 9 } },                  /* NUL in the name */
		{ { "\0\0\0\x0e\0\x0c\0", 7 }, { "\0\0\0\x0e\0\x0c\1", 7 } }, /* no host name */
		{ { "\0\0\0\x0e\0\x0c\0\0\x09", 9 }, { "\0\0\0\x0e\0\x0c\0\0\x0a", 9 } },
		{ { "\0\0\0\x0e\0\x0c\0\0\x09", 9 }, { "\0\0\0\x0e\0\x0c\0\0\x08", 9 } },
		{ { "\0\0\0\x0e\0\x0c\0\0\x09", 9 }, { "\0\0\0\x0e\0\x0c\0\0\x00", 9 } },
		{ { "\0\0\0\x0e\0\x0c", 6 }, { "\0\0\0\x0e\0\x0b", 6 } },
		{ { "\0\0\0\x0e\0\x0c", 6 }, { "\0\0\xff\x0e\0\x0c", 6 } },
		{ { "\0\x10\0\x05\0\x03\x02h2", 9 }, { "\0\x10\0\x05\0\x03\x03h2", 9 } },
		{ { "\0\x10\0\x05\0\x03\x02h2", 9 }, { "\0\x10\0\x05\0\x03\x00h2", 9 } },
		{ { "\0\x10\0\x05\0\x03\x02h2", 9 }, { "\0\x10\0\x05\0\x02\x02h2", 9 } },
	};
	size_t len;
	char *hello = make_hello("a.example", "\x02h2", 0, TLS1_3_VERSION, &len);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *at = find_bytes(hello, len, cases[i].from.data, cases[i].from.len);

		memcpy(at, cases[i].to.data, cases[i].to.len);
		if (sniff_copy(hello, len) != SNIFF_OTHER)
			fail_msg("case %zu", i);
		assert_string_equal(result.sni, "");
		memcpy(at, cases[i].from.data, cases[i].from.len);
	}
	assert_int_equal(sniff_copy(hello, len), SNIFF_TLS);
	free(hello);
}

static void what_is_no_hello_is_known_early(void **state)
{
	static const struct {
		struct bytes text;
		enum sniff_kind kind;
	} cases[] = {
		{ { "\x16", 1 }, SNIFF_NEEDS_MORE },
		{ { "\x16\x03", 2 }, SNIFF_NEEDS_MORE },
		{ { "\x16\x02", 2 }, SNIFF_OTHER },
		{ { "\x16\x03\x01\x00\x00", 5 }, SNIFF_OTHER }, /* empty */
		{ { "\x16\x03\x01\x40\x01", 5 }, SNIFF_OTHER }, /* too large */
		{ { "\x16\x03\x01\x40\x00", 5 }, SNIFF_NEEDS_MORE },
		{ { "\x16\x03\x01\x00\x10\x02", 6 }, SNIFF_OTHER },             /* of a server */
		{ { "\x16\x03\x01\x00\x10\x01\x01\x00\x00", 9 }, SNIFF_OTHER }, /* 64 KiB */
		{ { "\x16\x03\x01\x00\x01\x01\x17", 7 }, SNIFF_OTHER }, /* then other data */
		{ { "\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9 }, SNIFF_OTHER }, /* nothing in it */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (sniff_copy(cases[i].text.data, cases[i].text.len) != cases[i].kind)
			fail_msg("case %zu", i);
}

int main(void)
{
	RUN_TESTS(TEST(texts_are_told_apart), TEST(a_line_without_end_is_not_waited_for),
		  TEST(a_hello_is_read_in_whatever_records),
		  TEST(what_follows_a_hello_does_not_matter),
		  TEST(large_hellos_are_read_and_larger_ones_not), TEST(what_is_damaged_is_refused),
		  TEST(what_is_no_hello_is_known_early));
}
