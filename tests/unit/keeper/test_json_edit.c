/* SPDX-License-Identifier: MIT */
/* The streaming edit: named members go, every other byte stays (INV-ATTRIBUTION). */
#include "unit.h"

#include "keeper/json_edit.h"

static const struct json_edit_rule rules[] = {
	{ NULL, "user" },
	{ NULL, "litellm_metadata" },
	{ NULL, "safety_identifier" },
	{ "metadata", "user_id" },
	{ NULL, NULL },
};

struct row {
	const char *input;
	const char *expected; /* NULL: refused */
};

static const struct row rows[] = {
	/* nothing to remove: not a byte changes */
	{ "{}", "{}" },
	{ " { } \n", " { } \n" },
	{ "", "" },
	{ "  ", "  " },
	{ "{\"a\":1}", "{\"a\":1}" },
	{ "{ \"a\" : 1 ,\t\"b\" : [ 1 , { \"user\" : 2 } ] }",
	  "{ \"a\" : 1 ,\t\"b\" : [ 1 , { \"user\" : 2 } ] }" },
	{ "{\"messages\":[{\"role\":\"user\",\"content\":\"user\"}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"user\"}]}" },
	{ "{\"a\":{\"user\":1}}", "{\"a\":{\"user\":1}}" },
	{ "{\"users\":2,\"use\":3,\"\":4}", "{\"users\":2,\"use\":3,\"\":4}" },
	{ "{\"user_id\":1}", "{\"user_id\":1}" },
	{ "[1,{\"user\":2}]", "[1,{\"user\":2}]" },
	{ "\"user\"", "\"user\"" },
	{ "-1.5e+10", "-1.5e+10" },
	{ "{\"metadata\":null}", "{\"metadata\":null}" },
	{ "{\"metadata\":[{\"user_id\":1}]}", "{\"metadata\":[{\"user_id\":1}]}" },
	{ "{\"x\":{\"metadata\":{\"user_id\":1}}}", "{\"x\":{\"metadata\":{\"user_id\":1}}}" },
	{ "{\"metadata\":{\"a\":{\"user_id\":1}}}", "{\"metadata\":{\"a\":{\"user_id\":1}}}" },

	/* one goes: the first, the last, between, the only one */
	{ "{\"user\":\"me\"}", "{}" },
	{ "{\"user\":\"me\",\"a\":1}", "{\"a\":1}" },
	{ "{\"a\":1,\"user\":\"me\"}", "{\"a\":1}" },
	{ "{\"a\":1,\"user\":\"me\",\"b\":2}", "{\"a\":1,\"b\":2}" },
	{ "{ \"user\" : \"me\" , \"a\" : 1 }", "{   \"a\" : 1 }" },
	{ "{\"a\":1 , \"user\":\"me\" , \"b\":2}", "{\"a\":1  , \"b\":2}" },
	{ "{\"user\":1,\"safety_identifier\":2,\"a\":3}", "{\"a\":3}" },
	{ "{\"a\":3,\"user\":1,\"safety_identifier\":2}", "{\"a\":3}" },
	{ "{\"user\":1,\"user\":2}", "{}" },

	/* whatever its value is */
	{ "{\"user\":{\"a\":[1,{\"b\":\"}\"}]},\"c\":1}", "{\"c\":1}" },
	{ "{\"user\":[[],{}],\"c\":1}", "{\"c\":1}" },
	{ "{\"user\":\"a\\\"b\\\\\",\"c\":1}", "{\"c\":1}" },
	{ "{\"user\":-0.5e3,\"c\":1}", "{\"c\":1}" },
	{ "{\"user\":null,\"c\":true}", "{\"c\":true}" },
	{ "{\"c\":1,\"user\":12}", "{\"c\":1}" },
	{ "{\"litellm_metadata\":{\"user\":1,\"metadata\":{\"user_id\":2}},\"c\":1}", "{\"c\":1}" },

	/* however its name is written */
	{ "{\"\\u0075ser\":1,\"c\":1}", "{\"c\":1}" },
	{ "{\"\\u0075\\u0073\\u0065\\u0072\":1}", "{}" },
	{ "{\"us\\u0065r\":1}", "{}" },
	{ "{\"safety\\u005fidentifier\":1}", "{}" },
	{ "{\"us\\u0165r\":1}", "{\"us\\u0165r\":1}" },
	{ "{\"user\\u0000\":1}", "{\"user\\u0000\":1}" },

	/* and in whatever case, as Go reads it */
	{ "{\"User\":1,\"uSER\":2,\"c\":3}", "{\"c\":3}" },
	{ "{\"u\\u017fer\":1}", "{}" },
	{ "{\"u\xc5\xbf"
	  "er\":1}",
	  "{}" },
	{ "{\"METADATA\":{\"User_ID\":1,\"a\":2}}", "{\"METADATA\":{\"a\":2}}" },

	/* a string where the object belongs may be read as JSON */
	{ "{\"metadata\":\"{\\\"user_id\\\":1}\"}", NULL },
	{ "{\"Metadata\":\"x\"}", NULL },
	/* two models: each would be some reader's only one */
	{ "{\"model\":\"a\",\"model\":\"b\"}", NULL },
	{ "{\"model\":\"a\",\"\\u006dodel\":\"a\"}", NULL },
	{ "{\"MODEL\":1,\"model\":\"b\"}", NULL },
	{ "{\"Model\":1}", "{\"Model\":1}" },

	/* one object below */
	{ "{\"metadata\":{\"user_id\":1,\"a\":2},\"b\":3}", "{\"metadata\":{\"a\":2},\"b\":3}" },
	{ "{\"metadata\":{\"a\":2,\"user_id\":1}}", "{\"metadata\":{\"a\":2}}" },
	{ "{\"metadata\":{\"user_id\":{\"x\":[]}}}", "{\"metadata\":{}}" },
	{ "{\"m\\u0065tadata\":{\"\\u0075ser_id\":1}}", "{\"m\\u0065tadata\":{}}" },
	{ "{\"metadata\":{\"user\":1}}", "{\"metadata\":{\"user\":1}}" },
	{ "{\"metadata\":{},\"x\":{\"user_id\":1}}", "{\"metadata\":{},\"x\":{\"user_id\":1}}" },
	{ "{\"metadata\":{\"user_id\":1},\"metadata\":{\"user_id\":2}}",
	  "{\"metadata\":{},\"metadata\":{}}" },

	/* not JSON */
	{ "{", NULL },
	{ "{\"user\"", NULL },
	{ "{\"user\":", NULL },
	{ "{\"user\":1", NULL },
	{ "{\"a\":1,}", NULL },
	{ "{,\"a\":1}", NULL },
	{ "{\"a\":1 \"user\":2}", NULL },
	{ "{\"a\" 1}", NULL },
	{ "{a:1}", NULL },
	{ "{'user':1}", NULL },
	{ "{\"a\":01}", NULL },
	{ "{\"a\":1.}", NULL },
	{ "{\"a\":.5}", NULL },
	{ "{\"a\":+1}", NULL },
	{ "{\"a\":1e}", NULL },
	{ "{\"a\":-}", NULL },
	{ "{\"a\":NaN}", NULL },
	{ "{\"a\":tru}", NULL },
	{ "{\"a\":True}", NULL },
	{ "{\"a\":\"\n\"}", NULL },
	{ "{\"a\":\"\\x\"}", NULL },
	{ "{\"a\":\"\\u12g4\"}", NULL },
	{ "{\"a\":1}}", NULL },
	{ "{\"a\":1}{\"user\":1}", NULL },
	{ "[1,]", NULL },
	{ "[1}", NULL },
	{ "\xef\xbb\xbf{\"user\":1}", NULL }, /* a byte order mark */
	{ "/**/{}", NULL },
	{ "-", NULL },
};

