/* SPDX-License-Identifier: MIT */
/* Hiding a process. */
#include "sys/process.h"

#include <errno.h>
#include <sys/prctl.h>

int process_hide(void)
{
	if (PROCESS_IS_SANITIZED)
		return 0;
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}
