/* SPDX-License-Identifier: MIT */
/* A byte buffer that grows up to a maximum given when it is made. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>

#include "base/attr.h"

struct buf {
	char *data; /* always NUL-terminated once something was added */
	size_t len;
	size_t size;
	size_t max;
};

void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);

/* Adds as much of `bytes` as fits below the maximum; returns how much that was. */
size_t buf_add(struct buf *buf, const char *bytes, size_t len);
void buf_add_text(struct buf *buf, const char *text);

/* Moves the bytes out; the caller frees them. Never NULL. */
char *buf_take(struct buf *buf, size_t *ret_len);

#endif
