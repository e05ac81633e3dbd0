/* SPDX-License-Identifier: MIT */
/* Mount system calls; glibc of Debian 12 has no wrappers for most of them. */
#include "sys/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

/* From <sys/mount.h>, which cannot be included beside <linux/mount.h>. */
#define PROPAGATION_PRIVATE (1UL << 18)
#define UMOUNT_DETACH       2

static int or_errno(long result)
{
	return result < 0 ? -errno : (int)result;
}

int mount_clone(int dir_fd, const char *path)
{
	unsigned int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_NO_AUTOMOUNT;

	if (!*path)
		flags |= AT_EMPTY_PATH;
	return or_errno(syscall(SYS_open_tree, dir_fd, path, flags));
}

static int configure(int fs_fd, const struct mount_option *option)
{
	unsigned int command = option->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	return or_errno(syscall(SYS_fsconfig, fs_fd, command, option->key, option->value, 0));
}

int mount_new(const char *type, const struct mount_option *options, uint64_t attributes)
{
	_cleanup_close_ int fs_fd = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	for (; options && options->key; options++) {
		r = configure(fs_fd, options);
		if (r < 0)
			return r;
	}
	if (syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	return or_errno(syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, (unsigned int)attributes));
}

static int set_attributes(int fd, const char *path, const struct mount_attr *attr, bool recursive)
{
	unsigned int flags = (recursive ? AT_RECURSIVE : 0) | (*path ? 0 : AT_EMPTY_PATH);

	return or_errno(syscall(SYS_mount_setattr, fd, path, flags, attr, sizeof(*attr)));
}

int mount_restrict(int fd, uint64_t attributes, bool recursive)
{
	struct mount_attr attr = {
		.attr_set = attributes,
		.propagation = PROPAGATION_PRIVATE,
	};

	return set_attributes(fd, "", &attr, recursive);
}

int mount_idmap(int fd, int userns_fd)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (uint64_t)userns_fd,
	};

	return set_attributes(fd, "", &attr, true);
}

int mount_attach(int tree_fd, int target_fd)
{
	return or_errno(syscall(SYS_move_mount, tree_fd, "", target_fd, "",
				MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

int mount_make_private(void)
{
	struct mount_attr attr = { .propagation = PROPAGATION_PRIVATE };

	return set_attributes(AT_FDCWD, "/", &attr, true);
}

int mount_pivot(int root_fd)
{
	if (fchdir(root_fd) < 0)
		return -errno;
	/* The old root ends up on top of the new one, at the same place. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	if (syscall(SYS_umount2, ".", UMOUNT_DETACH) < 0)
		return -errno;
	return or_errno(chdir("/"));
}

int mount_open_beneath(int root_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return or_errno(syscall(SYS_openat2, root_fd, path, &how, sizeof(how)));
}
