/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the gateway: its clock is ahead of the kernel's by as many seconds as the file
 * that SHIFT_CLOCK names begins with. So half an hour passes when a test says so.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void open_file(void)
{
	const char *path = getenv("SHIFT_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (page != MAP_FAILED)
		ahead = page;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int r = (int)syscall(SYS_clock_gettime, clock, now);

	if (r == 0 && ahead)
		now->tv_sec += *ahead;
	return r;
}
