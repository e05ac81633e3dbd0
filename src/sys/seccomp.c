/* SPDX-License-Identifier: MIT */
/* seccomp by system call. */
#include "sys/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

int seccomp_load(const struct sock_filter *filter, size_t len)
{
	struct sock_fprog program = {
		.len = (unsigned short)len,
		.filter = (struct sock_filter *)filter, /* read only, whatever the type says */
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return -errno;
	return 0;
}
