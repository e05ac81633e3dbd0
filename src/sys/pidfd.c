/* SPDX-License-Identifier: MIT */
/* Process descriptors. */
#include "sys/pidfd.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

pid_t pidfd_clone(uint64_t namespaces, int cgroup_fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = namespaces | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
	};
	long pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	return pid < 0 ? -errno : (pid_t)pid;
}

int pidfd_kill(int pidfd, int signal)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) < 0)
		return -errno;
	return 0;
}

int pidfd_reap(int pidfd)
{
	siginfo_t info = { 0 };

	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	if (info.si_code == CLD_EXITED)
		return (info.si_status & 0xff) << 8;
	return info.si_status & 0x7f;
}

int pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}
