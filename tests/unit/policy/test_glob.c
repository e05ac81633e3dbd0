/* SPDX-License-Identifier: MIT */
/* Path globs: what they match, also against a slow matcher, and how long that takes. */
#include "unit.h"

#include "base/clock.h"
#include "policy/glob.h"

static struct glob_path path;

static bool matches(const char *text, bool is_loose, struct bytes target)
{
	struct arena arena = { 0 };
	struct glob glob;
	const char *why = glob_parse(&arena, bytes_of(text), is_loose, &glob);
	bool is_match;

	if (why)
		fail_msg("'%s' %s", text, why);
	glob_path_read(target, &path);
	is_match = glob_matches(&glob, &path);
	arena_fini(&arena);
	return is_match;
}

struct row {
	const char *glob, *path;
	bool is_match, is_loose_match;
};

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bytes target = bytes_of(rows[i].path);

		if (matches(rows[i].glob, false, target) != rows[i].is_match ||
		    matches(rows[i].glob, true, target) != rows[i].is_loose_match)
			fail_msg("%s and %s", rows[i].glob, rows[i].path);
	}
}

static void stars_stay_within_segments(void **state)
{
	static const struct row rows[] = {
		{ "/", "/", true, true },
		{ "/", "/a", false, false },
		{ "/gists", "/gists", true, true },
		{ "/gists", "/gist", false, false },
		{ "/gists", "/gistsx", false, false },
		{ "/gists", "/gists/x", false, false },
		{ "/*", "/", true, true },
		{ "/*", "/a", true, true },
		{ "/*", "/a/b", false, false },
		{ "/a/*/c", "/a/b/c", true, true },
		{ "/a/*/c", "/a/b/b/c", false, false },
		{ "/a/*", "/a", false, true },
		{ "/a*c", "/abc", true, true },
		{ "/a*c", "/ac", true, true },
		{ "/a*c", "/a/c", false, false },
		{ "/a*b*c", "/axbxbxc", true, true },
		{ "/a*b*c", "/axbx/c", false, false },
		{ "/a/**", "/a/b/c/d", true, true },
		{ "/a/**", "/a/", true, true },
		{ "/a/**", "/a", false, true },
		{ "/a/**", "/ab", false, false },
		{ "/a**", "/a/b", true, true },
		{ "/a**", "/ab", true, true },
		{ "/**/x", "/a/b/x", true, true },
		{ "/**/x", "/x", false, false },
		{ "/**x", "/x", true, true },
		{ "/**/*.js", "/a/b/c.js", true, true },
		{ "/**/*.js", "/a/b/c.jsx", false, false },
		{ "/***", "/a/b", true, true },
		{ "/**/a/*/b", "/a/x/y/a/z/b", true, true },
		{ "/**/a/*/b", "/a/x/y/a/z/w/b", false, false },
		{ "/%2A", "/*", true, true },
		{ "/%2a", "/x", false, false },
	};

	(void)state;
	check_rows(rows, ARRAY_LEN(rows));
}

static void spellings_of_one_path_are_one_path(void **state)
{
	static const struct row rows[] = {
		{ "/gists", "/%67ists", true, true },
		{ "/gists", "/%67%69%73%74%73", true, true },
		{ "/%67ists", "/gists", true, true },
		{ "/b%C3%BCcher", "/b%c3%bccher", true, true },
		{ "/gists", "/gists/", false, true },
		{ "/gists", "/GISTS", false, true },
		{ "/GISTS", "/gists", false, true },
		{ "/gists", "/%47ists", false, true },
		{ "/gists", "/gists;a=b", false, true },
		{ "/gists", "/gists;a=b;c/", false, true },
		{ "/a/b", "/a;x/b;y", false, true },
		{ "/a/b", "/a%3bx/b", false, false },
		{ "/gists/", "/gists", false, true },
	};

	(void)state;
	check_rows(rows, ARRAY_LEN(rows));
}

