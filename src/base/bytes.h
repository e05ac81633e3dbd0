/* SPDX-License-Identifier: MIT */
/* A view of bytes that somebody else owns. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
	const char *data;
	size_t len;
};

#define BYTES(literal) ((struct bytes){ literal, sizeof(literal) - 1 })

static inline struct bytes bytes_of(const char *text)
{
	return (struct bytes){ text, strlen(text) };
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ASCII letters compare without case. */
static inline bool bytes_equal_nocase(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static inline bool bytes_has_prefix_nocase(struct bytes a, struct bytes prefix)
{
	return a.len >= prefix.len && strncasecmp(a.data, prefix.data, prefix.len) == 0;
}

static inline char ascii_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* The value of a hexadecimal digit, or -1. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The first `len` bytes, taken off the front. */
static inline struct bytes bytes_take(struct bytes *view, size_t len)
{
	struct bytes front = { view->data, len };

	view->data += len;
	view->len -= len;
	return front;
}

/* No more than the first `most` bytes. */
static inline struct bytes bytes_cut(struct bytes view, size_t most)
{
	return (struct bytes){ view.data, view.len < most ? view.len : most };
}

/* Splits at the first `c`: what is before it is returned, what is after it stays. */
static inline bool bytes_split(struct bytes *view, char c, struct bytes *ret_before)
{
	const char *at = view->len ? memchr(view->data, c, view->len) : NULL;

	if (!at)
		return false;
	*ret_before = bytes_take(view, (size_t)(at - view->data));
	bytes_take(view, 1);
	return true;
}

/* Whether it is one of these, whatever the case of its letters. */
static inline bool bytes_is_any_nocase(struct bytes view, const struct bytes *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_equal_nocase(view, list[i]))
			return true;
	return false;
}

#endif
