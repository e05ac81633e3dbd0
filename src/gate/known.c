/* SPDX-License-Identifier: MIT */
/* Patterns in the order in which they came; each is there once. */
#include "gate/known.h"

#include <errno.h>
#include <string.h>

int known_add(struct known *known, struct bytes pattern, bool is_known)
{
	struct known_host *host = &known->hosts[known->count];
	struct authority authority;
	const char *why;

	if (known->count == KNOWN_MAX ||
	    authority_parse_pattern(pattern, 0, &authority, &why) < 0 || authority.port != 0)
		return -EPROTO;
	memcpy(host->pattern, authority.host, sizeof(host->pattern));
	host->is_known = is_known;
	known->count++;
	return 0;
}

/* An exact one before any other, and a longer one before a shorter. */
static size_t weight(const char *pattern)
{
	return pattern[0] == '*' ? strlen(pattern) : SIZE_MAX;
}

bool known_has(const struct known *known, const char *name)
{
	const struct known_host *best = NULL;

	for (size_t i = 0; i < known->count; i++) {
		const struct known_host *host = &known->hosts[i];

		if (host_matches(host->pattern, name) &&
		    (!best || weight(host->pattern) > weight(best->pattern)))
			best = host;
	}
	return best && best->is_known;
}
