/* SPDX-License-Identifier: MIT */
/* A buffer grows, stops at its maximum, and hands its bytes over. */
#include "unit.h"

#include "base/buf.h"

static void stops_at_the_maximum(void **state)
{
	struct buf buf;

	(void)state;
	buf_init(&buf, 5);
	assert_int_equal(buf_add(&buf, "abc", 3), 3);
	assert_int_equal(buf_add(&buf, "defg", 4), 2);
	assert_int_equal(buf_add(&buf, "h", 1), 0);
	assert_string_equal(buf.data, "abcde");
	buf_fini(&buf);
}

static void grows(void **state)
{
	struct buf buf;

	(void)state;
	buf_init(&buf, 1 << 20);
	for (int i = 0; i < 100000; i++)
		buf_add(&buf, "x", 1);
	assert_int_equal(buf.len, 100000);
	assert_int_equal(buf.data[99999], 'x');
	assert_int_equal(buf.data[100000], '\0');
	buf_fini(&buf);
}

static void take_is_never_null(void **state)
{
	struct buf buf;
	size_t len = 1;
	char *bytes;

	(void)state;
	buf_init(&buf, 10);
	bytes = buf_take(&buf, &len);
	assert_non_null(bytes);
	assert_int_equal(len, 0);
	assert_string_equal(bytes, "");
	free(bytes);
	assert_int_equal(buf_add(&buf, "again", 5), 5);
	buf_fini(&buf);
}

int main(void)
{
	RUN_TESTS(TEST(stops_at_the_maximum), TEST(grows), TEST(take_is_never_null));
}
