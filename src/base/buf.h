/* SPDX-License-Identifier: MIT */
/* A byte buffer that grows up to a maximum given when it is made. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"

struct buf {
	char *data; /* always NUL-terminated once something was added */
	size_t len;
	size_t size;
	size_t max;
};

void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);

/* The same as buf_add, for what does not fit into what there is. */
size_t buf_add_slowly(struct buf *buf, const char *bytes, size_t len);

/* Adds as much of `bytes` as fits below the maximum; returns how much that was. */
static inline size_t buf_add(struct buf *buf, const char *bytes, size_t len)
{
	/* Messages are made of small pieces: most of them only have to be copied. */
	if (len == 0 || len >= buf->size - buf->len || len > buf->max - buf->len)
		return buf_add_slowly(buf, bytes, len);
	memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return len;
}

static inline void buf_add_text(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

/*
 * Keeps `rest` and nothing else: a part of what is there, or, where there is nothing, any bytes.
 * An empty rest gives the memory back.
 */
void buf_keep(struct buf *buf, struct bytes rest);

/* A number in decimal. */
void buf_add_number(struct buf *buf, uint64_t number);

/* Moves the bytes out; the caller frees them. Never NULL. */
char *buf_take(struct buf *buf, size_t *ret_len);

#endif
