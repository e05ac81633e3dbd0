/* SPDX-License-Identifier: MIT */
/* One spelling per host, and which hosts a pattern has. */
#include "unit.h"

#include "policy/host.h"

#define LABEL_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void what_is_unambiguous_is_made_canonical(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		bool is_address;
	} rows[] = {
		{ "example.com", "example.com", 7, false },
		{ "EXAMPLE.Com.", "example.com", 7, false },
		{ "example.com:443", "example.com", 443, false },
		{ "example.com.:65535", "example.com", 65535, false },
		{ "localhost:1", "localhost", 1, false },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example", 7, false },
		{ "a_b.example", "a_b.example", 7, false },
		{ "a-.r3---sn-x.example", "a-.r3---sn-x.example", 7, false },
		{ "1.2.3.example", "1.2.3.example", 7, false },
		{ "1.2.3.4x", "1.2.3.4x", 7, false },
		{ "0x7f.example", "0x7f.example", 7, false },
		{ "1.0xg", "1.0xg", 7, false },
		{ LABEL_63 ".a", LABEL_63 ".a", 7, false },
		{ "127.0.0.1", "127.0.0.1", 7, true },
		{ "8.8.8.8:53", "8.8.8.8", 53, true },
		{ "[::1]", "::1", 7, true },
		{ "[::1]:80", "::1", 80, true },
		{ "[2001:DB8:0:0:0:0:0:1]:80", "2001:db8::1", 80, true },
		{ "[2001:db8::0.0.0.1]", "2001:db8::1", 7, true },
		{ "[::ffff:a9fe:a9fe]", "169.254.169.254", 7, true },
		{ "[::FFFF:1.2.3.4]:5", "1.2.3.4", 5, true },
		{ "[fd00:ec2::254]", "fd00:ec2::254", 7, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct authority authority;

		if (authority_parse(bytes_of(rows[i].text), 7, &authority) < 0)
			fail_msg("'%s' was refused", rows[i].text);
		assert_string_equal(authority.host, rows[i].host);
		assert_int_equal(authority.port, rows[i].port);
		assert_int_equal(authority.is_address, rows[i].is_address);
	}
}

static void what_could_be_read_twice_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		".",
		"..",
		"a..b",
		".a",
		"a..",
		"-a.example",
		"a.-b",
		LABEL_63 "a.example",
		"user@example.com",
		"user:pw@example.com",
		"example.com@evil.com",
		"@example.com",
		"example.com:443@evil.com",
		"[::1]@evil.com",
		"exa mple.com",
		" example.com",
		"example.com ",
		"example.com\r\n",
		"ex\tample.com",
		"example.com/",
		"example.com#",
		"example.com?",
		"example.com\\",
		"b\xc3\xbcro.example",
		"%65xample.com",
		"example%2ecom",
		"*.example.com",
		"*",
		"a*b",
		"example,com",
		/* ports */
		"example.com:",
		"example.com:0",
		"example.com:00443",
		"example.com:0443",
		"example.com:65536",
		"example.com:99999",
		"example.com:123456",
		"example.com:+443",
		"example.com: 443",
		"example.com:443 ",
		"example.com:44x",
		"example.com:-1",
		"example.com:443:443",
		":443",
		"[::1]:",
		"[::1]:0",
		"[::1]80",
		"[::1]x",
		"[::1]:80x",
		/* what is an address to some */
		"127.1",
		"0x7f.1",
		"2130706433",
		"0x7f000001",
		"017700000001",
		"127.0.0.01",
		"0177.0.0.1",
		"127.0.0.0x1",
		"127.0.0.256",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.4.",
		"127.0.0.1.:80",
		"256",
		"0",
		"0x",
		"a.0x",
		"a.1",
		"a.0xfe",
		"169.254.43518",
		"1.2.3.",
		/* IPv6 */
		"::1",
		"fe80::1:80",
		"[]",
		"[",
		"[::1",
		"::1]",
		"[[::1]]",
		"[fe80::1%25eth0]",
		"[fe80::1%eth0]",
		"[1.2.3.4]",
		"[::g]",
		"[v1.fe80]",
		"[:::]",
		"[1:2:3:4:5:6:7:8:9]",
		"[::ffff:1.2.3.256]",
		"[::ffff:127.1]",
		"[example.com]",
		"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]",
		"[ ::1]",
	};
	struct authority authority;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (authority_parse(bytes_of(rows[i]), 443, &authority) != -EINVAL)
			fail_msg("'%s' became '%s'", rows[i], authority.host);
	assert_int_equal(authority_parse(BYTES("example.com\0.evil.com"), 443, &authority),
			 -EINVAL);
	assert_int_equal(authority_parse(BYTES("example.com\0"), 443, &authority), -EINVAL);
	assert_int_equal(authority_parse(BYTES("[::1\0]"), 443, &authority), -EINVAL);
	assert_int_equal(authority_parse((struct bytes){ NULL, 0 }, 443, &authority), -EINVAL);
}

static void names_have_a_length(void **state)
{
	char text[512];
	struct authority authority;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 50 == 49 ? '.' : 'a';
	for (size_t len = 1; len < 252; len++)
		if (len % 50 != 0) /* it would have a dot at its end */
			assert_int_equal(
				authority_parse((struct bytes){ text, len }, 1, &authority), 0);
	assert_int_equal(authority_parse((struct bytes){ text, 253 }, 1, &authority), 0);
	for (size_t len = 254; len <= sizeof(text); len++)
		assert_int_equal(authority_parse((struct bytes){ text, len }, 1, &authority),
				 -EINVAL);
	text[253] = '.';
	assert_int_equal(authority_parse((struct bytes){ text, 254 }, 1, &authority), 0);
	assert_int_equal(strlen(authority.host), 253);
}

