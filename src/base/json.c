/* SPDX-License-Identifier: MIT */
/* A JSON writer over a buffer. */
#include "base/json.h"

#include <string.h>

#include "base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static const char *short_escape(char c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	default:
		return NULL;
	}
}

static bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f && c != '"' && c != '\\';
}

/* How one character of the input is written that is not plain; returns its length. */
static size_t format_special(const char *s, size_t len, char ret_text[8])
{
	const char *escape = short_escape(*s);
	size_t n = utf8_sequence(s, len);

	if (escape) {
		snprintf(ret_text, 8, "%s", escape);
	} else if (n == 0) {
		snprintf(ret_text, 8, "%s", replacement);
		n = 1;
	} else if (n == 1) { /* a control character, or DEL */
		snprintf(ret_text, 8, "\\u%04x", (unsigned char)*s);
	} else if (n == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0) {
		/* C1 control characters, on which a terminal acts as on others */
		snprintf(ret_text, 8, "\\u%04x", (unsigned char)s[1]);
	} else {
		memcpy(ret_text, s, n); /* four at most */
		ret_text[n] = '\0';
	}
	return n;
}

/* Whole characters, as long as what is written of them has at most `left` bytes. */
static void add_quoted(struct buf *out, const char *s, size_t len, size_t left)
{
	char special[8];
	size_t i = 0;

	buf_add(out, "\"", 1);
	while (i < len) {
		size_t start = i, read, written;

		while (i < len && i - start < left && is_plain(s[i]))
			i++;
		buf_add(out, s + start, i - start);
		left -= i - start;
		if (i == len || is_plain(s[i]))
			break;
		read = format_special(s + i, len - i, special);
		written = strlen(special);
		if (written > left)
			break;
		buf_add(out, special, written);
		left -= written;
		i += read;
	}
	buf_add(out, "\"", 1);
}

static void begin_value(struct json *json, const char *key)
{
	if (json->needs_comma)
		buf_add(json->out, ",", 1);
	if (key) {
		add_quoted(json->out, key, strlen(key), SIZE_MAX);
		buf_add(json->out, ":", 1);
	}
	json->needs_comma = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin_value(json, key);
	buf_add(json->out, &bracket, 1);
	json->needs_comma = false;
}

void json_close(struct json *json, char bracket)
{
	buf_add(json->out, &bracket, 1);
	json->needs_comma = true;
}

void json_string(struct json *json, const char *key, const char *bytes, size_t len)
{
	json_string_cut(json, key, bytes, len, SIZE_MAX);
}

void json_string_cut(struct json *json, const char *key, const char *bytes, size_t len, size_t most)
{
	begin_value(json, key);
	add_quoted(json->out, bytes, len, most);
}

void json_text(struct json *json, const char *key, const char *text)
{
	json_string(json, key, text, strlen(text));
}

void json_number(struct json *json, const char *key, int64_t value)
{
	begin_value(json, key);
	if (value < 0)
		buf_add_text(json->out, "-");
	buf_add_number(json->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin_value(json, key);
	buf_add_text(json->out, value ? "true" : "false");
}
