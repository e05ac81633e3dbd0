/* SPDX-License-Identifier: MIT */
/* Replies that the gate makes itself. */
#include "gate/refuse.h"

#include "base/json.h"
#include "http/h1_write.h"

static struct bytes reason_of(int status)
{
	static const struct {
		int status;
		struct bytes reason;
	} reasons[] = {
		{ 200, { "OK", 2 } },
		{ 400, { "Bad Request", 11 } },
		{ 405, { "Method Not Allowed", 18 } },
		{ 414, { "URI Too Long", 12 } },
		{ 417, { "Expectation Failed", 18 } },
		{ 421, { "Misdirected Request", 19 } },
		{ 431, { "Request Header Fields Too Large", 31 } },
		{ 501, { "Not Implemented", 15 } },
		{ 502, { "Bad Gateway", 11 } },
		{ 505, { "HTTP Version Not Supported", 26 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return (struct bytes){ "", 0 };
}

static void format(struct buf *out, int status, const struct buf *body, bool keeps_alive,
		   bool is_head)
{
	h1_write_status_line(out, status, reason_of(status));
	h1_write_field(out, BYTES("content-type"), BYTES("application/json"));
	if (!keeps_alive)
		h1_write_field(out, BYTES("connection"), BYTES("close"));
	h1_write_framing(out, FRAMING_LENGTH, body->len);
	if (!is_head)
		buf_add(out, body->data, body->len);
}

void refuse_format(struct buf *out, int status, const char *code, const char *message,
		   const char *run_id, bool keeps_alive)
{
	struct buf body;
	struct json json = { .out = &body };

	buf_init(&body, 4096);
	json_open(&json, NULL, '{');
	json_open(&json, "error", '{');
	json_text(&json, "code", code);
	json_text(&json, "message", message);
	json_text(&json, "runId", run_id);
	json_close(&json, '}');
	json_close(&json, '}');
	format(out, status, &body, keeps_alive, false);
	buf_fini(&body);
}

void refuse_format_health(struct buf *out, const char *run_id, bool keeps_alive, bool is_head)
{
	struct buf body;
	struct json json = { .out = &body };

	buf_init(&body, 1024);
	json_open(&json, NULL, '{');
	json_text(&json, "status", "ok");
	json_text(&json, "runId", run_id);
	json_close(&json, '}');
	format(out, 200, &body, keeps_alive, is_head);
	buf_fini(&body);
}
