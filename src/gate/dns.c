/* SPDX-License-Identifier: MIT */
/* One query, one reply (RFC 1035, 6891). From here on the bytes are the agent's. */
#include "gate/dns.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#define HEADER_LEN  12
#define TTL_SECONDS 60
#define UDP_SIZE    1232 /* what we say we take, as everybody does */

#define QR       0x8000
#define OPCODE   0x7800
#define RD       0x0100
#define RA       0x0080 /* without it, clients take an empty reply for a server that is lame */
#define CD       0x0010
#define EDNS_DO  0x8000
#define CLASS_IN 1

enum rcode {
	NOERROR = 0,
	FORMERR = 1,
	NXDOMAIN = 3,
	NOTIMP = 4,
	REFUSED = 5,
	BADVERS = 16, /* in the OPT record only */
};

enum type {
	TYPE_A = 1,
	TYPE_PTR = 12,
	TYPE_AAAA = 28,
	TYPE_OPT = 41,
};

struct query {
	uint16_t id, flags;
	struct bytes question; /* as it was sent, for the reply: its case may matter (0x20) */
	uint16_t type, class;
	char name[NAMES_NAME_MAX + 1]; /* lower case; empty: the root, or not plain */
	size_t label_count;
	bool is_plain; /* only of what host names are made of */
	bool has_edns;
	uint8_t edns_version;
	uint16_t edns_flags;
};

/* The data of the one record of a reply. */
struct answer {
	enum type type;
	size_t len; /* 0: no record */
	char data[NAMES_NAME_MAX + 2];
};

/* Header, question, record, OPT: of the longest name, and of the longest name in reverse. */
static_assert(HEADER_LEN + 255 + 4 + 12 + 16 + 11 <= DNS_REPLY_MAX, "addresses fit");
static_assert(HEADER_LEN + 74 + 4 + 12 + 255 + 11 <= DNS_REPLY_MAX, "names fit");

/* ---- reading ---- */

static bool take(struct bytes *input, size_t len, struct bytes *ret)
{
	if (input->len < len)
		return false;
	*ret = bytes_take(input, len);
	return true;
}

static bool take_u16(struct bytes *input, uint16_t *ret)
{
	struct bytes field;

	if (!take(input, 2, &field))
		return false;
	*ret = (uint16_t)((unsigned char)field.data[0] << 8 | (unsigned char)field.data[1]);
	return true;
}

static bool is_plain_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Adds a label to the name, as far as it is plain. */
static void add_label(struct query *query, size_t *len, struct bytes label)
{
	if (query->label_count++ > 0)
		query->name[(*len)++] = '.';
	for (size_t i = 0; i < label.len; i++) {
		char c = ascii_lower(label.data[i]);

		if (!is_plain_byte(c))
			query->is_plain = false;
		query->name[(*len)++] = c;
	}
	query->name[*len] = '\0';
}

/*
 * The name of the question. Nothing stands before it that a pointer could point to, and there
 * are no other kinds of labels.
 */
static bool take_name(struct bytes *input, struct query *query)
{
	size_t len = 0;

	query->is_plain = true;
	for (;;) {
		struct bytes label;
		size_t label_len;

		if (!take(input, 1, &label))
			return false;
		label_len = (unsigned char)label.data[0];
		if (label_len == 0)
			return true;
		if (label_len > 63 || len + (len > 0) + label_len > NAMES_NAME_MAX ||
		    !take(input, label_len, &label))
			return false;
		add_label(query, &len, label);
	}
}

/* The name of a record that is passed over: labels, and a pointer may end it. */
static bool skip_name(struct bytes *input, bool *ret_is_root)
{
	struct bytes label;
	size_t total = 0;

	for (;;) {
		size_t len;

		if (!take(input, 1, &label))
			return false;
		len = (unsigned char)label.data[0];
		*ret_is_root = total == 0 && len == 0;
		if (len == 0)
			return true;
		if (len >= 0xc0)
			return take(input, 1, &label);
		total += len + 1;
		if (len > 63 || total > 254 || !take(input, len, &label))
			return false;
	}
}

/* None of the options means anything here, but they must be options. */
static bool are_options(struct bytes data)
{
	while (data.len > 0) {
		struct bytes value;
		uint16_t code, len;

		if (!take_u16(&data, &code) || !take_u16(&data, &len) || !take(&data, len, &value))
			return false;
	}
	return true;
}

static bool take_record(struct bytes *input, struct query *query)
{
	uint16_t type, class, ttl_high, ttl_low, len;
	struct bytes data;
	bool is_root;

	if (!skip_name(input, &is_root) || !take_u16(input, &type) || !take_u16(input, &class) ||
	    !take_u16(input, &ttl_high) || !take_u16(input, &ttl_low) || !take_u16(input, &len) ||
	    !take(input, len, &data))
		return false;
	if (type != TYPE_OPT)
		return true;
	if (query->has_edns || !is_root || !are_options(data))
		return false;
	query->has_edns = true;
	query->edns_version = (uint8_t)(ttl_high & 0xff);
	query->edns_flags = ttl_low;
	return true;
}

