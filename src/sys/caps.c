/* SPDX-License-Identifier: MIT */
/* Dropping every capability. */
#include "sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int caps_drop_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	/* The kernel knows how many there are: the first one it does not know is EINVAL. */
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0;)
		cap++;
	if (errno != EINVAL)
		return -errno;
	if (syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}
