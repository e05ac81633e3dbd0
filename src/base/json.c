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

/* Writes one character of the input that is not plain; returns its length. */
static size_t add_special(struct buf *out, const char *s, size_t len)
{
	const char *escape = short_escape(*s);
	size_t n = utf8_sequence(s, len);
	char text[8];

	if (escape) {
		buf_add_text(out, escape);
	} else if (n == 0) {
		buf_add_text(out, replacement);
		n = 1;
	} else if (n == 1) { /* a control character, or DEL */
		snprintf(text, sizeof(text), "\\u%04x", (unsigned char)*s);
		buf_add_text(out, text);
	} else if (n == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0) {
		/* C1 control characters, on which a terminal acts as on others */
		snprintf(text, sizeof(text), "\\u%04x", (unsigned char)s[1]);
		buf_add_text(out, text);
	} else {
		buf_add(out, s, n);
	}
	return n;
}

static void add_quoted(struct buf *out, const char *s, size_t len)
{
	size_t i = 0;

	buf_add(out, "\"", 1);
	while (i < len) {
		size_t start = i;

		while (i < len && is_plain(s[i]))
			i++;
		buf_add(out, s + start, i - start);
		if (i < len)
			i += add_special(out, s + i, len - i);
	}
	buf_add(out, "\"", 1);
}

static void begin_value(struct json *json, const char *key)
{
	if (json->needs_comma)
		buf_add(json->out, ",", 1);
	if (key) {
		add_quoted(json->out, key, strlen(key));
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
	begin_value(json, key);
	add_quoted(json->out, bytes, len);
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
