/* SPDX-License-Identifier: MIT */
/*
 * Path globs: '*' is any text within a segment, '**' any text at all. Both sides are compared
 * without their percent-encoding, so that /%67ists is what /gists is.
 */
#ifndef POLICY_GLOB_H
#define POLICY_GLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "http/limits.h"

#define GLOB_MAX 1024

struct glob {
	const uint16_t *tokens; /* bytes and stars; in the arena */
	size_t len;
	size_t prefix_len; /* how many bytes stand before the first star */
	bool is_loose;
};

/* A path as globs see it: decoded, and once more as the most forgiving server reads it. */
struct glob_path {
	bool is_plain; /* otherwise nothing below is set, and no glob matches */
	char exact[HTTP_TARGET_MAX];
	size_t exact_len;
	char loose[HTTP_TARGET_MAX + 1]; /* lower case, no parameters, ends in one slash */
	size_t loose_len;
};

/*
 * Reads a glob that begins with a slash. A loose one, for what must not get through, matches
 * a path in any case, with or without a slash at its end, with any parameters (";…"). Returns
 * NULL, or what is wrong with it, in words that follow "path ".
 */
const char *glob_parse(struct arena *arena, struct bytes text, bool is_loose,
		       struct glob *ret_glob) must_check;

/*
 * `path` has no query. Not plain is what http_path_is_plain refuses, and broken escapes,
 * encoded control characters, bytes that are in no UTF-8 text.
 */
void glob_path_read(struct bytes path, struct glob_path *ret_path);

/* Takes time in proportion to the lengths of both, whatever they are. */
bool glob_matches(const struct glob *glob, const struct glob_path *path);

#endif