/* All after the header's flags. One question (RFC 9619), nothing that a reply would have. */
static bool parse_body(struct bytes *input, struct query *query)
{
	uint16_t questions, answers, authorities, others;
	const char *begin;

	if (!take_u16(input, &questions) || !take_u16(input, &answers) ||
	    !take_u16(input, &authorities) || !take_u16(input, &others) || questions != 1 ||
	    answers != 0 || authorities != 0)
		return false;
	begin = input->data;
	if (!take_name(input, query) || !take_u16(input, &query->type) ||
	    !take_u16(input, &query->class))
		return false;
	query->question = (struct bytes){ begin, (size_t)(input->data - begin) };
	while (others-- > 0)
		if (!take_record(input, query))
			return false;
	return input->len == 0;
}

/* ---- deciding ---- */

/* Whether `name` is `domain`, or below it. */
static bool is_in(const char *name, const char *domain)
{
	size_t name_len = strlen(name), len = strlen(domain);

	if (name_len < len || strcmp(name + name_len - len, domain) != 0)
		return false;
	return name_len == len || name[name_len - len - 1] == '.';
}

/* What URL parsers take for an IPv4 address: the last label is a number, maybe in hex. */
static bool is_like_address(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;

	if (last[0] == '0' && last[1] == 'x')
		return last[2 + strspn(last + 2, "0123456789abcdef")] == '\0';
	return last[strspn(last, "0123456789")] == '\0';
}

static bool is_allowed(const struct dns_policy *policy, const char *name)
{
	return policy->is_allowed && policy->is_allowed(policy->owner, name);
}

static bool exists(const struct dns_policy *policy, const struct query *query)
{
	/* RFC 6761, RFC 7686; the last one keeps browsers from resolvers of their own. */
	static const char *const never[] = { "invalid", "onion", "use-application-dns.net" };

	if (!query->is_plain || is_like_address(query->name))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (is_in(query->name, never[i]))
			return false;
	if (policy->mode == DNS_DENY || query->label_count == 1 || is_in(query->name, "local"))
		return is_allowed(policy, query->name);
	return true;
}

static void put_addresses(const struct dns_policy *policy, enum type type, const struct in_addr *v4,
			  const struct in6_addr *v6, struct answer *ret)
{
	ret->type = type;
	if (type == TYPE_A) {
		ret->len = sizeof(*v4);
		memcpy(ret->data, v4, sizeof(*v4));
	} else if (type == TYPE_AAAA && policy->has_v6) {
		ret->len = sizeof(*v6);
		memcpy(ret->data, v6, sizeof(*v6));
	}
}

/* A name as labels; it has no empty ones. */
static void put_name(const char *name, struct answer *ret)
{
	ret->type = TYPE_PTR;
	while (*name) {
		size_t len = strcspn(name, ".");

		ret->data[ret->len++] = (char)len;
		memcpy(ret->data + ret->len, name, len);
		ret->len += len;
		name += len + (name[len] == '.');
	}
	ret->data[ret->len++] = '\0';
}

/* 4.3.2.1.in-addr.arpa */
static bool parse_reverse_v4(const char *name, struct in_addr *ret)
{
	uint8_t octets[4];

	for (size_t i = 0; i < sizeof(octets); i++) {
		size_t len = strspn(name, "0123456789");
		long number = len > 0 && len <= 3 ? strtol(name, NULL, 10) : 256;

		if (number > 255 || (len > 1 && name[0] == '0') || name[len] != '.')
			return false;
		octets[3 - i] = (uint8_t)number;
		name += len + 1;
	}
	memcpy(&ret->s_addr, octets, sizeof(octets));
	return strcmp(name, "in-addr.arpa") == 0;
}

/* 32 digits, the last one first, and ip6.arpa */
static bool parse_reverse_v6(const char *name, struct in6_addr *ret)
{
	static const char digits[] = "0123456789abcdef";

	*ret = (struct in6_addr){ 0 };
	for (size_t i = 32; i-- > 0; name += 2) {
		const char *digit = *name ? strchr(digits, *name) : NULL;

		if (!digit || name[1] != '.')
			return false;
		ret->s6_addr[i / 2] |= (uint8_t)((digit - digits) << (i % 2 ? 0 : 4));
	}
	return strcmp(name, "ip6.arpa") == 0;
}

