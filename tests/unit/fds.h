/* SPDX-License-Identifier: MIT */
/* How many descriptors this program has open. */
#ifndef TESTS_FDS_H
#define TESTS_FDS_H

#include "unit.h"

#include <dirent.h>

static inline int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

#endif
