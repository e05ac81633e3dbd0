/* SPDX-License-Identifier: MIT */
/* Words of a packet: what was added is read again, and what is none is not. */
#include "unit.h"

#include "base/words.h"

static struct bytes view(const struct buf *buf)
{
	return (struct bytes){ buf->data, buf->len };
}

static void texts_and_numbers(void **state)
{
	struct bytes words;
	struct buf buf;
	uint64_t number;

	(void)state;
	buf_init(&buf, 256);
	words_add(&buf, "one");
	words_add_number(&buf, UINT64_MAX);
	words_add(&buf, "");
	words_add(&buf, "-1");
	words = view(&buf);
	assert_string_equal(words_next(&words), "one");
	assert_true(words_next_number(&words, &number));
	assert_true(number == UINT64_MAX);
	assert_false(words_next_number(&words, &number)); /* empty */
	assert_false(words_next_number(&words, &number)); /* no number */
	assert_null(words_next(&words));
	buf_fini(&buf);
}

static void pairs(void **state)
{
	struct bytes words, name, value;
	struct buf buf;

	(void)state;
	buf_init(&buf, 256);
	words_add_pair(&buf, "runId", "r=1");
	words_add(&buf, "no pair");
	words_add_pair_number(&buf, "attempt", 7);
	words_add_pair(&buf, "run", "");
	words_add_pair(&buf, "run", "second");
	words = view(&buf);
	assert_string_equal(words_find_pair(words, "runId"), "r=1");
	assert_string_equal(words_find_pair(words, "attempt"), "7");
	assert_string_equal(words_find_pair(words, "run"), ""); /* the first */
	assert_null(words_find_pair(words, "runI"));
	assert_null(words_find_pair(words, "no pair"));
	assert_true(words_next_pair(&words, &name, &value) && name.len == 5 && value.len == 3);
	assert_true(words_next_pair(&words, &name, &value) && name.len == 7 && value.len == 1);
	assert_true(words_next_pair(&words, &name, &value) && value.len == 0);
	assert_true(words_next_pair(&words, &name, &value) && value.len == 6);
	assert_false(words_next_pair(&words, &name, &value));
	buf_fini(&buf);
}

/* A packet is somebody else's: its last word may have no end. */
static void what_has_no_end_is_no_word(void **state)
{
	struct bytes words = { "a=1\0b=2", 7 }, none = { "", 0 }, name, value;

	(void)state;
	assert_true(words_next_pair(&words, &name, &value));
	assert_false(words_next_pair(&words, &name, &value));
	assert_null(words_next(&words));
	assert_null(words_find_pair(none, "a"));
}

int main(void)
{
	RUN_TESTS(TEST(texts_and_numbers), TEST(pairs), TEST(what_has_no_end_is_no_word));
}
