/* SPDX-License-Identifier: MIT */
/* Run ids: which are accepted, and how new ones are written (INV-RUN-IDENTITY). */
#include "unit.h"

#include "base/runid.h"

static void only_the_small_alphabet_is_valid(void **state)
{
	char longest[RUNID_MAX + 2] = { 0 };

	(void)state;
	assert_true(runid_is_valid("a"));
	assert_true(runid_is_valid("task-123_4.5"));
	assert_true(runid_is_valid("0"));
	memset(longest, 'x', RUNID_MAX);
	assert_true(runid_is_valid(longest));
	longest[RUNID_MAX] = 'x';
	assert_false(runid_is_valid(longest));
	assert_false(runid_is_valid(""));
	assert_false(runid_is_valid("."));
	assert_false(runid_is_valid("-a"));
	assert_false(runid_is_valid("_a"));
	/* Every other byte, anywhere: separators of tokens, headers and paths among them. */
	for (int c = 1; c < 256; c++) {
		char id[] = { 'a', (char)c, 'b', '\0' };
		int is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		assert_int_equal(runid_is_valid(id),
				 is_letter || (c >= '0' && c <= '9') || strchr(".-_", c) != NULL);
	}
}

static void ulids_have_the_published_form(void **state)
{
	static const unsigned char zeros[10],
		ones[10] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	char id[RUNID_ULID_LEN + 1];

	(void)state;
	runid_format(0, zeros, id);
	assert_string_equal(id, "00000000000000000000000000");
	runid_format((UINT64_C(1) << 48) - 1, ones, id);
	assert_string_equal(id, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
	/* The time of the specification's example: 1469918176385 is 01ARYZ6S41. */
	runid_format(1469918176385, zeros, id);
	assert_string_equal(id, "01ARYZ6S410000000000000000");
	assert_true(runid_is_valid(id));
}

static void later_ids_sort_later(void **state)
{
	static const unsigned char zeros[10],
		ones[10] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	char before[RUNID_ULID_LEN + 1], after[RUNID_ULID_LEN + 1];

	(void)state;
	for (uint64_t ms = 1; ms < UINT64_C(1) << 47; ms = ms * 3 + 1) {
		runid_format(ms - 1, ones, before);
		runid_format(ms, zeros, after);
		assert_true(strcmp(before, after) < 0);
	}
}

int main(void)
{
	RUN_TESTS(TEST(only_the_small_alphabet_is_valid), TEST(ulids_have_the_published_form),
		  TEST(later_ids_sort_later));
}
