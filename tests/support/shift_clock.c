/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the gateway: its clock is ahead of the kernel's by as many seconds as the file
 * that SHIFT_CLOCK names begins with. So half an hour passes when a test says so. Where the file
 * has another number, that one is the time of day, which stands still.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shift {
	int64_t ahead, time_of_day;
};

static const volatile struct shift *shift;

__attribute__((constructor)) static void open_file(void)
{
	const char *path = getenv("SHIFT_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (page != MAP_FAILED)
		shift = page; /* beyond the file's end it has zeroes */
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int r = (int)syscall(SYS_clock_gettime, clock, now);

	if (r < 0 || !shift)
		return r;
	now->tv_sec += shift->ahead;
	if (clock == CLOCK_REALTIME && shift->time_of_day > 0)
		*now = (struct timespec){ .tv_sec = shift->time_of_day };
	return r;
}
