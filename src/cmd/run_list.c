/* SPDX-License-Identifier: MIT */
/* Printing runs. */
#include "cmd/run_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/words.h"

#define LINE_MAX_BYTES 65536

static const struct {
	const char *title, *name;
	int width;
} columns[] = {
	{ "RUN", "runId", -27 },         { "ATTEMPT", "attempt", 7 }, { "ACCOUNT", "account", -14 },
	{ "STATE", "state", -8 },        { "LINK", "link", -6 },      { "AGE", "ageMs", 8 },
	{ "UNDER WAY", "exchanges", 9 }, { "ALLOWED", "allowed", 8 }, { "REFUSED", "refused", 8 },
};

/* "1:02:03", or seconds. */
static void format_age(const char *text, char ret_text[32])
{
	uint64_t s = strtoull(text, NULL, 10) / 1000;

	if (s < 60)
		snprintf(ret_text, 32, "%" PRIu64 "s", s);
	else if (s < 3600)
		snprintf(ret_text, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	else
		snprintf(ret_text, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
			 s / 60 % 60, s % 60);
}

static void print_row(struct bytes words)
{
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		const char *value = words_find_pair(words, columns[i].name);
		char age[32];

		if (value && strcmp(columns[i].name, "ageMs") == 0) {
			format_age(value, age);
			value = age;
		}
		printf("%s%*s", i ? "  " : "", columns[i].width, value ? value : "-");
	}
	printf("\n");
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 19;
}

static void print_json(struct bytes words)
{
	struct buf out;
	struct json json = { .out = &out };
	struct bytes name, value;

	buf_init(&out, LINE_MAX_BYTES);
	json_open(&json, NULL, '{');
	while (words_next_pair(&words, &name, &value)) {
		char key[64];

		if (name.len >= sizeof(key))
			continue;
		memcpy(key, name.data, name.len);
		key[name.len] = '\0';
		/* An id of digits is still a text. */
		if (is_number(value.data) && strcmp(key, "runId") != 0 &&
		    strcmp(key, "account") != 0)
			json_number(&json, key, strtoll(value.data, NULL, 10));
		else
			json_string(&json, key, value.data, value.len);
	}
	json_close(&json, '}');
	printf("%.*s\n", (int)out.len, out.data);
	buf_fini(&out);
}

static void print_one(struct bytes words)
{
	struct bytes name, value;

	while (words_next_pair(&words, &name, &value))
		printf("%-20.*s %s\n", (int)name.len, name.data, value.data);
}

void run_list_add(struct run_list *list, struct bytes words)
{
	if (list->is_json) {
		print_json(words);
	} else if (list->is_one) {
		print_one(words);
	} else {
		for (size_t i = 0; list->count == 0 && i < ARRAY_LEN(columns); i++)
			printf("%s%*s%s", i ? "  " : "", columns[i].width, columns[i].title,
			       i + 1 < ARRAY_LEN(columns) ? "" : "\n");
		print_row(words);
	}
	list->count++;
}