static void paths_that_are_not_plain_match_nothing(void **state)
{
	static const char *const rows[] = {
		"",       "*",        "a",        "//",       "/a/../b", "/a/%2e%2e/b", "/a%2fb",
		"/a%5cb", "/a\\b",    "/a%00",    "/a%0a",    "/a%7F",   "/a%",         "/a%2",
		"/a%zz",  "/a%u0067", "/a%c0%af", "/a%C1%9C", "/a%252e", "/a/..;/b",    "/a%-1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_false(matches("/**", false, bytes_of(rows[i])));
		assert_false(matches("/**", true, bytes_of(rows[i])));
		assert_false(path.is_plain);
	}
}

static void bad_globs_are_explained(void **state)
{
	static const struct {
		const char *text, *why;
		bool is_loose;
	} rows[] = {
		{ "/a?b", "query", false },      { "/a#b", "fragment", false },
		{ "/a b", "characters", false }, { "/a/../b", "dot", false },
		{ "/a//b", "empty", false },     { "/a%2fb", "encoded slashes", false },
		{ "/a%zz", "escape", false },    { "/a%0a", "control", false },
		{ "/a;b", "parameters", true },  { "", "characters", false },
	};
	struct arena arena = { 0 };
	struct glob glob;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *why = glob_parse(&arena, bytes_of(rows[i].text), rows[i].is_loose,
					     &glob);

		if (!why || !strstr(why, rows[i].why))
			fail_msg("'%s' %s", rows[i].text, why ? why : "was accepted");
	}
	arena_fini(&arena);
}

/* What a glob means, in the fewest words. */
static bool means(const char *glob, const char *text)
{
	if (glob[0] == '*' && glob[1] == '*')
		return means(glob + 2, text) || (*text && means(glob, text + 1));
	if (glob[0] == '*')
		return means(glob + 1, text) || (*text && *text != '/' && means(glob, text + 1));
	return *glob == *text && (!*glob || means(glob + 1, text + 1));
}

static void random_globs_mean_what_they_say(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (size_t i = 0; i < 200000; i++) {
		char glob[16] = "/a", text[16] = "/a";

		for (size_t k = 2; k < 10; k++) {
			random = random * 1664525 + 1013904223;
			glob[k] = "a/**bc*\0"[random >> 29];
			text[k] = "a/bcaba\0"[random >> 26 & 7];
		}
		glob_path_read(bytes_of(text), &path);
		if (!path.is_plain || strstr(glob, "//") || strstr(glob, "***"))
			continue;
		if (matches(glob, false, bytes_of(text)) != means(glob, text))
			fail_msg("%s and %s", glob, text);
	}
}

static void no_path_takes_long(void **state)
{
	static const char *const globs[] = {
		"/**a*a*a*a*a*a*b",
		"/**a**a**a**a**b",
		"/*a*a*a*a*a*a*a*b",
		"/**/a/**/a/*/a/b",
	};
	static char text[HTTP_TARGET_MAX];
	uint64_t begin = clock_now_ms();

	(void)state;
	for (size_t kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < sizeof(text); i++)
			text[i] = i == 0 || (kind == 1 && i % 2 == 0) ? '/' : 'a';
		for (size_t i = 0; i < ARRAY_LEN(globs); i++)
			for (size_t turn = 0; turn < 5; turn++)
				assert_false(matches(globs[i], false,
						     (struct bytes){ text, sizeof(text) }));
	}
	assert_in_range(clock_now_ms() - begin, 0, 2000); /* milliseconds in fact */
	text[0] = '/';
	glob_path_read((struct bytes){ text, sizeof(text) + 1 }, &path);
	assert_false(path.is_plain);
}

int main(void)
{
	RUN_TESTS(TEST(stars_stay_within_segments), TEST(spellings_of_one_path_are_one_path),
		  TEST(paths_that_are_not_plain_match_nothing), TEST(bad_globs_are_explained),
		  TEST(random_globs_mean_what_they_say), TEST(no_path_takes_long));
}
