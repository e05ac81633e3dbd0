/* SPDX-License-Identifier: MIT */
/* Formatting of HTTP/1.1 heads and chunks. */
#include "http/h1_write.h"

#include <assert.h>

static void add(struct buf *out, struct bytes text)
{
	buf_add(out, text.data, text.len);
}

/* What comes here was read by a reader that refuses these, or is our own. */
static bool is_one_line(struct bytes text)
{
	return text.len == 0 ||
	       (!memchr(text.data, '\r', text.len) && !memchr(text.data, '\n', text.len));
}

void h1_write_request_line(struct buf *out, struct bytes method, struct bytes target)
{
	assert(is_one_line(method) && is_one_line(target));
	add(out, method);
	add(out, BYTES(" "));
	add(out, target);
	add(out, BYTES(" HTTP/1.1\r\n"));
}

void h1_write_status_line(struct buf *out, int status, struct bytes reason)
{
	assert(is_one_line(reason) && status >= 100 && status <= 999);
	add(out, BYTES("HTTP/1.1 "));
	buf_add_number(out, (uint64_t)status);
	add(out, BYTES(" "));
	add(out, reason);
	add(out, BYTES("\r\n"));
}

struct bytes h1_reason(int status)
{
	static const struct {
		int status;
		struct bytes reason;
	} reasons[] = {
		{ 100, BYTES("Continue") },
		{ 101, BYTES("Switching Protocols") },
		{ 103, BYTES("Early Hints") },
		{ 200, BYTES("OK") },
		{ 201, BYTES("Created") },
		{ 202, BYTES("Accepted") },
		{ 204, BYTES("No Content") },
		{ 206, BYTES("Partial Content") },
		{ 301, BYTES("Moved Permanently") },
		{ 302, BYTES("Found") },
		{ 303, BYTES("See Other") },
		{ 304, BYTES("Not Modified") },
		{ 307, BYTES("Temporary Redirect") },
		{ 308, BYTES("Permanent Redirect") },
		{ 400, BYTES("Bad Request") },
		{ 401, BYTES("Unauthorized") },
		{ 403, BYTES("Forbidden") },
		{ 404, BYTES("Not Found") },
		{ 405, BYTES("Method Not Allowed") },
		{ 409, BYTES("Conflict") },
		{ 410, BYTES("Gone") },
		{ 413, BYTES("Content Too Large") },
		{ 414, BYTES("URI Too Long") },
		{ 415, BYTES("Unsupported Media Type") },
		{ 416, BYTES("Range Not Satisfiable") },
		{ 417, BYTES("Expectation Failed") },
		{ 421, BYTES("Misdirected Request") },
		{ 422, BYTES("Unprocessable Content") },
		{ 426, BYTES("Upgrade Required") },
		{ 429, BYTES("Too Many Requests") },
		{ 431, BYTES("Request Header Fields Too Large") },
		{ 500, BYTES("Internal Server Error") },
		{ 501, BYTES("Not Implemented") },
		{ 502, BYTES("Bad Gateway") },
		{ 503, BYTES("Service Unavailable") },
		{ 504, BYTES("Gateway Timeout") },
		{ 505, BYTES("HTTP Version Not Supported") },
	};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return (struct bytes){ "", 0 };
}

void h1_write_field(struct buf *out, struct bytes name, struct bytes value)
{
	assert(is_one_line(name) && is_one_line(value));
	add(out, name);
	add(out, BYTES(": "));
	add(out, value);
	add(out, BYTES("\r\n"));
}

void h1_write_framing(struct buf *out, enum http_framing framing, uint64_t length)
{
	switch (framing) {
	case FRAMING_CHUNKED:
		h1_write_field(out, BYTES("transfer-encoding"), BYTES("chunked"));
		break;
	case FRAMING_LENGTH:
		add(out, BYTES("content-length: "));
		buf_add_number(out, length);
		add(out, BYTES("\r\n"));
		break;
	case FRAMING_NONE:
	case FRAMING_CLOSE:
		break;
	}
	add(out, BYTES("\r\n"));
}

size_t h1_format_chunk_head(char *text, uint64_t size)
{
	static const char digits[] = "0123456789abcdef";
	size_t len = 1, at;

	for (uint64_t rest = size >> 4; rest > 0; rest >>= 4)
		len++;
	at = len;
	do {
		text[--at] = digits[size & 15];
		size >>= 4;
	} while (at > 0);
	text[len++] = '\r';
	text[len++] = '\n';
	return len;
}
