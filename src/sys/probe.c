/* SPDX-License-Identifier: MIT */
/* Probes of kernel features, each in a child. */
#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sys/mount.h"
#include "sys/nft.h"
#include "sys/userns.h"

#define OTHER_NAMESPACES                                                                           \
	(CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* Runs `attempt` in a child; its result, which is 0 or -errno, is the child's status. */
static int in_child(int (*attempt)(void))
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(-attempt());
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EFAULT;
}

static int enter_userns(int flags)
{
	struct userns_map map = { geteuid(), geteuid(), getegid(), getegid() };

	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -errno;
	return userns_write_map(0, &map, 1);
}

static int try_userns(void)
{
	return enter_userns(0);
}

int probe_user_namespace(void)
{
	return in_child(try_userns);
}

static int try_mount(void)
{
	int r = enter_userns(CLONE_NEWNS);

	return r < 0 ? r : mount_make_private();
}

int probe_mount_in_userns(void)
{
	return in_child(try_mount);
}

static int try_others(void)
{
	return enter_userns(CLONE_NEWNS | OTHER_NAMESPACES);
}

int probe_other_namespaces(void)
{
	return in_child(try_others);
}

static int mount_proc(void)
{
	int fd = mount_new("proc", NULL, 0);

	return fd < 0 ? fd : 0;
}

static int try_proc(void)
{
	int r = enter_userns(CLONE_NEWNS | CLONE_NEWPID);

	/* A /proc belongs to a PID namespace, and only a child is in the new one. */
	return r < 0 ? r : in_child(mount_proc);
}

int probe_proc(void)
{
	return in_child(try_proc);
}

static int try_overlayfs(void)
{
	static const struct mount_option options[] = {
		{ "lowerdir", "l" },
		{ "upperdir", "u" },
		{ "workdir", "w" },
		{ NULL, NULL },
	};
	_cleanup_close_ int root_fd = -1, point_fd = -1, fd = -1;
	int r = enter_userns(CLONE_NEWNS);

	if (r == 0)
		r = mount_make_private();
	if (r < 0)
		return r;
	root_fd = mount_new("tmpfs", NULL, 0);
	if (root_fd < 0)
		return root_fd;
	point_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = mount_attach(root_fd, point_fd);
	if (r < 0)
		return r;
	if (fchdir(root_fd) < 0 || mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 ||
	    mkdir("w", 0755) < 0)
		return -errno;
	fd = mount_new("overlay", options, 0);
	return fd < 0 ? fd : 0;
}

int probe_overlayfs(void)
{
	return in_child(try_overlayfs);
}

static int try_nat(void)
{
	int r = enter_userns(CLONE_NEWNET);

	return r < 0 ? r : nft_try_nat();
}

int probe_nat(void)
{
	return in_child(try_nat);
}

int probe_seccomp(void)
{
	uint32_t action = SECCOMP_RET_ERRNO;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ? -errno : 0;
}

int probe_pidfd(void)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return fd < 0 ? -errno : 0;
}

int probe_idmap(const char *path)
{
	struct userns_map map = { .outside_uid = 65534, .outside_gid = 65534 };
	_cleanup_close_ int tree_fd = mount_clone(AT_FDCWD, path);
	_cleanup_close_ int userns_fd = tree_fd < 0 ? -1 : userns_open_mapped(&map);

	if (tree_fd < 0 || userns_fd < 0)
		return tree_fd < 0 ? tree_fd : userns_fd;
	return mount_idmap(tree_fd, userns_fd);
}
