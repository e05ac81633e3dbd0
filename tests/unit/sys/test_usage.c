/* SPDX-License-Identifier: MIT */
/* What a process uses: as large as it must be, and it moves when more is used. */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "sys/usage.h"

static void what_is_used_is_seen(void **state)
{
	const size_t size = (size_t)64 << 20;
	struct usage before, after;
	uint64_t until;
	char *memory;
	int fd;

	(void)state;
	assert_int_equal(usage_read(&before), 0);
	memory = malloc(size);
	assert_non_null(memory);
	memset(memory, 1, size);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (until = clock_now_ms() + 30; clock_now_ms() < until;)
		;
	assert_int_equal(usage_read(&after), 0);
	assert_true(after.resident_bytes >= before.resident_bytes + size / 2);
	assert_int_equal(after.open_fds, before.open_fds + 1);
	assert_true(after.cpu_us > before.cpu_us);
	assert_true(after.start_time_ms <= clock_ms(CLOCK_REALTIME));
	assert_true(after.start_time_ms + 3600000 > clock_ms(CLOCK_REALTIME));
	close(fd);
	free(memory);
}

/* The name is the program's own choice, and stands in the middle of the line. */
static void a_name_with_parentheses_does_not_matter(void **state)
{
	struct usage usage, plain;

	(void)state;
	assert_int_equal(usage_read(&plain), 0);
	assert_int_equal(prctl(PR_SET_NAME, "a) R 1 (2) 3 4"), 0);
	assert_int_equal(usage_read(&usage), 0);
	assert_int_equal(prctl(PR_SET_NAME, "test_usage"), 0);
	assert_true(usage.start_time_ms + 1000 > plain.start_time_ms &&
		    usage.start_time_ms < plain.start_time_ms + 1000);
}

int main(void)
{
	RUN_TESTS(TEST(what_is_used_is_seen), TEST(a_name_with_parentheses_does_not_matter));
}
