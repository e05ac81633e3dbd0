/* SPDX-License-Identifier: MIT */
/* Error texts: one line, bounded, with a hint. */
#include "unit.h"

#include "base/err.h"

static void set_adds_the_systems_words(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(err_set(&err, ENOENT, "open '%s'", "x"), -ENOENT);
	assert_string_equal(err.text, "open 'x': No such file or directory");
	err_hint(&err, "make %s", "it");
	assert_string_equal(err.text, "open 'x': No such file or directory; make it");
	assert_int_equal(err.code, ENOENT);
}

static void say_stands_alone(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(err_say(&err, EINVAL, "no"), -EINVAL);
	assert_string_equal(err.text, "no");
}

static void long_texts_are_cut(void **state)
{
	char text[2 * ERR_TEXT_MAX];
	struct err err;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_set(&err, EIO, "%s", text);
	err_hint(&err, "%s", text);
	assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
}

static void nobody_need_listen(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, EPERM, "x"), -EPERM);
	assert_int_equal(err_say(NULL, EPERM, "x"), -EPERM);
	err_hint(NULL, "x");
}

int main(void)
{
	RUN_TESTS(TEST(set_adds_the_systems_words), TEST(say_stands_alone),
		  TEST(long_texts_are_cut), TEST(nobody_need_listen));
}
