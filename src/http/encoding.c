/* SPDX-License-Identifier: MIT */
/* Names of content codings. */
#include "http/encoding.h"

#include <errno.h>

#include "http/charset.h"

static const struct {
	const char *name;
	enum encoding encoding;
} names[] = {
	{ "identity", ENCODING_IDENTITY }, { "gzip", ENCODING_GZIP },
	{ "deflate", ENCODING_DEFLATE },   { "br", ENCODING_BR },
	{ "zstd", ENCODING_ZSTD },         { "x-gzip", ENCODING_GZIP }, /* RFC 9110 8.4.1.3 */
};

const char *encoding_name(enum encoding encoding)
{
	size_t i = 0;

	while (names[i].encoding != encoding)
		i++;
	return names[i].name;
}

static int read_name(struct bytes name, enum encoding *ret_encoding)
{
	if (!charset_is_token(name))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (bytes_equal_nocase(name, bytes_of(names[i].name))) {
			*ret_encoding = names[i].encoding;
			return 0;
		}
	}
	return -ENOTSUP;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static struct bytes trim(struct bytes text)
{
	while (text.len > 0 && is_space(text.data[0]))
		bytes_take(&text, 1);
	while (text.len > 0 && is_space(text.data[text.len - 1]))
		text.len--;
	return text;
}

int encoding_parse(struct bytes value, enum encoding ret_encodings[ENCODINGS_MAX],
		   size_t *ret_count)
{
	bool is_last = false;

	*ret_count = 0;
	while (!is_last) {
		enum encoding encoding = ENCODING_IDENTITY;
		struct bytes name;
		int r;

		is_last = !bytes_split(&value, ',', &name);
		name = trim(is_last ? value : name);
		r = name.len > 0 ? read_name(name, &encoding) : 0; /* RFC 9110 5.6.1.2 */
		if (r < 0)
			return r;
		if (encoding == ENCODING_IDENTITY)
			continue;
		if (*ret_count == ENCODINGS_MAX)
			return -ENOTSUP;
		ret_encodings[(*ret_count)++] = encoding;
	}
	return 0;
}
