/* SPDX-License-Identifier: MIT */
/* Resource limits. */
#include "sys/rlimit.h"

#include <errno.h>
#include <sys/resource.h>

int rlimit_lower(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max > value)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

uint64_t rlimit_get(int resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

void rlimit_raise(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0 || limit.rlim_cur >= value)
		return;
	limit.rlim_cur = limit.rlim_max < value ? limit.rlim_max : value;
	if (setrlimit(resource, &limit) < 0)
		return; /* then there is room for fewer */
}
