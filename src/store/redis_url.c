/* SPDX-License-Identifier: MIT */
/* URLs of Redis. */
#include "store/redis_url.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

#define DATABASE_MAX 65535

static const struct {
	struct bytes prefix;
	bool is_path;
} schemes[] = {
	{ BYTES("redis://"), false },
	{ BYTES("unix://"), true },
	{ BYTES("redis+unix://"), true },
};

static bool copy(struct bytes view, char *ret_text, size_t size)
{
	if (view.len >= size || (view.len && memchr(view.data, '\0', view.len)))
		return false;
	if (view.len)
		memcpy(ret_text, view.data, view.len);
	ret_text[view.len] = '\0';
	return true;
}

/* Without its percent signs; what would be a NUL is none. */
static bool decode(struct bytes view, char *ret_text, size_t size)
{
	size_t len = 0;

	while (view.len > 0) {
		char c = bytes_take(&view, 1).data[0];

		if (c == '%') {
			int high = view.len >= 2 ? hex_digit(view.data[0]) : -1;
			int low = view.len >= 2 ? hex_digit(view.data[1]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = (char)(high * 16 + low);
			bytes_take(&view, 2);
		}
		if (c == '\0' || len + 1 >= size)
			return false;
		ret_text[len++] = c;
	}
	ret_text[len] = '\0';
	return true;
}

static bool read_number(struct bytes view, uint32_t most, uint32_t *ret_number)
{
	uint32_t number = 0;

	if (view.len == 0 || view.len > 5)
		return false;
	for (size_t i = 0; i < view.len; i++) {
		if (view.data[i] < '0' || view.data[i] > '9')
			return false;
		number = number * 10 + (uint32_t)(view.data[i] - '0');
	}
	*ret_number = number;
	return number <= most;
}

/* "[user]:password"; one that has no colon is a user without a password, which is a mistake. */
static bool read_login(struct bytes login, struct redis_url *url)
{
	struct bytes user;

	return bytes_split(&login, ':', &user) && decode(user, url->user, sizeof(url->user)) &&
	       decode(login, url->password, sizeof(url->password)) && url->password[0];
}

static bool is_host(const char *text, bool is_v6)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.-_";

	return text[0] && text[strspn(text, is_v6 ? "0123456789abcdefABCDEF.:" : letters)] == '\0';
}

static bool read_host(struct bytes authority, struct redis_url *url)
{
	bool is_v6 = authority.len > 0 && authority.data[0] == '[';
	struct bytes host = authority, port = BYTES("6379");
	uint32_t number = 0;

	if (is_v6) {
		bytes_take(&authority, 1);
		if (!bytes_split(&authority, ']', &host))
			return false;
		if (authority.len > 0) {
			port = authority;
			if (bytes_take(&port, 1).data[0] != ':')
				return false;
		}
	} else if (bytes_split(&authority, ':', &host)) {
		port = authority;
	}
	if (!read_number(port, UINT16_MAX, &number) || number == 0)
		return false;
	url->port = (uint16_t)number;
	return copy(host, url->host, sizeof(url->host)) && is_host(url->host, is_v6);
}

/* What is behind the host: nothing, a slash, or a slash and the number of a database. */
static bool read_database(struct bytes rest, struct redis_url *url)
{
	if (rest.len <= 1)
		return true;
	bytes_take(&rest, 1);
	return read_number(rest, DATABASE_MAX, &url->database);
}

static bool read_path(struct bytes rest, struct redis_url *url)
{
	struct bytes path = rest;

	if (bytes_split(&rest, '?', &path) &&
	    !(bytes_has_prefix_nocase(rest, BYTES("db=")) && bytes_take(&rest, 3).len == 3 &&
	      read_number(rest, DATABASE_MAX, &url->database)))
		return false;
	return path.len > 1 && copy(path, url->path, sizeof(url->path));
}

static bool read_rest(struct bytes rest, bool is_path, struct redis_url *url)
{
	const char *slash = rest.len ? memchr(rest.data, '/', rest.len) : NULL;
	struct bytes authority = bytes_take(&rest, slash ? (size_t)(slash - rest.data) : rest.len);
	const char *at = authority.len ? memrchr(authority.data, '@', authority.len) : NULL;

	if (at) {
		struct bytes login = bytes_take(&authority, (size_t)(at - authority.data));

		bytes_take(&authority, 1);
		if (!read_login(login, url))
			return false;
	}
	if (is_path)
		return authority.len == 0 && read_path(rest, url);
	return read_host(authority, url) && read_database(rest, url);
}

int redis_url_parse(const char *text, struct redis_url *ret_url, struct err *err)
{
	struct bytes rest = bytes_of(text);

	*ret_url = (struct redis_url){ 0 };
	if (bytes_has_prefix_nocase(rest, BYTES("rediss://")))
		return err_say(err, EINVAL,
			       "rediss:// (TLS to Redis) is not supported; use a unix socket, or a "
			       "tunnel such as stunnel and redis:// to its end on this machine");
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (!bytes_has_prefix_nocase(rest, schemes[i].prefix))
			continue;
		bytes_take(&rest, schemes[i].prefix.len);
		if (read_rest(rest, schemes[i].is_path, ret_url))
			return 0;
		explicit_bzero(ret_url, sizeof(*ret_url));
		break;
	}
	return err_say(err, EINVAL,
		       "the URL of the store is not redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] "
		       "or unix://[USER:PASSWORD@]/PATH[?db=DATABASE]; it is not shown, since it "
		       "may hold a password");
}
