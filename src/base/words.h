/* SPDX-License-Identifier: MIT */
/* Words of a packet, each with its NUL: texts, numbers, and pairs NAME=VALUE. */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/bytes.h"

static inline void words_add(struct buf *out, const char *text)
{
	buf_add(out, text, strlen(text) + 1);
}

static inline void words_add_number(struct buf *out, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	words_add(out, text);
}

/* NULL when there is none left. */
static inline const char *words_next(struct bytes *words)
{
	struct bytes word;

	return bytes_split(words, '\0', &word) ? word.data : NULL;
}

/* False when there is none left, or when it is no number. */
static inline bool words_next_number(struct bytes *words, uint64_t *ret_number)
{
	const char *word = words_next(words);
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	*ret_number = strtoull(word, &end, 10);
	return *end == '\0';
}

/* ---- pairs ---- */

static inline void words_add_pair(struct buf *out, const char *name, const char *value)
{
	buf_add_text(out, name);
	buf_add_text(out, "=");
	words_add(out, value);
}

static inline void words_add_pair_number(struct buf *out, const char *name, uint64_t number)
{
	buf_add_text(out, name);
	buf_add_text(out, "=");
	words_add_number(out, number);
}

/* False when there is none left; words that are no pair are passed over. The value has a NUL. */
static inline bool words_next_pair(struct bytes *words, struct bytes *ret_name,
				   struct bytes *ret_value)
{
	while (bytes_split(words, '\0', ret_value))
		if (memchr(ret_value->data, '=', ret_value->len))
			return bytes_split(ret_value, '=', ret_name);
	return false;
}

/* The first value of that name; or NULL. */
static inline const char *words_find_pair(struct bytes words, const char *name)
{
	struct bytes found, value;

	while (words_next_pair(&words, &found, &value))
		if (found.len == strlen(name) && memcmp(found.data, name, found.len) == 0)
			return value.data;
	return NULL;
}

#endif
