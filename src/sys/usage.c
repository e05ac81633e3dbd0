/* SPDX-License-Identifier: MIT */
/* Resource usage, from /proc and getrusage. */
#include "sys/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "sys/fd.h"

#define STAT_MAX 1024
#define START_TIME                                                                                 \
	22 /* the field of /proc/self/stat, from 1: in ticks since the machine's start             \
	    */

static int count_fds(uint64_t *ret_count)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	uint64_t count = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			count++;
	closedir(dir);
	*ret_count = count - 1; /* without the directory itself */
	return 0;
}

/* The program's name is in parentheses and may have any byte: fields are counted from its end. */
static int read_start_time(uint64_t *ret_time_ms)
{
	uint64_t ticks, uptime_ms = clock_ms(CLOCK_BOOTTIME), age_ms;
	char text[STAT_MAX], *at;
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/stat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	at = strrchr(text, ')');
	for (int field = 2; at && field < START_TIME; field++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, "%" SCNu64, &ticks) != 1)
		return -EPROTO;
	ticks = ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	age_ms = uptime_ms > ticks ? uptime_ms - ticks : 0;
	*ret_time_ms = clock_ms(CLOCK_REALTIME) - age_ms;
	return 0;
}

static int read_resident(uint64_t *ret_bytes)
{
	char text[STAT_MAX];
	uint64_t size, resident;
	ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/statm", text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		return -EPROTO;
	*ret_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static uint64_t us_of(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

int usage_read(struct usage *ret_usage)
{
	struct usage usage = { 0 };
	struct rusage used;
	struct rlimit files;
	int r = read_start_time(&usage.start_time_ms);

	if (r == 0)
		r = read_resident(&usage.resident_bytes);
	if (r == 0)
		r = count_fds(&usage.open_fds);
	if (r < 0)
		return r;
	if (getrusage(RUSAGE_SELF, &used) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	usage.cpu_us = us_of(&used.ru_utime) + us_of(&used.ru_stime);
	usage.max_fds = files.rlim_cur;
	*ret_usage = usage;
	return 0;
}
