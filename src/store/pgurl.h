/* SPDX-License-Identifier: MIT */
/*
 * Where a PostgreSQL is, as an operator writes it:
 *
 *   postgresql://[USER[:PASSWORD]@][HOST][:PORT]/DATABASE[?PARAMETER=VALUE...]
 *
 * libpq reads it; what is here knows which parts of it are secret.
 */
#ifndef STORE_PGURL_H
#define STORE_PGURL_H

#include <stdbool.h>

#include "base/attr.h"

#define PGURL_SECRETS_MAX 4

struct pgurl {
	char *text;
	char *secrets[PGURL_SECRETS_MAX]; /* parts of it that no message may show */
};

/* False when it cannot be read. pgurl_fini is owed in both cases. */
bool pgurl_parse(const char *text, struct pgurl *ret_url) must_check;

/* Makes a text one line with nothing of the URL that is secret; in its place. */
void pgurl_cross_out(const struct pgurl *url, char *text);
void pgurl_fini(struct pgurl *url);

#endif
