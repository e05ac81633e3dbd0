/* SPDX-License-Identifier: MIT */
/* The forms of a text, as the encoders of the world write them. */
#include <stdlib.h>

#include "unit.h"

#include "keeper/form.h"

static bool has_form(struct bytes text, enum form_kind kind, const char *expected)
{
	char written[FORM_SIZE(256)];

	for (size_t form = 0; form < form_count(); form++) {
		size_t len = form_write(form, text, written);

		assert_true(len <= FORM_SIZE(text.len));
		if (form_kind(form) == kind &&
		    bytes_equal((struct bytes){ written, len }, bytes_of(expected)))
			return true;
	}
	return false;
}

static void every_encoder_s_form_is_there(void **state)
{
	static const struct {
		const char *text;
		enum form_kind kind;
		const char *form;
	} rows[] = {
		{ "a\"b\\c/d", FORM_RAW, "a\"b\\c/d" },
		{ "a\"b\\c/d", FORM_JSON, "a\\\"b\\\\c/d" },
		{ "a\"b\\c/d", FORM_JSON, "a\\\"b\\\\c\\/d" },
		{ "a\nb\x01", FORM_JSON, "a\\nb\\u0001" },
		{ "a<b&c", FORM_JSON, "a\\u003cb\\u0026c" },
		{ "a+b\"", FORM_JSON, "a\\u002Bb\\u0022" },
		{ "sk-a_b", FORM_JSON, "sk\\u002da\\u005fb" },
		{ "sk-a_b", FORM_JSON, "sk\\u002Da\\u005Fb" },
		{ "k\xc3\xa9y", FORM_JSON, "k\xc3\xa9y" },
		{ "k\xc3\xa9y", FORM_JSON, "k\\u00e9y" },
		{ "k\xc3\xa9/", FORM_JSON, "k\\u00e9\\/" },
		{ "k\xf0\x9f\x94\x91", FORM_JSON, "k\\ud83d\\udd11" },
		{ "k\xf0\x9f\x94\x91", FORM_JSON, "k\\uD83D\\uDD11" },
		{ "a/b+c=-_.~", FORM_PERCENT, "a%2Fb%2Bc%3D-_.~" },
		{ "a/b+c=-_.~", FORM_PERCENT, "a%2fb%2bc%3d-_.~" },
		{ "a/b+c=", FORM_PERCENT, "a%2Fb+c=" },
		{ "a!(b)*'", FORM_PERCENT, "a!(b)*'" },
		{ "a b~", FORM_PERCENT, "a+b%7E" },
		{ "a b~", FORM_PERCENT, "a%20b~" },
		{ "sk-a", FORM_PERCENT, "sk%2Da" },
		{ "sk-a", FORM_PERCENT, "sk%2da" },
		{ "sk-a", FORM_HEX, "736b2d61" },
		{ "sk-\xef", FORM_HEX, "736B2DEF" },
		{ "abc", FORM_BASE64, "YWJj" },
		{ "abcd", FORM_BASE64, "YWJjZ" },
		{ "abcd", FORM_BASE64, "YWJjZA==" },
		{ "abcd", FORM_BASE64, "YWJjZA%3D%3D" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8/Pj4+" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8_Pj4-" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8\\/Pj4+" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8%2FPj4%2B" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8%2fPj4%2b" },
		{ "?\?\?>>>", FORM_BASE64, "Pz8/Pj4\\u002B" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!has_form(bytes_of(rows[i].text), rows[i].kind, rows[i].form))
			fail_msg("no form '%s'", rows[i].form);
}

/* Whatever stands before and after: one of the forms is within its base64. */
static void it_is_in_base64_wherever_it_begins(void **state)
{
	(void)state;
	srand(1);
	for (int round = 0; round < 2000; round++) {
		char text[64], digits[128], written[FORM_SIZE(64)];
		size_t before = (size_t)rand() % 20, len = 6 + (size_t)rand() % 20, found = 0;
		size_t all = before + len + (size_t)rand() % 20, digits_len;

		for (size_t i = 0; i < all; i++)
			text[i] = (char)rand();
		digits_len = form_write_base64((struct bytes){ text, all }, digits);
		for (size_t form = 0; form < form_count(); form++) {
			size_t form_len = form_write(form, (struct bytes){ text + before, len },
						     written);

			/* All but the digits at both ends that it shares with what is around it. */
			if (form_kind(form) == FORM_BASE64 && form_len >= len * 8 / 6 - 1 &&
			    memmem(digits, digits_len, written, form_len))
				found++;
		}
		assert_true(found >= 1);
	}
}

static void base64_is_read_as_it_is_written(void **state)
{
	static const char *const wrong[] = { "A",    "AAAAA", "A===", "AA=",  "AA=A", "AA==AA==",
					     "AB==", "AAB=",  "A-_A", "AA A", "====" };
	char text[64], digits[128], again[128];
	size_t len;

	(void)state;
	srand(2);
	for (size_t size = 0; size < sizeof(text); size++) {
		size_t digits_len;

		for (size_t i = 0; i < size; i++)
			text[i] = (char)rand();
		digits_len = form_write_base64((struct bytes){ text, size }, digits);
		assert_int_equal(digits_len, (size + 2) / 3 * 4);
		assert_int_equal(
			form_read_base64((struct bytes){ digits, digits_len }, again, &len), 0);
		assert_int_equal(len, size);
		assert_memory_equal(again, text, size);
		while (digits_len > 0 && digits[digits_len - 1] == '=')
			digits_len--;
		assert_int_equal(
			form_read_base64((struct bytes){ digits, digits_len }, again, &len), 0);
		assert_int_equal(len, size);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(form_read_base64(bytes_of(wrong[i]), again, &len), -EINVAL);
}

int main(void)
{
	RUN_TESTS(TEST(every_encoder_s_form_is_there), TEST(it_is_in_base64_wherever_it_begins),
		  TEST(base64_is_read_as_it_is_written));
}
