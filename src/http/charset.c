/* SPDX-License-Identifier: MIT */
/* Character classes of HTTP and of authorities. */
#include "http/charset.h"

#include "http/limits.h"

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Every tchar of RFC 9110 5.6.2. */
static const bool is_tchar[256] = {
	['!'] = true,         ['#'] = true,         ['$'] = true, ['%'] = true,
	['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true,
	['-'] = true,         ['.'] = true,         ['^'] = true, ['_'] = true,
	['`'] = true,         ['|'] = true,         ['~'] = true, ['0' ... '9'] = true,
	['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

bool charset_is_token(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_tchar[(unsigned char)text.data[i]])
			return false;
	return text.len > 0;
}

bool charset_is_target(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return false;
	}
	return text.len > 0;
}

static bool is_port(struct bytes text)
{
	unsigned int port = 0;

	if (text.len == 0 || text.len > 5)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		port = port * 10 + (unsigned int)(text.data[i] - '0');
	}
	return port > 0 && port <= 65535;
}

static bool is_ipv6(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_alnum(text.data[i]) && text.data[i] != ':' && text.data[i] != '.')
			return false;
	return text.len > 1;
}

static bool is_name(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_alnum(text.data[i]) && text.data[i] != '-' && text.data[i] != '_' &&
		    (text.data[i] != '.' || i == 0 || text.data[i - 1] == '.'))
			return false;
	return text.len > 0 && text.len <= HTTP_HOST_MAX;
}

bool charset_is_authority(struct bytes text)
{
	struct bytes host;

	if (text.len && text.data[0] == '[') {
		bytes_take(&text, 1);
		if (!bytes_split(&text, ']', &host) || !is_ipv6(host))
			return false;
		if (text.len == 0)
			return true;
		if (text.data[0] != ':')
			return false;
		bytes_take(&text, 1);
		return is_port(text);
	}
	if (!bytes_split(&text, ':', &host))
		return is_name(text);
	return is_name(host) && is_port(text);
}
