/* SPDX-License-Identifier: MIT */
/* Landlock by system call. */
#include "sys/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Newer than the headers of Debian 12. */
#define ACCESS_REFER     (1ULL << 13)
#define ACCESS_TRUNCATE  (1ULL << 14)
#define ACCESS_IOCTL_DEV (1ULL << 15)

#define ACCESS_READ                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* What may be asked of something that is not a directory. */
#define ACCESS_FILE                                                                                \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |                               \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV)

#define SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define SCOPE_SIGNAL        (1ULL << 1)

/* The rule set's attributes as of version 6; older kernels take a prefix. */
struct ruleset {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

/* Every file access this version can control. */
static uint64_t known_access(int abi)
{
	uint64_t access = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

	access |= ACCESS_REFER;
	if (abi >= 3)
		access |= ACCESS_TRUNCATE;
	if (abi >= 5)
		access |= ACCESS_IOCTL_DEV;
	return access;
}

static int allow(int ruleset_fd, const char *path, uint64_t access)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= ACCESS_FILE;
	if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return -errno;
	return 0;
}

int landlock_restrict(int abi, const char *readable, const char *const *writable)
{
	struct ruleset attr = { .handled_access_fs = known_access(abi) };
	size_t size = abi >= 6 ? sizeof(attr) : sizeof(attr.handled_access_fs);
	_cleanup_close_ int fd = -1;
	int r;

	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return -errno;
	r = readable ? allow(fd, readable, ACCESS_READ) : 0;
	for (; r == 0 && *writable; writable++)
		r = allow(fd, *writable, attr.handled_access_fs);
	if (r < 0)
		return r;
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return 0;
}
