/* SPDX-License-Identifier: MIT */
/* Paths as text. */
#include "unit.h"

#include "sandbox/paths.h"

static void clean_paths(void **state)
{
	static const char *const clean[] = { "/a", "/a/b", "/.a", "/a..b", "/..." };
	static const char *const other[] = { "",   "/",   "a",    "/a/",     "//a", "/a//b",
					     "/.", "/..", "/a/.", "/a/../b", "./a", "/a/.." };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clean); i++)
		assert_true(path_is_clean(clean[i]));
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		assert_false(path_is_clean(other[i]));
}

static void within_stops_at_components(void **state)
{
	(void)state;
	assert_true(path_is_within("/a", "/a"));
	assert_true(path_is_within("/a/b", "/a"));
	assert_true(path_is_within("/anything", "/"));
	assert_false(path_is_within("/ab", "/a"));
	assert_false(path_is_within("/a", "/a/b"));
}

int main(void)
{
	RUN_TESTS(TEST(clean_paths), TEST(within_stops_at_components));
}
