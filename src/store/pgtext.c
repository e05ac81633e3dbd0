/* SPDX-License-Identifier: MIT */
/* Arrays as text: {"a","b"}, {1,2}. */
#include "store/pgtext.h"

static bool is_plain(char c)
{
	return c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '%';
}

void pgtext_escape(struct buf *text, const char *name)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t plain = 0; *name; name += plain + (name[plain] != '\0')) {
		for (plain = 0; is_plain(name[plain]);)
			plain++;
		buf_add(text, name, plain);
		if (name[plain]) {
			unsigned char byte = (unsigned char)name[plain];
			const char escaped[] = { '%', digits[byte >> 4], digits[byte & 0xf] };

			buf_add(text, escaped, sizeof(escaped));
		}
	}
}

void pgtext_unescape(char *text)
{
	char *to = text;

	for (; *text; text++)
		if (*text == '%' && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0) {
			*to++ = (char)(hex_digit(text[1]) << 4 | hex_digit(text[2]));
			text += 2;
		} else {
			*to++ = *text;
		}
	*to = '\0';
}

static void begin(struct buf *array)
{
	buf_add_text(array, array->len == 0 ? "{" : ",");
}

void pgtext_add(struct buf *array, const char *name)
{
	begin(array);
	buf_add_text(array, "\"");
	pgtext_escape(array, name);
	buf_add_text(array, "\"");
}

void pgtext_add_escaped(struct buf *array, const char *escaped)
{
	begin(array);
	buf_add_text(array, "\"");
	buf_add_text(array, escaped);
	buf_add_text(array, "\"");
}

void pgtext_add_number(struct buf *array, uint64_t number)
{
	begin(array);
	buf_add_number(array, number < PGTEXT_NUMBER_MAX ? number : PGTEXT_NUMBER_MAX);
}

void pgtext_add_bool(struct buf *array, bool is_true)
{
	begin(array);
	buf_add_text(array, is_true ? "t" : "f");
}

void pgtext_end(struct buf *array)
{
	buf_add_text(array, array->len == 0 ? "{}" : "}");
}
