/* SPDX-License-Identifier: MIT */
/* JSON text for every kind of value and every byte. */
#include "unit.h"

#include "base/json.h"

static void becomes(const char *bytes, size_t len, const char *expected)
{
	struct buf text;
	struct json json = { .out = &text };

	buf_init(&text, 1024);
	json_string(&json, NULL, bytes, len);
	assert_string_equal(text.data, expected);
	buf_fini(&text);
}

static void strings_are_escaped(void **state)
{
	(void)state;
	becomes("", 0, "\"\"");
	becomes("plain", 5, "\"plain\"");
	becomes("a\"b\\c", 5, "\"a\\\"b\\\\c\"");
	becomes("\n\r\t", 3, "\"\\n\\r\\t\"");
	becomes("\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\"");
	becomes("\xc3\xa4", 2, "\"\xc3\xa4\"");
	becomes("\xc2\x9b", 2, "\"\\u009b\"");
	becomes("\xff", 1, "\"\xef\xbf\xbd\"");
	becomes("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void is_cut_to(const char *bytes, size_t most, const char *expected)
{
	struct buf text;
	struct json json = { .out = &text };

	buf_init(&text, 1024);
	json_string_cut(&json, NULL, bytes, strlen(bytes), most);
	assert_string_equal(text.data, expected);
	buf_fini(&text);
}

/* What is written counts, and half a character is none. */
static void strings_are_cut(void **state)
{
	(void)state;
	is_cut_to("plain", 5, "\"plain\"");
	is_cut_to("plain", 4, "\"plai\"");
	is_cut_to("plain", 0, "\"\"");
	is_cut_to("a\"b", 3, "\"a\\\"\"");
	is_cut_to("a\"b", 2, "\"a\"");
	is_cut_to("\x1f\x1f", 12, "\"\\u001f\\u001f\"");
	is_cut_to("\x1f\x1f", 11, "\"\\u001f\"");
	is_cut_to("\xc3\xa4\xc3\xa4x", 3, "\"\xc3\xa4\"");
	is_cut_to("\xff", 2, "\"\"");
}

static void values_nest(void **state)
{
	struct buf text;
	struct json json = { .out = &text };

	(void)state;
	buf_init(&text, 1024);
	json_open(&json, NULL, '{');
	json_text(&json, "a", "x");
	json_number(&json, "b", -7);
	json_open(&json, "c", '[');
	json_bool(&json, NULL, true);
	json_open(&json, NULL, '{');
	json_close(&json, '}');
	json_close(&json, ']');
	json_bool(&json, "d", false);
	json_close(&json, '}');
	assert_string_equal(text.data, "{\"a\":\"x\",\"b\":-7,\"c\":[true,{}],\"d\":false}");
	buf_fini(&text);
}

int main(void)
{
	RUN_TESTS(TEST(strings_are_escaped), TEST(strings_are_cut), TEST(values_nest));
}
