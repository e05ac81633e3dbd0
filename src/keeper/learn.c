/* SPDX-License-Identifier: MIT */
/* Drafts. From here on the texts are the agent's. */
#include "keeper/learn.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/json.h"
#include "policy/rule.h"

struct learned {
	char *rule;
	bool is_denied;
	uint64_t count;
};

struct learn {
	struct learned rules[LEARN_RULES_MAX];
	size_t count;
	uint64_t left_out; /* requests that there was no room for */
};

struct learn *learn_new(void)
{
	struct learn *learn = calloc(1, sizeof(*learn));

	if (!learn)
		die_no_memory();
	return learn;
}

void learn_free(struct learn *learn)
{
	for (size_t i = 0; learn && i < learn->count; i++)
		free(learn->rules[i].rule);
	free(learn);
}

/* Whether a text is a rule: what is written into a file must be readable there. */
static bool is_rule(const char *text)
{
	struct policy policy = { 0 };
	struct err err;
	bool is_good = policy_add(&policy, text, true, &err) == 0;

	policy_fini(&policy);
	return is_good;
}

/* A star of a path is a star, not anything. */
static void add_path(struct buf *rule, struct bytes path)
{
	for (size_t i = 0; i < path.len; i++)
		if (path.data[i] == '*')
			buf_add_text(rule, "%2A");
		else
			buf_add(rule, path.data + i, 1);
}

/* The rule for exactly this, or for as much of it as rules can say; NULL when they cannot. */
static char *make_rule(struct bytes method, const char *place, struct bytes path)
{
	for (int parts = 2; parts >= 0; parts--) {
		struct buf rule;
		size_t len;
		char *text;

		buf_init(&rule, RULE_TEXT_MAX + 1);
		if (method.len == 0)
			buf_add_text(&rule, "tcp://");
		if (parts > 0 && method.len > 0) {
			buf_add(&rule, method.data, method.len);
			buf_add_text(&rule, " ");
		}
		buf_add_text(&rule, place);
		if (parts > 1 && method.len > 0)
			add_path(&rule, path);
		text = buf_take(&rule, &len);
		if (is_rule(text))
			return text;
		free(text);
	}
	return NULL;
}

void learn_note(struct learn *learn, struct bytes method, const char *place, struct bytes path,
		bool is_denied)
{
	char *rule = make_rule(method, place, path);
	size_t i = 0;

	while (rule && i < learn->count && strcmp(learn->rules[i].rule, rule) != 0)
		i++;
	if (!rule || i == LEARN_RULES_MAX) {
		learn->left_out++;
		free(rule);
		return;
	}
	if (i < learn->count)
		free(rule);
	else
		learn->rules[learn->count++] = (struct learned){ rule, is_denied, 0 };
	learn->rules[i].count++;
}

size_t learn_count(const struct learn *learn)
{
	return learn->count;
}

/* ---- writing ---- */

static void add_rule(struct buf *out, const struct learned *learned)
{
	struct json json = { .out = out };

	json_text(&json, NULL, learned->rule);
}

static void add_count(struct buf *out, uint64_t count)
{
	buf_add_text(out, "asked for ");
	buf_add_number(out, count);
	buf_add_text(out, count == 1 ? " time" : " times");
}

static void add_rules(const struct learn *learn, struct buf *out)
{
	bool needs_comma = false;

	for (size_t i = 0; i < learn->count; i++) {
		const struct learned *learned = &learn->rules[i];

		if (learned->is_denied)
			continue;
		buf_add_text(out, needs_comma ? ",\n\t\t// " : "\n\t\t// ");
		add_count(out, learned->count);
		buf_add_text(out, "\n\t\t");
		add_rule(out, learned);
		needs_comma = true;
	}
}

/* Somebody has said no to these already: they stay comments. */
static void add_denied(const struct learn *learn, struct buf *out)
{
	for (size_t i = 0; i < learn->count; i++)
		if (learn->rules[i].is_denied) {
			buf_add_text(out, "\n\t\t// refused by a rule that denies, ");
			add_count(out, learn->rules[i].count);
			buf_add_text(out, ": ");
			add_rule(out, &learn->rules[i]);
		}
}

void learn_write(const struct learn *learn, const char *run_id, struct buf *out)
{
	buf_add_text(out, LEARN_MARK ": what was refused in run ");
	buf_add_text(out, run_id);
	buf_add_text(out,
		     "\n// This is what the agent asked for, not what it should have. Read every "
		     "rule, delete what\n// it does not need, shorten paths to globs such as "
		     "/v1/**, and see what 'warder check' says.\n{\n\t\"allow\": [");
	add_rules(learn, out);
	add_denied(learn, out);
	if (learn->left_out > 0) {
		buf_add_text(out, "\n\t\t// and ");
		buf_add_number(out, learn->left_out);
		buf_add_text(out, " requests more, for which there was no room, or no rule");
	}
	buf_add_text(out, "\n\t]\n}\n");
}
