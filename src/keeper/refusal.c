/* SPDX-License-Identifier: MIT */
/* The table of refusals, and their JSON. */
#include "keeper/refusal.h"

#include <stdio.h>

#include "base/json.h"

static const struct {
	int status;
	const char *code, *message, *hint;
} refusals[] = {
	{ 500, "none", "", NULL },
#define REFUSAL(name, status, code, message, hint) { status, code, message, hint },
#include "keeper/refusal.def"
#undef REFUSAL
};

int refusal_status(enum refusal refusal)
{
	return refusals[refusal].status;
}

const char *refusal_code(enum refusal refusal)
{
	return refusals[refusal].code;
}

void refusal_format(enum refusal refusal, const char *detail, const char *hint, const char *run_id,
		    struct buf *out)
{
	struct json json = { .out = out };
	char message[768];

	snprintf(message, sizeof(message), detail ? "%s: %s" : "%s", refusals[refusal].message,
		 detail);
	json_open(&json, NULL, '{');
	json_open(&json, "error", '{');
	json_text(&json, "code", refusals[refusal].code);
	json_text(&json, "message", message);
	if (!hint || !hint[0])
		hint = refusals[refusal].hint;
	if (hint)
		json_text(&json, "hint", hint);
	if (run_id[0])
		json_text(&json, "runId", run_id);
	json_close(&json, '}');
	json_close(&json, '}');
}
