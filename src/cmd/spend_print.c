/* SPDX-License-Identifier: MIT */
/*
 * Both sides of every call. Names of models are the agent's text and ids are the upstream's: on a
 * terminal only what is plain of them is shown.
 */
#include "cmd/spend_print.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/money.h"
#include "base/timestamp.h"

#define LINE_MAX_LEN 8192

static const struct reconcile_call *either(const struct reconcile_line *line)
{
	return line->ours ? line->ours : line->theirs;
}

static void format_cost(const struct reconcile_call *call, char ret_text[MONEY_TEXT_MAX])
{
	if (call && call->has_cost)
		money_format(call->cost, ret_text);
	else
		snprintf(ret_text, MONEY_TEXT_MAX, call ? "?" : "-");
}

/* ---- for people ---- */

static void print_word(const char *text, int width)
{
	if (!*text)
		text = "-";
	for (; *text; text++, width--)
		putchar(*text > 0x20 && *text < 0x7f ? *text : '?');
	printf("%*s", width > 0 ? width + 1 : 1, "");
}

static void print_line(const struct reconcile_line *line)
{
	const struct reconcile_call *call = either(line);
	char time[TIMESTAMP_TEXT_MAX], ours[MONEY_TEXT_MAX], theirs[MONEY_TEXT_MAX];

	timestamp_format(call->time_ms, time);
	format_cost(line->ours, ours);
	format_cost(line->theirs, theirs);
	print_word(call->time_ms ? time : "", 24);
	print_word(call->whose, 28);
	print_word(call->model, 16);
	print_word(call->id[0] ? call->id : call->other_id, 36);
	print_word(ours, 12);
	print_word(theirs, 12);
	printf("%s\n", reconcile_word(line->verdict));
}

static void print_side(const char *name, const struct reconcile_side *side)
{
	char cost[MONEY_TEXT_MAX];

	money_format(side->cost, cost);
	printf("%-12s %" PRIu64 " call%s, %s", name, side->count, side->count == 1 ? "" : "s",
	       cost);
	if (side->unknown_count > 0)
		printf(" and %" PRIu64 " of unknown cost", side->unknown_count);
	printf("\n");
}

static void print_faults(const struct spend_faults *faults)
{
	char text[AUDIT_FAULT_TEXT_MAX];

	for (uint64_t i = 0; i < faults->count && i < SPEND_FAULTS_MAX; i++) {
		audit_format_fault(&faults->first[i], text);
		printf("%-12s %s\n", "audit log", text);
	}
	if (faults->count > SPEND_FAULTS_MAX)
		printf("%-12s and %" PRIu64 " more\n", "audit log",
		       faults->count - SPEND_FAULTS_MAX);
}

void spend_print_text(const struct reconcile_result *result, const struct spend_faults *faults)
{
	if (result->line_count > 0)
		printf("%-24s %-28s %-16s %-36s %-12s %-12s %s\n", "time", "run", "model", "call",
		       "ours", "theirs", "verdict");
	for (size_t i = 0; i < result->line_count; i++)
		print_line(&result->lines[i]);
	print_side("ours", &result->ours);
	print_side("theirs", &result->theirs);
	for (enum reconcile_verdict i = 0; i < RECONCILE_VERDICTS; i++)
		if (result->counts[i] > 0)
			printf("%-12s %" PRIu64 ": %s%s\n", reconcile_word(i), result->counts[i],
			       reconcile_text(i),
			       reconcile_is_difference(i) ? " (difference)" : "");
	print_faults(faults);
	if (result->differences + faults->count == 0)
		printf("clean\n");
	else
		printf("%" PRIu64 " difference%s\n", result->differences + faults->count,
		       result->differences + faults->count == 1 ? "" : "s");
}

/* ---- for programs ---- */

static void write_out(struct buf *out)
{
	fwrite(out->data, 1, out->len, stdout);
	out->len = 0;
}

static void add_text(struct json *json, const char *key, const char *text)
{
	if (text[0])
		json_text(json, key, text);
}

static void add_cost(struct json *json, const char *key, const struct reconcile_call *call)
{
	char text[MONEY_TEXT_MAX];

	if (call && call->has_cost) {
		money_format(call->cost, text);
		json_text(json, key, text);
	}
}

static void add_line(struct json *json, const struct reconcile_line *line)
{
	const struct reconcile_call *call = either(line);
	char time[TIMESTAMP_TEXT_MAX];

	json_open(json, NULL, '{');
	if (call->time_ms) {
		timestamp_format(call->time_ms, time);
		json_text(json, "time", time);
	}
	add_text(json, "run", call->whose);
	if (line->theirs)
		add_text(json, "endUser", line->theirs->end_user);
	add_text(json, "model", call->model);
	add_text(json, "callId", call->id);
	if (line->theirs)
		add_text(json, "requestId", line->theirs->other_id);
	json_bool(json, "isOurs", line->ours);
	json_bool(json, "isTheirs", line->theirs);
	add_cost(json, "ours", line->ours);
	add_cost(json, "theirs", line->theirs);
	json_text(json, "verdict", reconcile_word(line->verdict));
	json_bool(json, "isDifference", reconcile_is_difference(line->verdict));
	json_close(json, '}');
}

static void add_side(struct json *json, const char *key, const struct reconcile_side *side)
{
	char cost[MONEY_TEXT_MAX];

	money_format(side->cost, cost);
	json_open(json, key, '{');
	json_number(json, "calls", (int64_t)side->count);
	json_text(json, "cost", cost);
	json_number(json, "unknown", (int64_t)side->unknown_count);
	json_close(json, '}');
}

static void add_faults(struct json *json, const struct spend_faults *faults)
{
	char text[AUDIT_FAULT_TEXT_MAX];

	json_number(json, "auditFaultCount", (int64_t)faults->count);
	json_open(json, "auditFaults", '[');
	for (uint64_t i = 0; i < faults->count && i < SPEND_FAULTS_MAX; i++) {
		audit_format_fault(&faults->first[i], text);
		json_text(json, NULL, text);
	}
	json_close(json, ']');
}

void spend_print_json(const struct reconcile_result *result, const struct spend_faults *faults)
{
	struct buf out;
	struct json json = { .out = &out };

	buf_init(&out, (size_t)4 * LINE_MAX_LEN);
	json_open(&json, NULL, '{');
	json_open(&json, "calls", '[');
	for (size_t i = 0; i < result->line_count; i++) {
		add_line(&json, &result->lines[i]);
		write_out(&out);
	}
	json_close(&json, ']');
	add_side(&json, "ours", &result->ours);
	add_side(&json, "theirs", &result->theirs);
	json_open(&json, "verdicts", '{');
	for (enum reconcile_verdict i = 0; i < RECONCILE_VERDICTS; i++)
		if (result->counts[i] > 0)
			json_number(&json, reconcile_word(i), (int64_t)result->counts[i]);
	json_close(&json, '}');
	write_out(&out);
	add_faults(&json, faults);
	json_number(&json, "differences", (int64_t)(result->differences + faults->count));
	json_bool(&json, "isClean", result->differences + faults->count == 0);
	json_close(&json, '}');
	buf_add_text(&out, "\n");
	write_out(&out);
	buf_fini(&out);
}
