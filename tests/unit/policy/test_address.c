/* SPDX-License-Identifier: MIT */
/* Which addresses are public: both ends of each range, and every way to hide one in IPv6. */
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "policy/address.h"

static bool is_public(const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return address_is_public((struct sockaddr *)&v4);
	if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1)
		fail_msg("'%s' is not an address", text);
	return address_is_public((struct sockaddr *)&v6);
}

static const char *const public_v4[] = {
	"1.0.0.0",         "1.1.1.1",         "8.8.8.8",         "9.255.255.255",   "11.0.0.0",
	"100.63.255.255",  "100.128.0.0",     "126.255.255.255", "128.0.0.0",       "168.63.129.15",
	"168.63.129.17",   "169.253.255.255", "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
	"191.255.255.255", "192.0.1.0",       "192.0.3.0",       "192.88.98.255",   "192.88.100.0",
	"192.167.255.255", "192.169.0.0",     "198.17.255.255",  "198.20.0.0",      "198.51.99.255",
	"198.51.101.0",    "203.0.112.255",   "203.0.114.0",     "223.255.255.255",
};

static const char *const refused_v4[] = {
	"0.0.0.0",         "0.255.255.255",   "10.0.0.0",        "10.255.255.255",
	"100.64.0.0",      "100.127.255.255", "100.100.100.200", "127.0.0.0",
	"127.0.0.1",       "127.255.255.255", "168.63.129.16",   "169.254.0.0",
	"169.254.169.254", "169.254.170.2",   "169.254.255.255", "172.16.0.0",
	"172.31.255.255",  "192.0.0.0",       "192.0.0.192",     "192.0.0.255",
	"192.0.2.0",       "192.0.2.255",     "192.88.99.1",     "192.168.0.0",
	"192.168.255.255", "198.18.0.0",      "198.19.255.255",  "198.51.100.0",
	"198.51.100.255",  "203.0.113.0",     "203.0.113.255",   "224.0.0.0",
	"239.255.255.255", "240.0.0.0",       "255.255.255.254", "255.255.255.255",
};

static void ranges_of_ipv4_have_their_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(public_v4); i++)
		if (!is_public(public_v4[i]))
			fail_msg("%s was refused", public_v4[i]);
	for (size_t i = 0; i < ARRAY_LEN(refused_v4); i++)
		if (is_public(refused_v4[i]))
			fail_msg("%s was public", refused_v4[i]);
}

static void ipv6_is_public_within_one_range_only(void **state)
{
	static const char *const is_public_v6[] = {
		"2001:200::1",
		"2606:4700:4700::1111",
		"2a00:1450:4001:81b::200e",
		"2003::1",
		"2001:db7:ffff::1",
		"2001:db9::1",
		"2400:cb00:2048:1::c629:d7a2",
		"3ffe:ffff::1",
		"3fff:1000::1",
	};
	static const char *const is_refused_v6[] = {
		"::",
		"::1",
		"::2",
		"100::1",
		"1fff:ffff::1",
		"4000::1",
		"5f00::1",
		"fc00::1",
		"fd00:ec2::254",
		"fd77:6172:6465:7200::2",
		"fdff:ffff::1",
		"fe80::1",
		"febf::1",
		"fec0::1",
		"feff::1",
		"ff02::1",
		"ff0e::1",
		"ffff::1",
		"2001::1",
		"2001:1::1",
		"2001:20::1",
		"2001:1ff::1",
		"2001:db8::1",
		"2001:db8:ffff::1",
		"2002::1",
		"3fff::1",
		"3fff:fff::1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(is_public_v6); i++)
		if (!is_public(is_public_v6[i]))
			fail_msg("%s was refused", is_public_v6[i]);
	for (size_t i = 0; i < ARRAY_LEN(is_refused_v6); i++)
		if (is_public(is_refused_v6[i]))
			fail_msg("%s was public", is_refused_v6[i]);
}

/* `form` is an address whose bytes from `at` on become the IPv4 address. */
static bool is_public_inside(const char *form, size_t at, const char *v4, uint8_t mask)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	uint8_t inner[4];

	assert_int_equal(inet_pton(AF_INET6, form, &v6.sin6_addr), 1);
	assert_int_equal(inet_pton(AF_INET, v4, inner), 1);
	for (size_t i = 0; i < 4; i++)
		v6.sin6_addr.s6_addr[at + i] = inner[i] ^ mask;
	return address_is_public((struct sockaddr *)&v6);
}

static void ipv4_does_not_hide_in_ipv6(void **state)
{
	static const struct {
		const char *name, *form;
		size_t at;
		uint8_t mask;
		bool may_be_public;
	} forms[] = {
		{ "mapped", "::ffff:0:0", 12, 0, true },
		{ "compatible", "::", 12, 0, false },
		{ "translated", "::ffff:0:0:0", 12, 0, false },
		{ "6to4", "2002::1", 2, 0, false },
		{ "NAT64", "64:ff9b::", 12, 0, true },
		{ "local NAT64, /96", "64:ff9b:1::", 12, 0, false },
		{ "local NAT64, /48", "64:ff9b:1::", 6, 0, false },
		{ "Teredo client", "2001:0:808:808::", 12, 0xff, false },
		{ "Teredo server", "2001::f7f7:f7f7", 4, 0, false },
		{ "ISATAP", "2a00:1450::5efe:0:0", 12, 0, true },
		{ "ISATAP, unique", "2a00:1450::200:5efe:0:0", 12, 0, true },
		{ "ISATAP, group", "2a00:1450::300:5efe:0:0", 12, 0, true },
		{ "ISATAP, link-local", "fe80::5efe:0:0", 12, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		for (size_t k = 0; k < ARRAY_LEN(refused_v4); k++)
			if (is_public_inside(forms[i].form, forms[i].at, refused_v4[k],
					     forms[i].mask))
				fail_msg("%s of %s was public", forms[i].name, refused_v4[k]);
		for (size_t k = 0; k < ARRAY_LEN(public_v4); k++)
			if (is_public_inside(forms[i].form, forms[i].at, public_v4[k],
					     forms[i].mask) != forms[i].may_be_public)
				fail_msg("%s of %s", forms[i].name, public_v4[k]);
	}
}

static void other_families_are_not_public(void **state)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX, .sun_path = "/run/x" };
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)state;
	assert_false(address_is_public((struct sockaddr *)&path));
	assert_false(address_is_public(&none));
}

int main(void)
{
	RUN_TESTS(TEST(ranges_of_ipv4_have_their_ends), TEST(ipv6_is_public_within_one_range_only),
		  TEST(ipv4_does_not_hide_in_ipv6), TEST(other_families_are_not_public));
}
