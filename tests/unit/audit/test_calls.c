/* SPDX-License-Identifier: MIT */
/* LLM calls read out of an audit log. */
#include "unit.h"

#include "audit/calls.h"

static char seen[4096];
static int faults;

static void on_fault(void *owner, const struct audit_fault *fault)
{
	char text[AUDIT_FAULT_TEXT_MAX];

	(void)owner;
	audit_format_fault(fault, text);
	faults++;
}

static void on_call(void *owner, const struct audit_call *call)
{
	size_t len = strlen(seen);

	(void)owner;
	assert_true(call->end_ms - call->start_ms == (call->is_decided ? 0 : 40));
	snprintf(seen + len, sizeof(seen) - len, "%s%s|%u|%s|%s|%s|%s|%d\n",
		 call->is_decided ? "decided " : "", call->run_id, call->attempt, call->account,
		 call->model, call->call_id, call->cost, call->status);
}

static const struct audit_call_visitor visitor = { on_fault, on_call, NULL };

static struct audit_outcome outcome(const char *model, const char *call_id, int64_t status)
{
	return (struct audit_outcome){
		.run_id = BYTES("r1"),
		.attempt = 3,
		.exchange = 1,
		.status = status,
		.sent_bytes = 1,
		.received_bytes = 1,
		.first_byte_ms = AUDIT_UNSET,
		.duration_ms = 40,
		.ended = BYTES("complete"),
		.account = BYTES("team \"7\" \\ \x01"),
		.model = { model, model ? strlen(model) : 0 },
		.call_id = { call_id, call_id ? strlen(call_id) : 0 },
		.cost = BYTES("0.5"),
	};
}

static void calls_and_nothing_else(void **state)
{
	struct audit_outcome rows[] = {
		outcome("m\n\xc3\xa4", "c1", 200),
		outcome(NULL, NULL, 200), /* a host's */
		outcome("m", NULL, AUDIT_UNSET),
		outcome(NULL, "c\"2", 500),
	};
	struct audit_start start = { .run_id = BYTES("r1"), .attempt = 3 };
	struct audit_decision decision = { .run_id = BYTES("r1"),
					   .attempt = 3,
					   .is_allowed = true };
	char path[] = "/tmp/warder-calls-XXXXXX";
	struct audit_summary summary;
	struct audit_log log;
	struct err err;
	FILE *file;

	(void)state;
	close(mkstemp(path));
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	audit_add_start(&log, &start);
	audit_add_decision(&log, &decision); /* a host's, or refused */
	decision.call_id = BYTES("c1");
	audit_add_decision(&log, &decision);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		audit_add_outcome(&log, &rows[i]);
	assert_int_equal(audit_flush(&log), 0);
	audit_close(&log);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(audit_read_calls(file, &visitor, &summary), 0);
	assert_string_equal(seen, "decided r1|3|||c1||0\n"
				  "r1|3|team \"7\" \\ \x01|m\n\xc3\xa4|c1|0.5|200\n"
				  "r1|3|team \"7\" \\ \x01|m||0.5|0\n"
				  "r1|3|team \"7\" \\ \x01||c\"2|0.5|500\n");
	assert_int_equal(faults, 0);
	assert_int_equal(summary.records, 7);
	/* A change is told, and the call as it stands is still a call. */
	rewind(file);
	fseek(file, -20, SEEK_END);
	fputc('x', file);
	rewind(file);
	assert_int_equal(audit_read_calls(file, &visitor, &summary), 0);
	assert_int_equal(faults, 1);
	fclose(file);
	unlink(path);
}

int main(void)
{
	RUN_TESTS(TEST(calls_and_nothing_else));
}
