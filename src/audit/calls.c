/* SPDX-License-Identifier: MIT */
/* LLM calls, taken out of the records of their decisions and outcomes. */
#include "audit/calls.h"

#include <errno.h>
#include <stdlib.h>

#include "base/timestamp.h"

enum member {
	MEMBER_EVENT,
	MEMBER_TIME,
	MEMBER_RUN_ID,
	MEMBER_ATTEMPT,
	MEMBER_STATUS,
	MEMBER_DURATION,
	MEMBER_ACCOUNT,
	MEMBER_MODEL,
	MEMBER_CALL_ID,
	MEMBER_COST,
	MEMBER_COUNT,
};

static const char *const keys[] = {
	[MEMBER_EVENT] = "event",     [MEMBER_TIME] = "time",     [MEMBER_RUN_ID] = "runId",
	[MEMBER_ATTEMPT] = "attempt", [MEMBER_STATUS] = "status", [MEMBER_DURATION] = "durationMs",
	[MEMBER_ACCOUNT] = "account", [MEMBER_MODEL] = "model",   [MEMBER_CALL_ID] = "callId",
	[MEMBER_COST] = "cost",
};

struct reading {
	const struct audit_call_visitor *visitor;
	char texts[AUDIT_RECORD_MAX]; /* of one record */
};

/* The code of \uXXXX: the log has them for control characters only. */
static char read_code(const char *digits)
{
	int high = hex_digit(digits[2]), low = hex_digit(digits[3]);

	return (char)(high < 0 || low < 0 ? '?' : high << 4 | low);
}

/* The text that a string stands for, or a number as it is. Returns its length. */
static size_t decode(struct bytes value, char *out)
{
	static const char plain[] = "bfnrt", meant[] = "\b\f\n\r\t";
	size_t len = 0;

	if (value.len >= 2 && value.data[0] == '"')
		value = (struct bytes){ value.data + 1, value.len - 2 };
	while (value.len > 0) {
		char c = bytes_take(&value, 1).data[0];

		if (c == '\\' && value.len > 0) {
			const char *at;

			c = bytes_take(&value, 1).data[0];
			at = c ? strchr(plain, c) : NULL;
			if (c == 'u' && value.len >= 4)
				c = read_code(bytes_take(&value, 4).data);
			else if (at)
				c = meant[at - plain];
		}
		out[len++] = c ? c : '?';
	}
	out[len] = '\0';
	return len;
}

static void take_members(struct reading *reading, struct bytes members,
			 const char *ret_texts[MEMBER_COUNT])
{
	struct bytes key, value;
	size_t used = 0;

	while (audit_record_member(&members, &key, &value))
		for (size_t i = 0; i < MEMBER_COUNT; i++) {
			if (ret_texts[i][0] || !bytes_equal(key, bytes_of(keys[i])))
				continue;
			/* A record is no longer than the room for its texts, each of which is
			 * shorter than its member. */
			ret_texts[i] = reading->texts + used;
			used += decode(value, reading->texts + used) + 1;
		}
}

static void on_record(void *owner, const struct audit_record *record)
{
	struct reading *reading = owner;
	const char *texts[MEMBER_COUNT];
	struct bytes members = record->hashed;
	struct audit_call call = { 0 };
	uint64_t duration_ms;

	for (size_t i = 0; i < MEMBER_COUNT; i++)
		texts[i] = "";
	bytes_take(&members, 1);
	take_members(reading, members, texts);
	call.is_decided = strcmp(texts[MEMBER_EVENT], "decision") == 0;
	if ((!call.is_decided && strcmp(texts[MEMBER_EVENT], "outcome") != 0) ||
	    (!texts[MEMBER_MODEL][0] && !texts[MEMBER_CALL_ID][0]))
		return;
	if (timestamp_parse(bytes_of(texts[MEMBER_TIME]), &call.end_ms) < 0)
		call.end_ms = 0; /* then the record was changed, which has been said */
	duration_ms = strtoull(texts[MEMBER_DURATION], NULL, 10);
	call.start_ms = call.end_ms > duration_ms ? call.end_ms - duration_ms : 0;
	call.run_id = texts[MEMBER_RUN_ID];
	call.attempt = (uint32_t)strtoul(texts[MEMBER_ATTEMPT], NULL, 10);
	call.account = texts[MEMBER_ACCOUNT];
	call.model = texts[MEMBER_MODEL];
	call.call_id = texts[MEMBER_CALL_ID];
	call.cost = texts[MEMBER_COST];
	call.status = (int)strtol(texts[MEMBER_STATUS], NULL, 10);
	reading->visitor->on_call(reading->visitor->owner, &call);
}

static void on_fault(void *owner, const struct audit_fault *fault)
{
	const struct reading *reading = owner;

	if (reading->visitor->on_fault)
		reading->visitor->on_fault(reading->visitor->owner, fault);
}

int audit_read_calls(FILE *file, const struct audit_call_visitor *visitor,
		     struct audit_summary *ret_summary)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	struct audit_visitor walker = { on_fault, on_record, reading };
	int r;

	if (!reading)
		return -ENOMEM;
	reading->visitor = visitor;
	r = audit_walk(file, &walker, ret_summary);
	free(reading);
	return r;
}
