/* SPDX-License-Identifier: MIT */
/* A capped growing buffer. */
#include "base/buf.h"

#include <assert.h>
#include <string.h>

#include "base/die.h"

#define FIRST_SIZE 4096

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){ .max = max };
}

void buf_fini(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ .max = buf->max };
}

static void reserve(struct buf *buf, size_t want)
{
	size_t size = buf->size ? buf->size : FIRST_SIZE;
	char *data;

	while (size < want + 1)
		size *= 2;
	if (size == buf->size)
		return;
	data = realloc(buf->data, size);
	if (!data)
		die_no_memory();
	buf->data = data;
	buf->size = size;
}

size_t buf_add_slowly(struct buf *buf, const char *bytes, size_t len)
{
	if (len > buf->max - buf->len)
		len = buf->max - buf->len;
	reserve(buf, buf->len + len);
	if (len > 0)
		memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return len;
}

void buf_keep(struct buf *buf, struct bytes rest)
{
	if (rest.len == 0) {
		buf_fini(buf);
	} else if (buf->len > 0) {
		assert(rest.len <= buf->len);
		if (rest.data != buf->data)
			memmove(buf->data, rest.data, rest.len);
		buf->len = rest.len;
		buf->data[buf->len] = '\0';
	} else {
		buf_add(buf, rest.data, rest.len);
	}
}

void buf_add_number(struct buf *buf, uint64_t number)
{
	char text[20];
	size_t start = sizeof(text);

	do {
		text[--start] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	buf_add(buf, text + start, sizeof(text) - start);
}

char *buf_take(struct buf *buf, size_t *ret_len)
{
	char *data;

	reserve(buf, buf->len);
	data = buf->data;
	data[buf->len] = '\0';
	if (ret_len)
		*ret_len = buf->len;
	*buf = (struct buf){ .max = buf->max };
	return data;
}
