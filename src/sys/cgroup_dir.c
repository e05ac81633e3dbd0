/* SPDX-License-Identifier: MIT */
/* Making, locking, removing and sweeping control group directories. */
#include "sys/cgroup_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "sys/fd.h"

#define MAKE_TRIES   100
#define MAKE_PAUSE   100000 /* ns */
#define REMOVE_TRIES 200
#define REMOVE_PAUSE 1000000 /* ns */

/* Opens and locks; -EAGAIN when the directory was swept before the lock was ours. */
static int open_locked(int parent_fd, const char *name)
{
	_cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat held, named;

	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &held) < 0 || fstatat(parent_fd, name, &named, 0) < 0 ||
	    held.st_ino != named.st_ino)
		return -EAGAIN;
	return take_fd(&fd);
}

int cgroup_dir_make(int parent_fd, const char *name)
{
	int fd = -EAGAIN;

	for (int i = 0; i < MAKE_TRIES && fd == -EAGAIN; i++) {
		if (i > 0)
			nanosleep(&(struct timespec){ .tv_nsec = MAKE_PAUSE }, NULL);
		if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = open_locked(parent_fd, name);
	}
	return fd;
}

void cgroup_dir_remove(int parent_fd, const char *name)
{
	/* A process that has been reaped may still be leaving its group. */
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = REMOVE_PAUSE }, NULL);
	}
}

/*
 * A name ends with its maker's pid. Only a hint, which spares those at work a visit: the
 * pid may be another's by now, or of another namespace; the lock is what counts.
 */
static bool is_makers_alive(const char *name)
{
	const char *dot = strrchr(name, '.');
	long pid = dot ? strtol(dot + 1, NULL, 10) : 0;

	return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

void cgroup_dir_sweep(int parent_fd)
{
	int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!dir) {
		close_fd(&fd);
		return;
	}
	while ((entry = readdir(dir))) {
		_cleanup_close_ int lock_fd = -1;

		if (strncmp(entry->d_name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) != 0 ||
		    is_makers_alive(entry->d_name))
			continue;
		lock_fd = open_locked(parent_fd, entry->d_name);
		if (lock_fd >= 0)
			unlinkat(parent_fd, entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

int cgroup_dir_write(int dir_fd, const char *file, uint64_t value, int optional, struct err *err)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "%" PRIu64, value);
	r = fd_write_file(dir_fd, file, text);
	if (r == -ENOENT && optional)
		return 0;
	return r < 0 ? err_set(err, -r, "set %s of the control group to %s", file, text) : 0;
}

uint64_t cgroup_dir_read(int dir_fd, const char *file, const char *key)
{
	char text[1024];
	const char *found = text;
	uint64_t value = 0;

	if (fd_read_file(dir_fd, file, text, sizeof(text)) < 0)
		return 0;
	if (key) {
		size_t len = strlen(key);

		while (found && (strncmp(found, key, len) != 0 || found[len] != ' ')) {
			found = strchr(found, '\n');
			if (found)
				found++;
		}
		if (!found)
			return 0;
		found += len + 1;
	}
	return sscanf(found, "%" SCNu64, &value) == 1 ? value : 0;
}
