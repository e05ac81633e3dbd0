/* SPDX-License-Identifier: MIT */
/* URLs of upstreams, and addresses. */
#include "config/url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define HOST_MAX 253

static bool is_host(const char *text, bool is_v6)
{
	size_t len = strlen(text);

	if (len == 0 || len > HOST_MAX || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (isalnum((unsigned char)c) || c == '.' || (!is_v6 && (c == '-' || c == '_')) ||
		    (is_v6 && c == ':'))
			continue;
		return false;
	}
	return true;
}

static bool read_port(const char *text, uint16_t *ret_port)
{
	unsigned int port = 0;

	if (!*text || strlen(text) > 5)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		port = port * 10 + (unsigned int)(*text - '0');
	}
	*ret_port = (uint16_t)port;
	return port > 0 && port <= 65535;
}

/* Splits host[:port]; false when it is neither. *ret_port is left alone without a port. */
static bool read_authority(char *text, const char **ret_host, uint16_t *ret_port,
			   bool *ret_has_port)
{
	bool is_v6 = text[0] == '[';
	char *end = is_v6 ? strchr(text, ']') : text + strcspn(text, ":");

	if (!end)
		return false;
	*ret_host = is_v6 ? text + 1 : text;
	if (is_v6)
		*end++ = '\0';
	*ret_has_port = *end == ':';
	if (*end && *end != ':')
		return false;
	if (*ret_has_port) {
		*end = '\0';
		if (!read_port(end + 1, ret_port))
			return false;
	}
	for (char *c = text; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (is_v6)
		for (char *c = text + 1; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	return is_host(*ret_host, is_v6);
}

static int refuse(struct err *err, const char *text)
{
	/* What stands before an @ may be a password. */
	if (strchr(text, '@'))
		return err_say(err, EINVAL,
			       "a URL with user information; the key has its own option");
	return err_say(err, EINVAL, "'%.100s' is not http://HOST[:PORT][/PATH] or https://…", text);
}

static bool is_base(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text >= 0x7f || strchr("?#\"<>\\^`{|}", *text))
			return false;
	return true;
}

int url_parse(const char *text, struct arena *arena, struct url *ret_url, struct err *err)
{
	struct url url = { .is_tls = strncmp(text, "https://", 8) == 0 };
	bool has_port = false;
	char *rest, *slash;
	size_t len;

	if (!url.is_tls && strncmp(text, "http://", 7) != 0)
		return refuse(err, text);
	rest = arena_strdup(arena, text + (url.is_tls ? 8 : 7));
	slash = rest + strcspn(rest, "/?#");
	url.base = arena_strdup(arena, slash);
	*slash = '\0';
	url.port = url.is_tls ? 443 : 80;
	if (!is_base(url.base) || !read_authority(rest, &url.host, &url.port, &has_port))
		return refuse(err, text);
	len = strlen(url.base);
	while (len > 0 && url.base[len - 1] == '/')
		len--;
	url.base = arena_printf(arena, "%.*s", (int)len, url.base);
	url.authority = arena_printf(arena, strchr(url.host, ':') ? "[%s]" : "%s", url.host);
	if (url.port != (url.is_tls ? 443 : 80))
		url.authority = arena_printf(arena, "%s:%u", url.authority, url.port);
	*ret_url = url;
	return 0;
}

int url_parse_address(const char *text, struct arena *arena, const char **ret_host,
		      uint16_t *ret_port, struct err *err)
{
	bool has_port = false;

	if (!read_authority(arena_strdup(arena, text), ret_host, ret_port, &has_port) || !has_port)
		return err_say(err, EINVAL, "'%.100s' is not HOST:PORT", text);
	return 0;
}
