/* SPDX-License-Identifier: MIT */
/* Words of a packet, each with its NUL; and numbers among them. */
#ifndef STORE_WORDS_H
#define STORE_WORDS_H

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

#endif
