/* SPDX-License-Identifier: MIT */
/* Paths that every server reads alike, so that a rule about one means the same everywhere. */
#ifndef HTTP_PATH_H
#define HTTP_PATH_H

#include "base/bytes.h"

/* Splits origin-form into path and query; the query has no '?', and no data without one. */
struct bytes http_path_split(struct bytes target, struct bytes *ret_query);

/*
 * Begins with a slash, and has none of what some servers take for something else before
 * they look a path up (RFC 3986 5.2.4 and what was made of it): dot segments, also encoded
 * or with parameters, empty segments, encoded slashes, backslashes, encoded percent signs.
 */
bool http_path_is_plain(struct bytes path);

#endif
