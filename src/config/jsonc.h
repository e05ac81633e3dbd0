/* SPDX-License-Identifier: MIT */
/* The text of JSON with comments: what has to be known of it before and after parsing. */
#ifndef CONFIG_JSONC_H
#define CONFIG_JSONC_H

#include "base/attr.h"
#include "base/bytes.h"

#define JSONC_DEPTH_MAX 32

/*
 * Replaces comments, from two slashes to the end of the line or between slash-star and
 * star-slash, by spaces; what is left keeps its line. Returns 0; -EINVAL for a comment with
 * no end; -E2BIG for brackets nested deeper than JSONC_DEPTH_MAX. Then *ret_line says where.
 */
int jsonc_strip(char *text, size_t len, size_t *ret_line) must_check;

/*
 * The line of a member or element, counted from 1: `steps` are its ordinals, from the
 * outermost object or array inwards; a parser that keeps the order of members and refuses
 * duplicates counts the same. In a text that is not JSON, or has no such item, the answer
 * is some line of it.
 */
size_t jsonc_line(struct bytes text, const size_t *steps, size_t count);

#endif
