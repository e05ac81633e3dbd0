/* SPDX-License-Identifier: MIT */
/*
 * The resolver on any bytes: it never reads beyond them, a reply is always one to this query,
 * and the address it gives out leads back to the name. The first byte chooses the policy.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gate/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_allowed(void *owner, const char *name)
{
	size_t len = strlen(name);

	(void)owner;
	if (len == 0 || len > NAMES_NAME_MAX || name[len - 1] == '.' ||
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] != '\0')
		abort();
	return len % 2;
}

static unsigned int u16_at(const char *data)
{
	return (unsigned int)((unsigned char)data[0] << 8 | (unsigned char)data[1]);
}

static void check_name(const char *name)
{
	if (!name || !*name || strlen(name) > NAMES_NAME_MAX)
		abort();
}

/* The one record, when it is an address. */
static void check_record(struct names *names, const char *record, const char *end)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	size_t len = u16_at(record + 10);

	if (end - record < 12 + (ptrdiff_t)len || u16_at(record) != 0xc00c)
		abort();
	if (u16_at(record + 2) == 1) {
		memcpy(&v4.sin_addr, record + 12, sizeof(v4.sin_addr));
		if (v4.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
			check_name(names_of_address(names, (const struct sockaddr *)&v4));
	} else if (u16_at(record + 2) == 28) {
		memcpy(&v6.sin6_addr, record + 12, sizeof(v6.sin6_addr));
		if (!IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr))
			check_name(names_of_address(names, (const struct sockaddr *)&v6));
	} else if (u16_at(record + 2) != 12) {
		abort();
	}
}

static void check_reply(struct names *names, struct bytes query, const char *reply, size_t len)
{
	size_t name_len = 0;

	if (len < 12 || len > DNS_REPLY_MAX || memcmp(reply, query.data, 2) != 0 ||
	    (u16_at(reply + 2) & 0x8200) != 0x8000 || u16_at(reply + 4) > 1 ||
	    u16_at(reply + 6) > u16_at(reply + 4) || u16_at(reply + 8) != 0)
		abort();
	if (u16_at(reply + 4) == 0) {
		if (len != 12)
			abort();
		return;
	}
	while (query.data[12 + name_len])
		name_len += 1 + (unsigned char)query.data[12 + name_len];
	if (memcmp(reply + 12, query.data + 12, name_len + 5) != 0)
		abort();
	if (u16_at(reply + 6) == 1)
		check_record(names, reply + 12 + name_len + 5, reply + len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct names *names; /* for all inputs: it is large, and fills up like this */
	struct dns_policy policy = { .is_allowed = is_allowed };
	char reply[DNS_REPLY_MAX], again[DNS_REPLY_MAX];
	struct bytes query;
	size_t len;

	if (size == 0)
		return 0;
	if (!names)
		names = names_new();
	policy.mode = data[0] & 1 ? DNS_DENY : DNS_EXPLAIN;
	policy.has_v6 = !(data[0] & 2);
	query = (struct bytes){ (const char *)data + 1, size - 1 };
	len = dns_answer(names, &policy, query, reply);
	if (len == 0)
		return 0;
	check_reply(names, query, reply, len);
	if (dns_answer(names, &policy, query, again) != len || memcmp(reply, again, len) != 0)
		abort();
	return 0;
}
