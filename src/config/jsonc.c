/* SPDX-License-Identifier: MIT */
/* Scanning JSON without understanding it. */
#include "config/jsonc.h"

#include <errno.h>

static size_t line_at(struct bytes text, size_t at)
{
	size_t line = 1;

	for (size_t i = 0; i < at && i < text.len; i++)
		line += text.data[i] == '\n';
	return line;
}

/* The index after the string that begins at `at`, or the end of the text. */
static size_t skip_string(struct bytes text, size_t at)
{
	for (at++; at < text.len && text.data[at] != '"'; at++)
		if (text.data[at] == '\\')
			at++;
	return at < text.len ? at + 1 : text.len;
}

static bool is_at(struct bytes text, size_t at, struct bytes word)
{
	return text.len - at >= word.len && memcmp(text.data + at, word.data, word.len) == 0;
}

/* The index after the comment that begins at `at`; SIZE_MAX when it has no end. */
static size_t skip_comment(struct bytes text, size_t at)
{
	struct bytes end = text.data[at + 1] == '*' ? BYTES("*/") : BYTES("\n");

	for (at += 2; at < text.len; at++)
		if (is_at(text, at, end))
			return *end.data == '*' ? at + end.len : at;
	return *end.data == '*' ? SIZE_MAX : text.len;
}

static void blank(char *text, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (text[i] != '\n')
			text[i] = ' ';
}

int jsonc_strip(char *text, size_t len, size_t *ret_line)
{
	struct bytes view = { text, len };
	size_t depth = 0, next;

	for (size_t at = 0; at < len; at = next) {
		next = at + 1;
		if (text[at] == '"') {
			next = skip_string(view, at);
		} else if (is_at(view, at, BYTES("//")) || is_at(view, at, BYTES("/*"))) {
			next = skip_comment(view, at);
			if (next == SIZE_MAX) {
				*ret_line = line_at(view, at);
				return -EINVAL;
			}
			blank(text, at, next);
		} else if (text[at] == '{' || text[at] == '[') {
			if (++depth > JSONC_DEPTH_MAX) {
				*ret_line = line_at(view, at);
				return -E2BIG;
			}
		} else if ((text[at] == '}' || text[at] == ']') && depth > 0) {
			depth--;
		}
	}
	return 0;
}

static size_t skip_space(struct bytes text, size_t at)
{
	while (at < text.len && strchr(" \t\r\n", text.data[at]) && text.data[at])
		at++;
	return at;
}

/* The index after whatever begins at `at` and ends before a comma, colon or bracket. */
static size_t skip_value(struct bytes text, size_t at)
{
	size_t depth = 0;

	while (at < text.len) {
		char c = text.data[at];

		if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']'))
			break;
		if (c == '"') {
			at = skip_string(text, at);
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if (c == '}' || c == ']')
			depth--;
		at++;
	}
	return at;
}

/* From a value to the one after the next separator: past a colon, or past a comma. */
static size_t skip_past(struct bytes text, size_t at, char separator)
{
	while (at < text.len) {
		at = skip_value(text, at);
		if (at >= text.len || text.data[at] == '}' || text.data[at] == ']')
			break;
		if (text.data[at++] == separator)
			break;
	}
	return skip_space(text, at);
}

size_t jsonc_line(struct bytes text, const size_t *steps, size_t count)
{
	size_t at = skip_space(text, 0);

	for (size_t i = 0; i < count && at < text.len; i++) {
		bool is_object = text.data[at] == '{';

		at = skip_space(text, at + 1);
		for (size_t n = 0; n < steps[i] && at < text.len; n++)
			at = skip_past(text, at, ',');
		if (is_object && i + 1 < count)
			at = skip_past(text, at, ':');
	}
	return line_at(text, at);
}
