/* SPDX-License-Identifier: MIT */
/* An arena gives aligned, zeroed memory of any size. */
#include "unit.h"

#include "base/arena.h"

static void memory_is_aligned_and_zeroed(void **state)
{
	struct arena arena = { NULL };

	(void)state;
	for (size_t size = 0; size < 70000; size = size * 2 + 1) {
		unsigned char *p = arena_alloc(&arena, size);

		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, size);
	}
	arena_fini(&arena);
	assert_null(arena.head);
}

static void texts_are_copied(void **state)
{
	struct arena arena = { NULL };
	char text[] = "abc";
	char *copy = arena_strdup(&arena, text);

	(void)state;
	text[0] = 'x';
	assert_string_equal(copy, "abc");
	assert_string_equal(arena_printf(&arena, "%d-%s", 7, copy), "7-abc");
	arena_fini(&arena);
}

int main(void)
{
	RUN_TESTS(TEST(memory_is_aligned_and_zeroed), TEST(texts_are_copied));
}
