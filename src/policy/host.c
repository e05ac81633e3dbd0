/* SPDX-License-Identifier: MIT */
/* Hosts: one spelling each, or none. */
#include "policy/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#define NAME_LEN_MAX  253 /* RFC 1035 2.3.4, as text */
#define LABEL_LEN_MAX 63

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

static const char *read_port(struct bytes text, uint16_t *ret_port)
{
	unsigned int port = 0;

	if (text.len == 0 || text.len > 5 || text.data[0] == '0')
		return "has a port that is not a number from 1 to 65535";
	for (size_t i = 0; i < text.len; i++) {
		if (!is_digit(text.data[i]))
			return "has a port that is not a number from 1 to 65535";
		port = port * 10 + (unsigned int)(text.data[i] - '0');
	}
	if (port > UINT16_MAX)
		return "has a port that is not a number from 1 to 65535";
	*ret_port = (uint16_t)port;
	return NULL;
}

/* Names the byte that cannot be in a name. */
static const char *explain_byte(unsigned char c)
{
	if (c == '@')
		return "has user information in front of it";
	if (c >= 0x80)
		return "is not ASCII: write it as xn--…";
	if (c <= 0x20 || c == 0x7f)
		return "has a space or a control character in it";
	if (c == '*')
		return "may have a star only as \"*.\" in front of a name";
	return "has characters other than letters, digits, '-', '_' and '.'";
}

/* Takes a name in lower case. */
static const char *copy_name(struct bytes text, char *ret_name)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = ascii_lower(text.data[i]);

		if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_' && c != '.')
			return explain_byte((unsigned char)c);
		ret_name[i] = c;
	}
	ret_name[text.len] = '\0';
	return NULL;
}

/* Checks the labels of a name and leaves the last one in *ret_last. */
static const char *check_labels(const char *name, struct bytes *ret_last)
{
	struct bytes rest = bytes_of(name), label;
	bool is_last;

	do {
		is_last = !bytes_split(&rest, '.', &label);
		if (is_last)
			label = rest;
		if (label.len == 0)
			return "has an empty label";
		if (label.len > LABEL_LEN_MAX)
			return "has a label of more than 63 characters";
		if (label.data[0] == '-')
			return "has a label that begins with '-'";
	} while (!is_last);
	*ret_last = label;
	return NULL;
}

/*
 * Whether inet_aton and the readers of URLs (WHATWG URL 3.5) would take a name that ends in
 * this label for an IPv4 address: it is a number in decimal, octal or hexadecimal.
 */
static bool is_number(struct bytes label)
{
	bool (*is_of)(char) = is_digit;

	if (label.len >= 2 && label.data[0] == '0' && label.data[1] == 'x') {
		bytes_take(&label, 2);
		is_of = is_hex;
	}
	for (size_t i = 0; i < label.len; i++)
		if (!is_of(label.data[i]))
			return false;
	return true;
}

static const char *read_name(struct bytes text, struct authority *ret)
{
	struct in_addr address;
	struct bytes last;
	bool has_dot = text.len > 1 && text.data[text.len - 1] == '.';
	const char *why;

	if (has_dot)
		text.len--;
	if (text.len == 0)
		return "is empty";
	if (text.len > NAME_LEN_MAX)
		return "is longer than 253 characters";
	why = copy_name(text, ret->host);
	if (!why)
		why = check_labels(ret->host, &last);
	if (why)
		return why;
	ret->is_address = is_number(last);
	if (ret->is_address && (has_dot || inet_pton(AF_INET, ret->host, &address) != 1))
		return "looks like an address, but is not four decimal numbers";
	return NULL;
}

static const char *read_v6(struct bytes text, struct authority *ret)
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (text.len >= sizeof(copy) || (text.len > 0 && memchr(text.data, '\0', text.len)))
		return "is not an IPv6 address";
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	if (inet_pton(AF_INET6, copy, &address) != 1)
		return "is not an IPv6 address";
	ret->is_address = true;
	if (IN6_IS_ADDR_V4MAPPED(&address))
		inet_ntop(AF_INET, &address.s6_addr[12], ret->host, sizeof(ret->host));
	else
		inet_ntop(AF_INET6, &address, ret->host, sizeof(ret->host));
	return NULL;
}

/* Returns NULL, or what is wrong. */
static const char *read_authority(struct bytes text, struct authority *ret)
{
	struct bytes host;
	const char *why;

	if (text.len > 0 && text.data[0] == '[') {
		bytes_take(&text, 1);
		if (!bytes_split(&text, ']', &host))
			return "has a bracket that is not closed";
		why = read_v6(host, ret);
		if (why || text.len == 0)
			return why;
		if (bytes_take(&text, 1).data[0] != ':')
			return "has something other than a port after its bracket";
		return read_port(text, &ret->port);
	}
	/* An @ may be anywhere, and the port is then part of what is before it. */
	if (text.len > 0 && memchr(text.data, '@', text.len))
		return explain_byte('@');
	if (!bytes_split(&text, ':', &host))
		return read_name(text, ret);
	why = read_name(host, ret);
	return why ? why : read_port(text, &ret->port);
}

int authority_parse(struct bytes text, uint16_t default_port, struct authority *ret)
{
	ret->port = default_port;
	return read_authority(text, ret) ? -EINVAL : 0;
}

int authority_parse_pattern(struct bytes text, uint16_t default_port, struct authority *ret,
			    const char **ret_why)
{
	bool is_wildcard = text.len >= 2 && text.data[0] == '*' && text.data[1] == '.';

	ret->port = default_port;
	if (is_wildcard)
		bytes_take(&text, 2);
	*ret_why = read_authority(text, ret);
	if (!*ret_why && is_wildcard && ret->is_address)
		*ret_why = "has a star in front of an address";
	if (*ret_why)
		return -EINVAL;
	if (is_wildcard) {
		memmove(ret->host + 2, ret->host, strlen(ret->host) + 1);
		ret->host[0] = '*';
		ret->host[1] = '.';
	}
	return 0;
}

int authority_parse_bound(struct bytes text, struct authority *ret, const char **ret_why)
{
	static const struct bytes schemes[] = { BYTES("https://"), BYTES("http://") };
	const char *slash;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (bytes_has_prefix_nocase(text, schemes[i])) {
			bytes_take(&text, schemes[i].len);
			break;
		}
	slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
	if (slash)
		text.len = (size_t)(slash - text.data);
	if (authority_parse_pattern(text, 0, ret, ret_why) < 0)
		return -EINVAL;
	if (ret->port == 443 || ret->port == 80)
		ret->port = 0;
	return 0;
}

bool host_matches(const char *pattern, const char *host)
{
	size_t len, tail_len;

	if (pattern[0] != '*')
		return strcmp(pattern, host) == 0;
	len = strlen(host);
	tail_len = strlen(pattern) - 1; /* with its dot */
	if (len + 1 == tail_len)
		return memcmp(host, pattern + 2, len) == 0;
	return len > tail_len && memcmp(host + len - tail_len, pattern + 1, tail_len) == 0;
}

void authority_format(const char *host, uint16_t port, char ret_text[AUTHORITY_TEXT_MAX])
{
	snprintf(ret_text, AUTHORITY_TEXT_MAX, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

void authority_format_short(const char *host, uint16_t port, bool is_tls,
			    char ret_text[AUTHORITY_TEXT_MAX])
{
	if (port != (is_tls ? 443 : 80))
		authority_format(host, port, ret_text);
	else
		snprintf(ret_text, AUTHORITY_TEXT_MAX, strchr(host, ':') ? "[%s]" : "%s", host);
}
