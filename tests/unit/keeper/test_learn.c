/* SPDX-License-Identifier: MIT */
/* Drafts: files that can be read again, whatever was asked for. */
#include "unit.h"

#include <stdio.h>

#include "config/file.h"
#include "keeper/learn.h"

static void note(struct learn *learn, const char *method, const char *place, const char *path)
{
	learn_note(learn, bytes_of(method), place, bytes_of(path), false);
}

/* Reads the draft as a configuration; the words, each followed by a space. */
static void read_again(const struct learn *learn, char *ret_words, size_t size)
{
	struct config_file file;
	struct err err = { 0 };
	struct buf text;
	size_t used = 0;

	buf_init(&text, LEARN_TEXT_MAX);
	learn_write(learn, "run-1", &text);
	assert_memory_equal(text.data, LEARN_MARK, strlen(LEARN_MARK));
	if (config_file_parse("draft", (struct bytes){ text.data, text.len }, &file, &err) < 0)
		fail_msg("%s: %s", err.text, text.data);
	assert_int_equal(file.run.count, 0);
	*ret_words = '\0';
	for (size_t i = 1; i < file.keeper.count && used < size; i += 2) {
		assert_string_equal(file.keeper.words[i - 1], "--allow-net");
		used += (size_t)snprintf(ret_words + used, size - used, "%s|",
					 file.keeper.words[i]);
	}
	config_file_fini(&file);
	buf_fini(&text);
}

static void requests_become_rules(void **state)
{
	static const struct {
		const char *method, *place, *path, *expected;
	} rows[] = {
		{ "GET", "a.test", "/x/y", "GET a.test/x/y|" },
		{ "POST", "a.test:8443", "/", "POST a.test:8443/|" },
		{ "GET", "[::1]:80", "/x", "GET [::1]:80/x|" },
		{ "", "db.test:5432", "", "tcp://db.test:5432|" },
		{ "GET", "a.test", "/a*b/**", "GET a.test/a%2Ab/%2A%2A|" },
		{ "GET", "a.test", "/\"\\\\\"", "GET a.test|" },
		{ "GET", "a.test", "/a/../b", "GET a.test|" }, /* no rule is about such a path */
		{ "GET", "a.test", "/%2e%2e/", "GET a.test|" },
		{ "get", "a.test", "/", "a.test|" },
		{ "GET", "a.test", "/x\n],\"deny\":[", "GET a.test|" },
		{ "GET", "not a host", "/", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct learn *learn = learn_new();
		char words[4096];

		note(learn, rows[i].method, rows[i].place, rows[i].path);
		read_again(learn, words, sizeof(words));
		assert_string_equal(words, rows[i].expected);
		learn_free(learn);
	}
}

static void the_same_is_counted(void **state)
{
	struct learn *learn = learn_new();
	struct buf text;
	char words[256];

	(void)state;
	read_again(learn, words, sizeof(words));
	assert_string_equal(words, "");
	note(learn, "GET", "a.test", "/x");
	note(learn, "GET", "b.test", "/x");
	note(learn, "GET", "a.test", "/x");
	learn_note(learn, BYTES("PUT"), "c.test", BYTES("/\x2a"), true);
	assert_int_equal(learn_count(learn), 3);
	read_again(learn, words, sizeof(words));
	assert_string_equal(words, "GET a.test/x|GET b.test/x|"); /* no deny is drafted away */
	buf_init(&text, LEARN_TEXT_MAX);
	learn_write(learn, "run-1", &text);
	assert_non_null(strstr(text.data, "// asked for 2 times\n\t\t\"GET a.test/x\""));
	assert_non_null(strstr(text.data, "that denies, asked for 1 time: \"PUT c.test/%2A\""));
	buf_fini(&text);
	learn_free(learn);
}

static void there_is_a_limit(void **state)
{
	struct learn *learn = learn_new();
	struct buf text;
	char path[1200] = "/";

	(void)state;
	memset(path + 1, 'a', sizeof(path) - 2);
	note(learn, "GET", "a.test", path); /* too long for a rule */
	for (int i = 0; i < 2 * LEARN_RULES_MAX; i++) {
		path[900] = '\0';
		snprintf(path + 1, 16, "%08d", i);
		path[9] = 'x';
		note(learn, "GET", "a.test", path);
	}
	assert_int_equal(learn_count(learn), LEARN_RULES_MAX);
	buf_init(&text, LEARN_TEXT_MAX);
	learn_write(learn, "run-1", &text);
	assert_true(text.len < LEARN_TEXT_MAX);
	assert_non_null(strstr(text.data, "// and 513 requests more"));
	assert_non_null(strstr(text.data, "\"GET a.test\""));
	buf_fini(&text);
	learn_free(learn);
}

int main(void)
{
	RUN_TESTS(TEST(requests_become_rules), TEST(the_same_is_counted), TEST(there_is_a_limit));
}