static void patterns_are_names_with_a_star_in_front(void **state)
{
	static const struct {
		const char *text, *host, *why; /* a part of it */
	} rows[] = {
		{ "*.GitHub.com", "*.github.com", NULL },
		{ "*.github.com.", "*.github.com", NULL },
		{ "github.com", "github.com", NULL },
		{ "[::1]", "::1", NULL },
		{ "10.0.0.5", "10.0.0.5", NULL },
		{ "*", NULL, "only as" },
		{ "*.", NULL, "empty" },
		{ "*.*.com", NULL, "only as" },
		{ "*com", NULL, "only as" },
		{ "a.*.com", NULL, "only as" },
		{ "*.1.2.3.4", NULL, "address" },
		{ "*.3.4", NULL, "address" },
		{ "*.[::1]", NULL, "address" },
		{ "u:p@x", NULL, "user information" },
		{ "a b", NULL, "space" },
		{ "\xc3\xbc.de", NULL, "xn--" },
		{ "a:x", NULL, "port" },
		{ "[::1", NULL, "bracket" },
		{ "[zz]", NULL, "IPv6" },
		{ "[::1]x", NULL, "after its bracket" },
		{ "a..b", NULL, "empty label" },
		{ "a.-b", NULL, "begins with '-'" },
		{ "a!", NULL, "other than letters" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct authority authority;
		const char *why = NULL;
		int r = authority_parse_pattern(bytes_of(rows[i].text), 0, &authority, &why);

		assert_int_equal(r, rows[i].host ? 0 : -EINVAL);
		if (rows[i].host)
			assert_string_equal(authority.host, rows[i].host);
		else if (!strstr(why, rows[i].why))
			fail_msg("'%s': %s", rows[i].text, why);
	}
}

static void the_longest_pattern_fits(void **state)
{
	char text[256] = "*.";
	struct authority authority;
	const char *why;

	(void)state;
	for (size_t i = 0; i < 253; i++)
		text[i + 2] = i % 50 == 49 ? '.' : 'a';
	assert_int_equal(authority_parse_pattern((struct bytes){ text, 255 }, 1, &authority, &why),
			 0);
	assert_int_equal(strlen(authority.host), HOST_MAX);
}

static void wildcards_match_at_dots(void **state)
{
	static const struct {
		const char *pattern, *host;
		bool is_match;
	} rows[] = {
		{ "github.com", "github.com", true },
		{ "github.com", "api.github.com", false },
		{ "github.com", "github.co", false },
		{ "*.github.com", "github.com", true },
		{ "*.github.com", "api.github.com", true },
		{ "*.github.com", "a.b.c.github.com", true },
		{ "*.github.com", "evilgithub.com", false },
		{ "*.github.com", "github.com.evil.com", false },
		{ "*.github.com", "api.github.com.evil.com", false },
		{ "*.github.com", "xgithub.com", false },
		{ "*.github.com", "hub.com", false },
		{ "*.github.com", "com", false },
		{ "*.github.com", "", false },
		{ "*.com", "com", true },
		{ "*.com", "a.com", true },
		{ "*.a.b", "a.b", true },
		{ "*.a.b", "xa.b", false },
		{ "::1", "::1", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (host_matches(rows[i].pattern, rows[i].host) != rows[i].is_match)
			fail_msg("%s and %s", rows[i].pattern, rows[i].host);
}

/* What a secret is bound to may be the beginning of a URL. */
static void the_rest_of_a_url_is_left_away(void **state)
{
	static const struct {
		const char *text, *host; /* NULL: refused */
		uint16_t port;
	} rows[] = {
		{ "a.test", "a.test", 0 },
		{ "HTTPS://A.Test:443/v1/?x#y", "a.test", 0 },
		{ "http://a.test:80", "a.test", 0 },
		{ "a.test/", "a.test", 0 },
		{ "a.test:8443/x", "a.test", 8443 },
		{ "https://*.a.test/", "*.a.test", 0 },
		{ "http://[::1]:80/", "::1", 0 },
		{ "ftp://a.test", NULL, 0 },
		{ "https://u:p@a.test/", NULL, 0 },
		{ "https://", NULL, 0 },
		{ "https://https://a.test", NULL, 0 },
		{ "*", NULL, 0 },
		{ "https://*/", NULL, 0 },
		{ "", NULL, 0 },
		{ "/", NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct authority authority;
		const char *why;
		int r = authority_parse_bound(bytes_of(rows[i].text), &authority, &why);

		if ((r == 0) != (rows[i].host != NULL))
			fail_msg("%s", rows[i].text);
		if (r < 0)
			continue;
		assert_string_equal(authority.host, rows[i].host);
		assert_int_equal(authority.port, rows[i].port);
	}
}

int main(void)
{
	RUN_TESTS(TEST(what_is_unambiguous_is_made_canonical),
		  TEST(what_could_be_read_twice_is_refused), TEST(names_have_a_length),
		  TEST(patterns_are_names_with_a_star_in_front), TEST(the_longest_pattern_fits),
		  TEST(wildcards_match_at_dots), TEST(the_rest_of_a_url_is_left_away));
}
