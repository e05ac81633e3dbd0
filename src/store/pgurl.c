/* SPDX-License-Identifier: MIT */
/* The URL of a PostgreSQL, and what of it may be said. */
#include "store/pgurl.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

/*
 * Whether it is clear where a password ends. libpq would read "user:a/b@host" as a host and a port
 * and repeat them in its messages; so an '@' may only stand where it ends one.
 */
static bool is_clear(const char *url)
{
	static const char *const schemes[] = { "postgresql://", "postgres://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t len = strlen(schemes[i]);
		const char *at = strchr(url, '@');

		if (strncmp(url, schemes[i], len) == 0)
			return !at ||
			       (at < url + len + strcspn(url + len, "/?") && !strchr(at + 1, '@'));
	}
	return false;
}

/* Keeps what is secret in it. False when a port is no number: it may be a password without '@'. */
static bool take_options(struct pgurl *url, const PQconninfoOption *options)
{
	size_t count = 0;

	for (const PQconninfoOption *option = options; option->keyword; option++) {
		if (!option->val)
			continue;
		if (strcmp(option->keyword, "port") == 0 &&
		    option->val[strspn(option->val, "0123456789,")])
			return false;
		if (option->dispchar[0] != '*' || count == PGURL_SECRETS_MAX)
			continue;
		url->secrets[count] = strdup(option->val);
		if (!url->secrets[count++])
			die_no_memory();
	}
	return true;
}

bool pgurl_parse(const char *text, struct pgurl *ret_url)
{
	PQconninfoOption *options = is_clear(text) ? PQconninfoParse(text, NULL) : NULL;
	bool is_taken;

	*ret_url = (struct pgurl){ .text = strdup(text) };
	if (!ret_url->text)
		die_no_memory();
	is_taken = options && take_options(ret_url, options);
	PQconninfoFree(options);
	return is_taken;
}

static void clear(char *text)
{
	explicit_bzero(text, strlen(text));
	free(text);
}

void pgurl_fini(struct pgurl *url)
{
	for (size_t i = 0; i < PGURL_SECRETS_MAX && url->secrets[i]; i++)
		clear(url->secrets[i]);
	clear(url->text);
}

static void cross_out(char *text, const char *secret)
{
	size_t len = strlen(secret);

	for (char *at = strstr(text, secret); len > 0 && at; at = strstr(at, secret)) {
		memset(at, '*', len);
		at += len;
	}
}

void pgurl_cross_out(const struct pgurl *url, char *text)
{
	for (size_t i = 0; i < PGURL_SECRETS_MAX && url->secrets[i]; i++)
		cross_out(text, url->secrets[i]);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = c[1] ? ' ' : '\0';
}
