/* SPDX-License-Identifier: MIT */
/* Writes JSON; bytes that are not UTF-8 become U+FFFD, so the output always parses. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	bool needs_comma;
};

/* A NULL key writes an array element, or the outermost value. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_string(struct json *json, const char *key, const char *bytes, size_t len);
/* Of which at most so many bytes are written, between the quotes. */
void json_string_cut(struct json *json, const char *key, const char *bytes, size_t len,
		     size_t most);
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, int64_t value);
void json_bool(struct json *json, const char *key, bool value);

#endif
