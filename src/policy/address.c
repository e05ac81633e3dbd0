/* SPDX-License-Identifier: MIT */
/* The special addresses of the IANA registries (RFC 6890), and those of clouds. */
#include "policy/address.h"

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"

struct range {
	uint8_t bytes[16];
	unsigned int bits;
};

static const struct range refused_v4[] = {
	{ { 0 }, 8 },                 /* this network */
	{ { 10 }, 8 },                /* private */
	{ { 100, 64 }, 10 },          /* shared by carriers; metadata of Alibaba's cloud */
	{ { 127 }, 8 },               /* loopback */
	{ { 168, 63, 129, 16 }, 32 }, /* Azure's host, seen from its guests */
	{ { 169, 254 }, 16 },         /* link-local; metadata of most clouds */
	{ { 172, 16 }, 12 },          /* private */
	{ { 192, 0, 0 }, 24 },        /* protocols; metadata of Oracle's cloud */
	{ { 192, 0, 2 }, 24 },        /* documentation */
	{ { 192, 88, 99 }, 24 },      /* relays of 6to4 */
	{ { 192, 168 }, 16 },         /* private */
	{ { 198, 18 }, 15 },          /* benchmarks; and the gate's names */
	{ { 198, 51, 100 }, 24 },     /* documentation */
	{ { 203, 0, 113 }, 24 },      /* documentation */
	{ { 224 }, 4 },               /* multicast */
	{ { 240 }, 4 },               /* reserved; broadcast */
};

/* What is public is within this one, and not within those below. */
static const struct range global_v6 = { { 0x20 }, 3 };

static const struct range refused_v6[] = {
	{ { 0x20, 0x01 }, 23 },             /* protocols, Teredo and ORCHID among them */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, /* documentation */
	{ { 0x20, 0x02 }, 16 },             /* 6to4: any IPv4 address, by relays long gone */
	{ { 0x3f, 0xff }, 20 },             /* documentation */
};

/*
 * These are the IPv4 address in their last four bytes, so it decides. Those that are not
 * here are outside of 2000::/3 and refused whole: ::a.b.c.d, ::ffff:0:a.b.c.d (RFC 2765),
 * and 64:ff9b:1::/48 (RFC 8215), in which the place of the address is not known.
 */
static const struct range v4_in_v6[] = {
	{ { [10] = 0xff, 0xff }, 96 },      /* ::ffff:a.b.c.d */
	{ { 0x00, 0x64, 0xff, 0x9b }, 96 }, /* NAT64, which IPv6-only hosts need (RFC 6052) */
};

static bool is_in(const struct range *range, const uint8_t *address)
{
	size_t whole = range->bits / 8;
	unsigned int rest = range->bits % 8;

	if (memcmp(address, range->bytes, whole) != 0)
		return false;
	return rest == 0 || (address[whole] ^ range->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_in_any(const struct range *ranges, size_t count, const uint8_t *address)
{
	for (size_t i = 0; i < count; i++)
		if (is_in(&ranges[i], address))
			return true;
	return false;
}

static bool is_public_v4(const uint8_t *address)
{
	return !is_in_any(refused_v4, ARRAY_LEN(refused_v4), address);
}

/* An interface id of ISATAP, 0:5efe:a.b.c.d or 200:5efe:a.b.c.d, under any prefix (RFC 5214 6.1).
 */
static bool is_isatap(const uint8_t *address)
{
	return (address[8] & 0xfc) == 0 && address[9] == 0 && address[10] == 0x5e &&
	       address[11] == 0xfe;
}

static bool is_public_v6(const uint8_t *address)
{
	if (is_in_any(v4_in_v6, ARRAY_LEN(v4_in_v6), address))
		return is_public_v4(address + 12);
	if (!is_in(&global_v6, address) || is_in_any(refused_v6, ARRAY_LEN(refused_v6), address))
		return false;
	return !is_isatap(address) || is_public_v4(address + 12);
}

bool address_is_public(const struct sockaddr *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	/* Copied, since a sockaddr may be aligned as nothing in particular. */
	switch (address->sa_family) {
	case AF_INET:
		memcpy(&v4, address, sizeof(v4));
		return is_public_v4((const uint8_t *)&v4.sin_addr);
	case AF_INET6:
		memcpy(&v6, address, sizeof(v6));
		return is_public_v6(v6.sin6_addr.s6_addr);
	default:
		return false;
	}
}
