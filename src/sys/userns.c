/* SPDX-License-Identifier: MIT */
/* User namespace maps. */
#include "sys/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sys/fd.h"

/*
 * Ids for runs that root starts. The range lies above what distributions hand to
 * accounts, services and containers, and below 2^31.
 */
#define SPARE_FIRST UINT32_C(1900000000)
#define SPARE_COUNT (UINT32_C(1) << 26)

static int write_one(pid_t pid, const char *name, const char *text)
{
	char path[64];

	if (pid == 0)
		snprintf(path, sizeof(path), "/proc/self/%s", name);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fd_write_file(AT_FDCWD, path, text);
}

static int write_map_line(pid_t pid, const char *name, unsigned int inside, unsigned int outside)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %u 1\n", inside, outside);
	return write_one(pid, name, text);
}

int userns_write_map(pid_t pid, const struct userns_map *map, int deny_groups)
{
	int r = deny_groups ? write_one(pid, "setgroups", "deny") : 0;

	if (r < 0)
		return r;
	r = write_map_line(pid, "uid_map", map->inside_uid, map->outside_uid);
	if (r < 0)
		return r;
	return write_map_line(pid, "gid_map", map->inside_gid, map->outside_gid);
}

int userns_open_mapped(const struct userns_map *map)
{
	pid_t parent = getpid();
	char path[64];
	int fd, r;
	/* Runs nothing: it only holds the namespace until a descriptor does. */
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		syscall(SYS_close_range, 0, ~0U, 0);
		while (getppid() == parent) /* it may have died before it was asked about */
			pause();
		_exit(0);
	}
	r = userns_write_map((pid_t)pid, map, 0);
	snprintf(path, sizeof(path), "/proc/%ld/ns/user", pid);
	fd = r < 0 ? r : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && r == 0)
		r = -errno;
	kill((pid_t)pid, SIGKILL);
	while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : fd;
}

uid_t userns_spare_id(const char *map_path, uint32_t seed)
{
	uint32_t wanted = SPARE_FIRST + seed % SPARE_COUNT;
	uint32_t highest = 0;
	char text[4096];
	char *line = text;
	uint32_t inside, outside, count;
	int used;

	if (fd_read_file(AT_FDCWD, map_path, text, sizeof(text)) < 0)
		return wanted;
	while (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32 "%n", &inside, &outside, &count,
		      &used) == 3) {
		if (count > 0 && wanted - inside < count)
			return wanted;
		/* The last id of a small map is usually nobody: stay below it. */
		if (count > 2 && inside + count - 3 > highest)
			highest = inside + count - 3;
		line += used;
	}
	return highest;
}
