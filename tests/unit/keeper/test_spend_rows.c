/* SPDX-License-Identifier: MIT */
/* Rows of a spend log, however they are cut, and nothing that is none. */
#include "unit.h"

#include "base/buf.h"
#include "keeper/spend_rows.h"

static char seen[4096];
static int stop_at;

static int on_row(void *owner, const struct spend_row *row, struct err *err)
{
	size_t len = strlen(seen);

	assert_ptr_equal(owner, &seen);
	snprintf(seen + len, sizeof(seen) - len, "%s|%s|%s|%s|%u|%s|%llu|%llu\n", row->call_id,
		 row->request_id, row->end_user, row->run_id, row->attempt, row->model,
		 (unsigned long long)row->cost, (unsigned long long)row->start_ms);
	return --stop_at == 0 ? err_say(err, ECANCELED, "enough") : 0;
}

/* In two pieces. */
static int read_text(struct bytes text, size_t cut, struct err *err)
{
	struct spend_rows *rows = spend_rows_new(on_row, &seen);
	struct bytes rest = text;
	int r;

	seen[0] = '\0';
	r = spend_rows_push(rows, bytes_take(&rest, cut), err);
	if (r == 0)
		r = spend_rows_push(rows, rest, err);
	if (r == 0)
		r = spend_rows_end(rows, err);
	spend_rows_free(rows);
	return r;
}

