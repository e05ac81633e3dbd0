/* SPDX-License-Identifier: MIT */
/* A form is a text, perhaps in base64 or hexadecimal, and that perhaps escaped. */
#include "keeper/form.h"

#include <errno.h>

#include "base/utf8.h"

static const char hex_digits[2][17] = { "0123456789abcdef", "0123456789ABCDEF" };

static const char base64_digits[2][65] = {
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

/* ---- the table ---- */

/* How a string is written in JSON, beyond what every encoder does. */
struct json_style {
	const char *unicode; /* written as \u00XX */
	bool escapes_slash;
	bool is_ascii; /* nothing but ASCII is written as it is */
	bool is_upper; /* the digits of \uXXXX */
};

#define PUNCTUATION " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

static const struct json_style json_plain = { "", false, false, false };
static const struct json_style json_slash = { "", true, false, false };
static const struct json_style json_ascii = { "", false, true, false };      /* Python */
static const struct json_style json_ascii_slash = { "", true, true, false }; /* PHP */
static const struct json_style json_html = { "<>&", false, false, false };   /* Go, Rails */
static const struct json_style json_gson = { "<>&='", false, false, false };
static const struct json_style json_net = { "\"'&+<>`", false, true, true }; /* System.Text.Json */
static const struct json_style json_all = { PUNCTUATION, false, true, false };
static const struct json_style json_all_upper = { PUNCTUATION, false, true, true };

/* Which bytes percent-encoding leaves, besides letters and digits. */
struct percent_style {
	const char *kept;
	bool is_upper;
	bool writes_plus; /* for a space */
};

#define STYLE_PERCENT(name, kept, writes_plus)                                                     \
	static const struct percent_style name[2] = { { kept, false, writes_plus },                \
						      { kept, true, writes_plus } }

STYLE_PERCENT(percent_strict, "-_.~", false);               /* RFC 3986 2.3 */
STYLE_PERCENT(percent_path, "-_.~/", false);                /* Python's quote */
STYLE_PERCENT(percent_component, "-_.~!'()*", false);       /* encodeURIComponent */
STYLE_PERCENT(percent_segment, "-_.~!'()*$&+,;=:@", false); /* in a path */
STYLE_PERCENT(percent_uri, "-_.~!'()*$&+,;=:@/?#", false);  /* encodeURI */
STYLE_PERCENT(percent_form, "-_.*", true);                  /* application/x-www-form-urlencoded */
STYLE_PERCENT(percent_all, "", false);

enum inner {
	AS_IT_IS,
	BASE64_0, /* it begins with a group */
	BASE64_1, /* one byte later */
	BASE64_2,
	BASE64_END_0, /* the same, and nothing comes after it */
	BASE64_END_1,
	BASE64_END_2,
	BASE64URL_0,
	BASE64URL_1,
	BASE64URL_2,
	HEX_LOWER,
	HEX_UPPER,
};

/* A row has at most one style. */
struct form {
	enum form_kind kind;
	enum inner inner;
	const struct json_style *json;
	const struct percent_style *percent;
};

#define JSON(style)                                                                                \
	{                                                                                          \
		FORM_JSON, AS_IT_IS, &(style), NULL                                                \
	}
#define PERCENT(style)                                                                             \
	{ FORM_PERCENT, AS_IT_IS, NULL, &(style)[1] },                                             \
	{                                                                                          \
		FORM_PERCENT, AS_IT_IS, NULL, &(style)[0]                                          \
	}
#define BASE64(inner)                                                                              \
	{ FORM_BASE64, inner, NULL, NULL }, { FORM_BASE64, inner, &json_slash, NULL },             \
		{ FORM_BASE64, inner, &json_net, NULL },                                           \
		{ FORM_BASE64, inner, NULL, &percent_strict[1] },                                  \
	{                                                                                          \
		FORM_BASE64, inner, NULL, &percent_strict[0]                                       \
	}

/* Of forms that turn out to be the same the first counts: the common ones come first. */
static const struct form forms[] = {
	{ FORM_RAW, AS_IT_IS, NULL, NULL },
	JSON(json_plain),
	JSON(json_slash),
	JSON(json_ascii),
	JSON(json_ascii_slash),
	JSON(json_html),
	JSON(json_gson),
	JSON(json_net),
	JSON(json_all),
	JSON(json_all_upper),
	PERCENT(percent_strict),
	PERCENT(percent_path),
	PERCENT(percent_component),
	PERCENT(percent_segment),
	PERCENT(percent_uri),
	PERCENT(percent_form),
	PERCENT(percent_all),
	BASE64(BASE64_0),
	BASE64(BASE64_1),
	BASE64(BASE64_2),
	BASE64(BASE64_END_0),
	BASE64(BASE64_END_1),
	BASE64(BASE64_END_2),
	{ FORM_BASE64, BASE64URL_0, NULL, NULL },
	{ FORM_BASE64, BASE64URL_1, NULL, NULL },
	{ FORM_BASE64, BASE64URL_2, NULL, NULL },
	{ FORM_HEX, HEX_LOWER, NULL, NULL },
	{ FORM_HEX, HEX_UPPER, NULL, NULL },
};
_Static_assert(ARRAY_LEN(forms) <= FORMS_MAX, "FORMS_MAX");

size_t form_count(void)
{
	return ARRAY_LEN(forms);
}

enum form_kind form_kind(size_t form)
{
	return forms[form].kind;
}

/* ---- base64 and hexadecimal ---- */

/* The digits that say nothing of what is before the text, or after it. */
static size_t write_base64_within(struct bytes text, unsigned int before, const char *digits,
				  char *ret_text)
{
	unsigned int bits = 0, count = 0, skipped = (6 - before * 8 % 6) % 6;
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		bits = bits << 8 | (unsigned char)text.data[i];
		count += 8;
		if (i == 0)
			count -= skipped;
		for (; count >= 6; count -= 6)
			ret_text[len++] = digits[bits >> (count - 6) & 63];
	}
	return len;
}