/* Edits in pieces of one size; NULL when refused. The caller frees it. */
static char *edit_in_pieces(const char *input, size_t len, size_t piece, char *ret_model)
{
	struct json_edit edit;
	struct buf out;
	int r = 0;

	json_edit_init(&edit, rules);
	buf_init(&out, 1 << 20);
	for (size_t at = 0; r == 0 && at < len; at += piece)
		r = json_edit_push(
			&edit, (struct bytes){ input + at, len - at < piece ? len - at : piece },
			&out);
	if (r == 0)
		r = json_edit_finish(&edit);
	if (ret_model)
		snprintf(ret_model, JSON_EDIT_MODEL_MAX + 1, "%.*s", (int)edit.model_len,
			 edit.model);
	if (r < 0) {
		buf_fini(&out);
		return NULL;
	}
	return buf_take(&out, NULL);
}

static void each_row_however_it_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].input);

		for (size_t piece = 1; piece <= len + 1; piece++) {
			char *got = edit_in_pieces(rows[i].input, len, piece, NULL);

			if (!got != !rows[i].expected ||
			    (got && strcmp(got, rows[i].expected) != 0))
				fail_msg("%s gave %s, not %s", rows[i].input, got,
					 rows[i].expected);
			free(got);
		}
	}
}

static void the_model_is_read_on_the_way(void **state)
{
	static const struct {
		const char *input, *model;
	} cases[] = {
		{ "{\"model\":\"gpt-4o\",\"messages\":[]}", "gpt-4o" },
		{ "{\"messages\":[{\"model\":\"no\"}],\"model\":\"yes\"}", "yes" },
		{ "{\"m\\u006fdel\":\"a\"}", "a" },
		{ "{\"metadata\":{\"model\":\"no\"}}", "" },
		{ "{\"model\":{\"x\":\"no\"}}", "" },
		{ "{}", "" },
	};
	char model[JSON_EDIT_MODEL_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		free(edit_in_pieces(cases[i].input, strlen(cases[i].input), 3, model));
		assert_string_equal(model, cases[i].model);
	}
}

static void limits_are_refusals(void **state)
{
	static char text[100000];
	size_t len;

	(void)state;
	/* Nesting up to the limit, and one more. */
	for (size_t depth = JSON_EDIT_DEPTH_MAX; depth <= JSON_EDIT_DEPTH_MAX + 1; depth++) {
		char *got;

		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		got = edit_in_pieces(text, 2 * depth, 1000, NULL);
		assert_int_equal(got != NULL, depth == JSON_EDIT_DEPTH_MAX);
		free(got);
	}
	/* White space between members is held, and so is limited; elsewhere it is not. */
	len = (size_t)snprintf(text, sizeof(text), "{\"a\":1,%900s\"b\":2}", "");
	free(edit_in_pieces(text, len, 7, NULL));
	len = (size_t)snprintf(text, sizeof(text), "{\"a\":1,%2000s\"b\":2}", "");
	assert_null(edit_in_pieces(text, len, 7, NULL));
	len = (size_t)snprintf(text, sizeof(text), "{%20000s\"a\":%20000s1}%20000s", "", "", "");
	{
		char *got = edit_in_pieces(text, len, 7, NULL);

		assert_string_equal(got, text);
		free(got);
	}
	/* A long key cannot be one that is removed, but it is refused rather than guessed at. */
	len = (size_t)snprintf(text, sizeof(text), "{\"%02000d\":1}", 0);
	assert_null(edit_in_pieces(text, len, 7, NULL));
}

int main(void)
{
	RUN_TESTS(TEST(each_row_however_it_is_cut), TEST(the_model_is_read_on_the_way),
		  TEST(limits_are_refusals));
}