static void rows_at_every_cut(void **state)
{
	/* call_id|request_id|end_user|run_id|attempt|model|cost|start_ms */
	static const struct {
		const char *text, *rows;
	} rows[] = {
		{ "[]", "" },
		{ " [ ] \r\n", "" },
		{ "{\"data\":[],\"total\":0}", "" },
		{ "[{\"request_id\":\"r1\"}]", "|r1|||0||0|0\n" },
		/* As the table has them. */
		{ "[{\"request_id\":\"chatcmpl-1\",\"litellm_call_id\":\"c1\","
		  "\"spend\":0.00022500000000000002,\"end_user\":\"run1/0\","
		  "\"startTime\":\"2026-11-15T14:50:42.144831Z\",\"model\":\"openai/m\","
		  "\"model_group\":\"m\",\"metadata\":{\"spend_logs_metadata\":"
		  "{\"runId\":\"run1\",\"attempt\":4},\"litellm_call_id\":\"no\"}}]",
		  "c1|chatcmpl-1|run1/0|run1|4|m|225001|1794754242144\n" },
		/* The call id in the metadata only; the last of several counts. */
		{ "{\"page\":1,\"data\":[{\"metadata\":{\"litellm_call_id\":\"c2\"},\"spend\":1e-"
		  "05},"
		  "{\"request_id\":\"a\",\"request_id\":\"r3_cache_hit12.5\",\"spend\":2}],"
		  "\"total\":2}",
		  "c2||||0||10000|0\n|r3|||0||2000000000|0\n" },
		/* As a callback has them: seconds, and another name for the cost. */
		{ "[{\"litellm_call_id\":\"c4\",\"response_cost\":0.5,\"spend\":null,"
		  "\"startTime\":1794754242.5}]",
		  "c4||||0||500000000|1794754242000\n" },
		/* What a prompt says is not what the row says. */
		{ "[{\"messages\":[{\"request_id\":\"no\",\"spend\":9}],"
		  "\"x\":\"\\\",\\\"request_id\\\":\\\"no\",\"request_id\":\"r5\",\"response\":"
		  "{\"end_user\":\"no\",\"metadata\":{\"litellm_call_id\":\"no\"}},"
		  "\"metadata\":{\"deeper\":{\"spend_logs_metadata\":{\"runId\":\"no\"}}},"
		  "\"y\":[[[{}],-1.5e+3]],\"z\":true}]",
		  "|r5|||0||0|0\n" },
		/* A run's id that is none is not shown as one. */
		{ "[{\"request_id\":\"r6\",\"metadata\":{\"spend_logs_metadata\":"
		  "{\"runId\":\"../x\",\"attempt\":-1}}}]",
		  "|r6|||0||0|0\n" },
		{ "[{\"req\\u0075est_id\":\"\\u00e4\\ud83d\\ude00\\n\\\"\\/\",\"end_user\":null,"
		  "\"model\":false}]",
		  "|\xc3\xa4\xf0\x9f\x98\x80\n\"/|||0||0|0\n" },
		{ "[{\"request_id\":\"\\ud83dx\\udc00\\u0000\"}]",
		  "|x\xef\xbf\xbd\xef\xbf\xbd|||0||0|0\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes text = bytes_of(rows[i].text);
		struct err err;

		for (size_t cut = 0; cut <= text.len; cut++) {
			assert_int_equal(read_text(text, cut, &err), 0);
			assert_string_equal(seen, rows[i].rows);
		}
		/* The beginning of a list is no list. */
		for (size_t len = 0; len < text.len; len++)
			if (strcspn(rows[i].text + len, "]}") < text.len - len)
				assert_int_equal(
					read_text((struct bytes){ text.data, len }, 0, &err),
					-EPROTO);
	}
}

static void what_is_no_list_of_rows(void **state)
{
	static const char *const rows[] = {
		"",
		"null",
		"1",
		"\"x\"",
		"{}",
		"{\"error\":{\"data\":[]}}",
		"{\"data\":{}}",
		"[1]",
		"[[]]",
		"[null]",
		"[{}]",
		"[{\"startTime\":\"2026-11-15\",\"spend\":1,\"users\":{},\"models\":{}}]",
		"[{\"request_id\":\"\"}]",
		"[{\"request_id\":\"a\",\"spend\":-1}]",
		"[{\"request_id\":\"a\",\"spend\":\"much\"}]",
		"[{\"request_id\":\"a\",\"spend\":1e99}]",
		"[]]",
		"[] x",
		"[}",
		"[{]",
		"[{\"request_id\":\"a\",}]",
		"[{\"request_id\":\"a\"},]",
		"[,]",
		"[{\"request_id\" \"a\"}]",
		"[{request_id:\"a\"}]",
		"[{\"request_id\":\"a\\x\"}]",
		"[{\"request_id\":\"\\u12g4\"}]",
		"[{\"request_id\":\"a\nb\"}]",
		"[{\"request_id\":\"a\",\"x\":nul}]",
		"[{\"request_id\":\"a\",\"x\":'y'}]",
		"[{\"request_id\":\"a\" \"x\":1}]",
		"[{\"request_id\":\"a\"}{\"request_id\":\"b\"}]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = { 0 };

		assert_int_equal(read_text(bytes_of(rows[i]), 0, &err), -EPROTO);
		assert_non_null(strstr(err.text, "spend log"));
	}
}

static void limits(void **state)
{
	struct buf text;
	struct err err;

	(void)state;
	/* A prompt of any size costs nothing; a text of any size is cut. */
	buf_init(&text, 1 << 20);
	buf_add_text(&text, "[{\"messages\":\"");
	for (int i = 0; i < 10000; i++)
		buf_add_text(&text, "prompt prompt prompt ");
	buf_add_text(&text, "\",\"request_id\":\"");
	for (int i = 0; i < 1000; i++)
		buf_add_text(&text, "i");
	buf_add_text(&text, "\"}]");
	assert_int_equal(read_text((struct bytes){ text.data, text.len }, 5, &err), 0);
	assert_int_equal(strspn(seen, "|i"), SPEND_TEXT_MAX + 3);
	buf_fini(&text);

	for (int depth = JSON_WALK_DEPTH_MAX - 2; depth <= JSON_WALK_DEPTH_MAX - 1; depth++) {
		buf_init(&text, 1 << 20);
		buf_add_text(&text, "[{\"request_id\":\"a\",\"x\":");
		for (int i = 0; i < depth; i++)
			buf_add_text(&text, "[");
		for (int i = 0; i < depth; i++)
			buf_add_text(&text, "]");
		buf_add_text(&text, "}]");
		assert_int_equal(read_text((struct bytes){ text.data, text.len }, 0, &err),
				 depth < JSON_WALK_DEPTH_MAX - 1 ? 0 : -EPROTO);
		buf_fini(&text);
	}
}

static void whoever_has_enough_is_told_no_more(void **state)
{
	struct err err;

	(void)state;
	stop_at = 2;
	assert_int_equal(read_text(BYTES("[{\"request_id\":\"a\"},{\"request_id\":\"b\"},"
					 "{\"request_id\":\"c\"}]"),
				   0, &err),
			 -ECANCELED);
	assert_string_equal(seen, "|a|||0||0|0\n|b|||0||0|0\n");
	assert_string_equal(err.text, "enough");
	stop_at = 0;
}

static void whose_it_is(void **state)
{
	static const struct {
		const char *end_user, *run_id;
		uint32_t attempt;
		const char *run; /* "" for nobody's */
		uint32_t run_attempt;
	} rows[] = {
		{ "r1/2", "", 0, "r1", 2 },
		{ "r1/2", "r3", 4, "r3", 4 },
		{ "team", "r3", 4, "r3", 4 },
		{ "team", "", 0, "", 0 },
		{ "a/b/1", "", 0, "", 0 },
		{ "r1/", "", 0, "", 0 },
		{ "/1", "", 0, "", 0 },
		{ "r1/-1", "", 0, "", 0 },
		{ "r1/99999999999", "", 0, "", 0 },
		{ "", "", 0, "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct spend_row row = { .end_user = rows[i].end_user,
					 .run_id = rows[i].run_id,
					 .attempt = rows[i].attempt };
		char run_id[RUNID_MAX + 1];
		uint32_t attempt;
		bool is_known = spend_row_run(&row, run_id, &attempt);

		assert_int_equal(is_known, rows[i].run[0] != '\0');
		if (!is_known)
			continue;
		assert_string_equal(run_id, rows[i].run);
		assert_int_equal(attempt, rows[i].run_attempt);
		assert_true(spend_row_is_of(&row, run_id, attempt));
		assert_true(spend_row_is_of(&row, run_id, -1));
		assert_false(spend_row_is_of(&row, run_id, attempt + 1));
		assert_false(spend_row_is_of(&row, "other", -1));
	}
	/* Both names count when somebody looks for a run. */
	assert_true(spend_row_is_of(&(struct spend_row){ .end_user = "r1/2", .run_id = "r3" }, "r1",
				    2));
}

int main(void)
{
	RUN_TESTS(TEST(rows_at_every_cut), TEST(what_is_no_list_of_rows), TEST(limits),
		  TEST(whoever_has_enough_is_told_no_more), TEST(whose_it_is));
}
