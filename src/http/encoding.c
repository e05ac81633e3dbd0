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

/* The next element of a list; false when it was the last. */
static bool take_element(struct bytes *list, struct bytes *ret_element)
{
	bool is_last = !bytes_split(list, ',', ret_element);

	*ret_element = trim(is_last ? *list : *ret_element);
	return !is_last;
}

int encoding_parse(struct bytes value, enum encoding *ret_encoding)
{
	struct bytes name;
	bool has_more;

	*ret_encoding = ENCODING_IDENTITY;
	do {
		enum encoding encoding = ENCODING_IDENTITY;
		int r;

		has_more = take_element(&value, &name);
		r = name.len > 0 ? read_name(name, &encoding) : 0; /* RFC 9110 5.6.1.2 */
		if (r < 0)
			return r;
		if (encoding != ENCODING_IDENTITY && *ret_encoding != ENCODING_IDENTITY)
			return -ENOTSUP;
		if (encoding != ENCODING_IDENTITY)
			*ret_encoding = encoding;
	} while (has_more);
	return 0;
}

void encoding_filter_accepted(struct bytes value, struct buf *out)
{
	const char *before = "";
	struct bytes element;
	bool has_more;

	do {
		struct bytes rest, name;
		enum encoding encoding;

		has_more = take_element(&value, &element);
		rest = element;
		if (!bytes_split(&rest, ';', &name))
			name = element;
		if (read_name(trim(name), &encoding) < 0)
			continue;
		buf_add_text(out, before);
		buf_add(out, element.data, element.len);
		before = ", ";
	} while (has_more);
	if (!before[0])
		buf_add_text(out, "identity");
}
