/* SPDX-License-Identifier: MIT */
/* Placeholders: of the value's length and shape, and not the value. */
#include "unit.h"

#include "keeper/form.h"
#include "keeper/placeholder.h"

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static void the_shape_stays(void **state)
{
	static const struct {
		const char *value, *prefix;
	} rows[] = {
		{ "sk-ant-api03-abcDEF0123456789", "sk-ant-api03-" },
		{ "sk-proj-abcDEF0123456789", "sk-proj-" },
		{ "sk-abcDEF0123456789", "sk-" },
		{ "ghp_abcDEF0123456789abcDEF", "ghp_" },
		{ "github_pat_abcDEF0123456789", "github_pat_" },
		{ "xoxb-123456789012-abcdefabcdef", "xoxb-" },
		{ "AKIAIOSFODNN7EXAMPLE", "AKIA" },
		{ "123e4567-e89b-12d3-a456-426614174000", "" },
		{ "abcdefgh", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes value = bytes_of(rows[i].value);
		size_t prefix = strlen(rows[i].prefix), changed = 0;
		char text[64], other[64];

		assert_int_equal(placeholder_make(value, text), 0);
		assert_int_equal(placeholder_make(value, other), 0);
		assert_string_not_equal(text, other);
		assert_string_not_equal(text, value.data);
		assert_int_equal(strlen(text), value.len);
		assert_memory_equal(text, rows[i].prefix, prefix);
		for (size_t j = prefix; j < value.len; j++) {
			assert_true(is_alnum(text[j]) || text[j] == value.data[j]);
			assert_int_equal(is_alnum(text[j]), is_alnum(value.data[j]));
			changed += text[j] != value.data[j];
		}
		assert_true(changed >= 4);
	}
}

/* Too little would be random otherwise. */
static void what_has_few_letters_keeps_less(void **state)
{
	static const char *const values[] = { "sk-12345", "!!!!!!!!!!!!", "a-b-c-d-e-f-g-",
					      "sk-proj-1234" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct bytes value = bytes_of(values[i]);
		size_t count = 0;
		char text[64];

		assert_int_equal(placeholder_make(value, text), 0);
		assert_int_equal(strlen(text), value.len);
		for (size_t j = 0; j < value.len; j++)
			count += is_alnum(text[j]) != 0;
		assert_true(count >= 8);
	}
}

static void short_values_have_none(void **state)
{
	char text[8];

	(void)state;
	assert_int_equal(placeholder_make(BYTES("1234567"), text), -EINVAL);
	assert_int_equal(placeholder_make(BYTES(""), text), -EINVAL);
}

static void every_form_is_as_long_as_the_value_s(void **state)
{
	struct bytes value = BYTES("postgres://user:p\"ss/w\\rd+1&2@h\xc3\xa9st:5432/db?a=b\n");
	char text[64], a[FORM_SIZE(64)], b[FORM_SIZE(64)];

	(void)state;
	assert_int_equal(placeholder_make(value, text), 0);
	for (size_t form = 0; form < form_count(); form++)
		if (form_kind(form) != FORM_BASE64)
			assert_int_equal(form_write(form, value, a),
					 form_write(form, (struct bytes){ text, value.len }, b));
}

static void marks_are_filled(void **state)
{
	static const struct {
		const char *text, *before, *after;
	} rows[] = { { "a<random>b", "a", "b" }, { "<random>", "", "" }, { "a<random>", "a", "" } };
	char text[64], other[64];

	(void)state;
	assert_int_equal(placeholder_fill("as it is", "<random>", text), 0);
	assert_string_equal(text, "as it is");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t before = strlen(rows[i].before);

		assert_int_equal(placeholder_fill(rows[i].text, "<random>", text), 0);
		assert_int_equal(placeholder_fill(rows[i].text, "<random>", other), 0);
		assert_string_not_equal(text, other);
		assert_memory_equal(text, rows[i].before, before);
		for (size_t j = 0; j < PLACEHOLDER_RANDOM; j++)
			assert_true(is_alnum(text[before + j]));
		assert_string_equal(text + before + PLACEHOLDER_RANDOM, rows[i].after);
	}
}

int main(void)
{
	RUN_TESTS(TEST(the_shape_stays), TEST(what_has_few_letters_keeps_less),
		  TEST(short_values_have_none), TEST(every_form_is_as_long_as_the_value_s),
		  TEST(marks_are_filled));
}
