/* SPDX-License-Identifier: MIT */
/* UTF-8: what is a sequence, and where a text may be cut. */
#include "unit.h"

#include "base/utf8.h"

struct row {
	const char *bytes;
	size_t len;
	size_t sequence; /* of utf8_sequence */
	size_t cut;      /* of utf8_cut */
};

static const struct row rows[] = {
	{ "", 0, 0, 0 },
	{ "a", 1, 1, 1 },
	{ "\0", 1, 1, 1 },
	{ "\x7f", 1, 1, 1 },
	{ "\xc3\xa4", 2, 2, 2 },
	{ "\xc3", 1, 0, 0 },
	{ "\xe2\x82\xac", 3, 3, 3 },
	{ "\xe2\x82", 2, 0, 0 },
	{ "\xe2", 1, 0, 0 },
	{ "\xf0\x9f\x98\x80", 4, 4, 4 },
	{ "\xf0\x9f\x98", 3, 0, 0 },
	{ "\xf4\x8f\xbf\xbf", 4, 4, 4 },
	{ "\xf4\x90\x80\x80", 4, 0, 4 }, /* above U+10FFFF: not UTF-8, left alone */
	{ "\xc0\xaf", 2, 0, 2 },         /* overlong */
	{ "\xe0\x80\x80", 3, 0, 3 },     /* overlong */
	{ "\xed\xa0\x80", 3, 0, 3 },     /* a surrogate */
	{ "\x80", 1, 0, 1 },
	{ "\xff", 1, 0, 1 },
	{ "ab\xe2\x82", 4, 1, 2 },
	{ "ab\x82\x82\x82\x82", 6, 1, 6 },
	{ "\xe2(", 2, 0, 2 },
};

static void each_row(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(utf8_sequence(rows[i].bytes, rows[i].len), rows[i].sequence);
		assert_int_equal(utf8_cut(rows[i].bytes, rows[i].len), rows[i].cut);
	}
}

/* Cutting a valid text anywhere leaves a valid text, at most three bytes shorter. */
static void every_cut_is_valid(void **state)
{
	static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		size_t cut = utf8_cut(text, len), at = 0;

		assert_true(cut <= len && len - cut <= 3);
		while (at < cut) {
			size_t n = utf8_sequence(text + at, cut - at);

			assert_int_not_equal(n, 0);
			at += n;
		}
		assert_int_equal(at, cut);
	}
}

int main(void)
{
	RUN_TESTS(TEST(each_row), TEST(every_cut_is_valid));
}