static const char *name_of_reverse(struct names *names, const char *name)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (parse_reverse_v4(name, &v4.sin_addr)) {
		if (v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
			return "localhost";
		return names_of_address(names, (const struct sockaddr *)&v4);
	}
	if (!parse_reverse_v6(name, &v6.sin6_addr))
		return NULL;
	if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr))
		return "localhost";
	return names_of_address(names, (const struct sockaddr *)&v6);
}

/* Below .arpa there are addresses in reverse and nothing else: no NAT64, no other resolver. */
static enum rcode answer_reverse(struct names *names, const struct query *query, struct answer *ret)
{
	const char *name = name_of_reverse(names, query->name);

	if (!name)
		return NXDOMAIN;
	if (query->type == TYPE_PTR)
		put_name(name, ret);
	return NOERROR;
}

static enum rcode find_answer(struct names *names, const struct dns_policy *policy,
			      const struct query *query, struct answer *ret)
{
	struct in_addr v4 = { .s_addr = htonl(INADDR_LOOPBACK) };
	struct in6_addr v6 = IN6ADDR_LOOPBACK_INIT;

	if (query->class != CLASS_IN)
		return REFUSED;
	if (query->label_count == 0)
		return NOERROR; /* the root: it is there */
	if (query->is_plain && is_in(query->name, "arpa"))
		return answer_reverse(names, query, ret);
	if (!query->is_plain || !is_in(query->name, "localhost")) {
		if (!exists(policy, query))
			return NXDOMAIN;
		/* Only who asks for an address takes a place in the table. */
		if (query->type != TYPE_A && query->type != TYPE_AAAA)
			return NOERROR;
		names_address(names, query->name, &v4, &v6);
	}
	put_addresses(policy, query->type, &v4, &v6, ret);
	return NOERROR;
}

/* ---- writing ---- */

struct writer {
	char *data;
	size_t len;
};

static void put(struct writer *writer, const void *data, size_t len)
{
	assert(len <= DNS_REPLY_MAX - writer->len);
	if (len > 0)
		memcpy(writer->data + writer->len, data, len);
	writer->len += len;
}

static void put_u16(struct writer *writer, unsigned int number)
{
	char bytes[2] = { (char)(number >> 8 & 0xff), (char)(number & 0xff) };

	put(writer, bytes, sizeof(bytes));
}

static void put_answer(struct writer *writer, const struct answer *answer)
{
	put_u16(writer, 0xc000 | HEADER_LEN); /* the name of the question */
	put_u16(writer, answer->type);
	put_u16(writer, CLASS_IN);
	put_u16(writer, 0);
	put_u16(writer, TTL_SECONDS);
	put_u16(writer, (unsigned int)answer->len);
	put(writer, answer->data, answer->len);
}

static void put_edns(struct writer *writer, const struct query *query, enum rcode rcode)
{
	put(writer, "", 1);
	put_u16(writer, TYPE_OPT);
	put_u16(writer, UDP_SIZE);
	put_u16(writer, (unsigned int)rcode >> 4 << 8); /* and version 0 */
	put_u16(writer, query->edns_flags & EDNS_DO);
	put_u16(writer, 0);
}

static size_t format_reply(const struct query *query, enum rcode rcode, const struct answer *answer,
			   char *ret_reply)
{
	struct writer writer = { ret_reply, 0 };

	put_u16(&writer, query->id);
	put_u16(&writer, QR | (query->flags & (OPCODE | RD | CD)) | RA | (rcode & 0xf));
	put_u16(&writer, query->question.len > 0);
	put_u16(&writer, answer->len > 0);
	put_u16(&writer, 0);
	put_u16(&writer, query->has_edns);
	put(&writer, query->question.data, query->question.len);
	if (answer->len > 0)
		put_answer(&writer, answer);
	if (query->has_edns)
		put_edns(&writer, query, rcode);
	return writer.len;
}

/* A fault is told without what may have been read so far. */
static size_t format_fault(const struct query *query, enum rcode rcode, char *ret_reply)
{
	const struct query bare = { .id = query->id, .flags = query->flags };

	return format_reply(&bare, rcode, &(struct answer){ 0 }, ret_reply);
}

size_t dns_answer(struct names *names, const struct dns_policy *policy, struct bytes query_bytes,
		  char reply[static DNS_REPLY_MAX])
{
	struct query query = { 0 };
	struct answer answer = { 0 };
	enum rcode rcode = BADVERS;

	if (query_bytes.len < HEADER_LEN || !take_u16(&query_bytes, &query.id) ||
	    !take_u16(&query_bytes, &query.flags) || query.flags & QR)
		return 0;
	if (query.flags & OPCODE)
		return format_fault(&query, NOTIMP, reply);
	if (!parse_body(&query_bytes, &query))
		return format_fault(&query, FORMERR, reply);
	if (query.edns_version == 0)
		rcode = find_answer(names, policy, &query, &answer);
	return format_reply(&query, rcode, &answer, reply);
}