/* The digit that the last bits are in, and the padding, when the text is the end. */
static size_t write_base64_end(struct bytes text, unsigned int before, char *ret_text)
{
	unsigned char last = text.len > 0 ? (unsigned char)text.data[text.len - 1] : 0;
	size_t rest = (text.len + before) % 3, len = 0;

	if (text.len == 0 || rest == 0)
		return 0;
	ret_text[len++] = base64_digits[0][last << (rest == 1 ? 4 : 2) & 63];
	while (len < 4 - rest)
		ret_text[len++] = '=';
	return len;
}

static size_t write_hex(struct bytes text, const char *digits, char *ret_text)
{
	for (size_t i = 0; i < text.len; i++) {
		ret_text[2 * i] = digits[(unsigned char)text.data[i] >> 4];
		ret_text[2 * i + 1] = digits[(unsigned char)text.data[i] & 15];
	}
	return text.len * 2;
}

static size_t write_inner(enum inner inner, struct bytes text, char *ret_text)
{
	size_t len;

	switch (inner) {
	case BASE64_0:
	case BASE64_1:
	case BASE64_2:
		return write_base64_within(text, inner - BASE64_0, base64_digits[0], ret_text);
	case BASE64_END_0:
	case BASE64_END_1:
	case BASE64_END_2:
		len = write_base64_within(text, inner - BASE64_END_0, base64_digits[0], ret_text);
		return len + write_base64_end(text, inner - BASE64_END_0, ret_text + len);
	case BASE64URL_0:
	case BASE64URL_1:
	case BASE64URL_2:
		return write_base64_within(text, inner - BASE64URL_0, base64_digits[1], ret_text);
	case HEX_LOWER:
	case HEX_UPPER:
		return write_hex(text, hex_digits[inner - HEX_LOWER], ret_text);
	case AS_IT_IS:
		break;
	}
	if (text.len > 0)
		memcpy(ret_text, text.data, text.len);
	return text.len;
}

/* ---- escapes ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c);
}

static char *write_unicode(char *at, unsigned int unit, const char *digits)
{
	*at++ = '\\';
	*at++ = 'u';
	for (int shift = 12; shift >= 0; shift -= 4)
		*at++ = digits[unit >> shift & 15];
	return at;
}

/* The code point of a valid sequence. */
static unsigned int decode_utf8(const char *s, size_t len)
{
	unsigned int point = (unsigned char)s[0] & (0xffU >> (len + 1));

	for (size_t i = 1; i < len; i++)
		point = point << 6 | ((unsigned char)s[i] & 0x3f);
	return point;
}

/* A character outside of ASCII as one \uXXXX or two; `len` becomes how many bytes it has. */
static char *write_foreign(char *at, struct bytes rest, const char *digits, size_t *len)
{
	unsigned int point;

	*len = utf8_sequence(rest.data, rest.len);
	if (*len == 0) {
		*len = 1;
		*at++ = rest.data[0];
		return at;
	}
	point = decode_utf8(rest.data, *len);
	if (point < 0x10000)
		return write_unicode(at, point, digits);
	at = write_unicode(at, 0xd800 + ((point - 0x10000) >> 10), digits);
	return write_unicode(at, 0xdc00 + ((point - 0x10000) & 0x3ff), digits);
}

static char *write_json_byte(char *at, char c, const struct json_style *style, const char *digits)
{
	static const char controls[] = "\b\f\n\r\t", letters[] = "bfnrt";
	const char *control = c ? strchr(controls, c) : NULL;

	if (is_one_of(c, style->unicode) || ((unsigned char)c < 0x20 && !control))
		return write_unicode(at, (unsigned char)c, digits);
	if (control || c == '"' || c == '\\' || (c == '/' && style->escapes_slash))
		*at++ = '\\';
	*at++ = control ? letters[control - controls] : c;
	return at;
}

static size_t write_json(struct bytes text, const struct json_style *style, char *ret_text)
{
	const char *digits = hex_digits[style->is_upper];
	char *at = ret_text;

	while (text.len > 0) {
		size_t len = 1;

		if ((unsigned char)text.data[0] >= 0x80 && style->is_ascii)
			at = write_foreign(at, text, digits, &len);
		else
			at = write_json_byte(at, text.data[0], style, digits);
		bytes_take(&text, len);
	}
	return (size_t)(at - ret_text);
}

static size_t write_percent(struct bytes text, const struct percent_style *style, char *ret_text)
{
	const char *digits = hex_digits[style->is_upper];
	char *at = ret_text;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (is_alnum(c) || is_one_of(c, style->kept)) {
			*at++ = c;
		} else if (c == ' ' && style->writes_plus) {
			*at++ = '+';
		} else {
			*at++ = '%';
			*at++ = digits[(unsigned char)c >> 4];
			*at++ = digits[(unsigned char)c & 15];
		}
	}
	return (size_t)(at - ret_text);
}

size_t form_write(size_t form, struct bytes text, char *ret_text)
{
	const struct form *row = &forms[form];
	struct bytes inner = text;

	if (row->inner != AS_IT_IS && (row->json || row->percent)) {
		/* What is escaped grows from the front, and what it is read from is at the back. */
		size_t len = write_inner(row->inner, text, ret_text);

		memmove(ret_text + FORM_SIZE(text.len) - len, ret_text, len);
		inner = (struct bytes){ ret_text + FORM_SIZE(text.len) - len, len };
	}
	if (row->json)
		return write_json(inner, row->json, ret_text);
	if (row->percent)
		return write_percent(inner, row->percent, ret_text);
	return write_inner(row->inner, text, ret_text);
}

/* ---- base64 that is whole ---- */

size_t form_write_base64(struct bytes text, char *ret_text)
{
	return write_inner(BASE64_END_0, text, ret_text);
}

static void drop_padding(struct bytes *digits)
{
	if (digits->len % 4 != 0)
		return;
	for (int i = 0; i < 2 && digits->len > 0 && digits->data[digits->len - 1] == '='; i++)
		digits->len--;
}

int form_read_base64(struct bytes digits, char *ret_text, size_t *ret_len)
{
	unsigned int bits = 0, count = 0;

	drop_padding(&digits);
	*ret_len = 0;
	for (size_t i = 0; i < digits.len; i++) {
		const char *digit = digits.data[i] ? strchr(base64_digits[0], digits.data[i])
						   : NULL;

		if (!digit)
			return -EINVAL;
		bits = bits << 6 | (unsigned int)(digit - base64_digits[0]);
		count += 6;
		if (count >= 8) {
			count -= 8;
			ret_text[(*ret_len)++] = (char)(bits >> count);
		}
	}
	return digits.len % 4 == 1 || (bits & ((1U << count) - 1)) ? -EINVAL : 0;
}
