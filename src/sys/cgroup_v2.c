/* SPDX-License-Identifier: MIT */
/*
 * The v2 backend: a group of our own below one that was delegated to us.
 *
 * The kernel lets controllers reach the children of a group only while the group
 * itself holds no process (the root excepted). So the search goes from our own
 * group upwards to the first one that we may write to and that has, or can be
 * given, the controllers. Where systemd manages the tree we do not climb into its
 * part of it: the systemd backend asks for a scope instead.
 */
#include "sys/cgroup_v2.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "sys/cgroup_dir.h"
#include "sys/fd.h"

#define MOUNTS_SIZE ((size_t)256 * 1024)
#define PERIOD_US   100000

/* Finds where cgroup2 is mounted. */
static int find_mount(char *path, size_t size, struct err *err)
{
	_cleanup_free_ char *mounts = malloc(MOUNTS_SIZE);
	char *line, *rest;

	if (!mounts)
		return err_set(err, ENOMEM, "read the mount table");
	if (fd_read_file(AT_FDCWD, "/proc/self/mounts", mounts, MOUNTS_SIZE) < 0)
		return err_set(err, EIO, "read /proc/self/mounts");
	for (rest = mounts; (line = strsep(&rest, "\n"));) {
		char *source = strsep(&line, " "), *dir = strsep(&line, " ");
		char *type = strsep(&line, " ");

		(void)source;
		if (!type || strcmp(type, "cgroup2") != 0)
			continue;
		if ((size_t)snprintf(path, size, "%s", dir) < size)
			return 0;
	}
	return err_say(err, ENOENT, "no cgroup2 file system is mounted");
}

int cgroup_v2_path_of(const char *pid, char *path, size_t size, struct err *err)
{
	char file[64], text[4096];
	const char *line;
	size_t used;
	int r;

	r = find_mount(path, size, err);
	if (r < 0)
		return r;
	snprintf(file, sizeof(file), "/proc/%s/cgroup", pid);
	if (fd_read_file(AT_FDCWD, file, text, sizeof(text)) < 0)
		return err_say(err, EIO, "cannot read %s", file);
	line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return err_say(err, ENOENT, "%s names no v2 group", file);
	line = strstr(line, "0::") + 3;
	used = strlen(path);
	if ((size_t)snprintf(path + used, size - used, "%.*s", (int)strcspn(line, "\n"), line) >=
	    size - used)
		return err_say(err, ENAMETOOLONG, "the path of the control group is too long");
	return 0;
}

/* Whether a file that lists controllers names this one. */
static bool lists(const char *text, const char *controller)
{
	size_t len = strlen(controller);

	for (const char *p = strstr(text, controller); p; p = strstr(p + 1, controller))
		if ((p == text || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\n' || !p[len]))
			return true;
	return false;
}

int cgroup_v2_enable(int parent_fd, const struct cgroup_limits *limits, struct err *err)
{
	const struct {
		const char *name;
		bool is_needed;
	} controllers[] = {
		{ "memory", limits->memory_bytes > 0 },
		{ "pids", limits->pids > 0 },
		{ "cpu", limits->cpu_milli > 0 },
	};
	char have[256], enabled[256], text[32];

	if (fd_read_file(parent_fd, "cgroup.controllers", have, sizeof(have)) < 0 ||
	    fd_read_file(parent_fd, "cgroup.subtree_control", enabled, sizeof(enabled)) < 0)
		return err_say(err, EIO, "cannot read the controllers of the control group");
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		int r;

		if (!controllers[i].is_needed || lists(enabled, controllers[i].name))
			continue;
		if (!lists(have, controllers[i].name))
			return err_say(err, ENODEV, "the %s controller is not delegated here",
				       controllers[i].name);
		snprintf(text, sizeof(text), "+%s", controllers[i].name);
		r = fd_write_file(parent_fd, "cgroup.subtree_control", text);
		if (r < 0)
			return err_set(err, -r, "enable the %s controller", controllers[i].name);
	}
	return 0;
}

static int write_cpu(int fd, uint64_t milli, struct err *err)
{
	char text[64];
	int r;

	snprintf(text, sizeof(text), "%" PRIu64 " %d", milli * (PERIOD_US / 1000), PERIOD_US);
	r = fd_write_file(fd, "cpu.max", text);
	return r < 0 ? err_set(err, -r, "set cpu.max of the control group") : 0;
}

int cgroup_v2_make(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	int fd = cgroup_dir_make(group->parent_fds[0], group->name);
	int r = 0;

	if (fd < 0)
		return err_set(err, -fd, "create the control group");
	group->dir_fds[0] = group->clone_fd = fd;
	if (limits->memory_bytes) {
		r = cgroup_dir_write(fd, "memory.max", limits->memory_bytes, 0, err);
		if (r == 0)
			r = cgroup_dir_write(fd, "memory.swap.max", 0, 1, err);
		/* One process killed for memory ends the run, not a random part of it. */
		if (r == 0)
			r = cgroup_dir_write(fd, "memory.oom.group", 1, 1, err);
	}
	if (r == 0 && limits->pids)
		r = cgroup_dir_write(fd, "pids.max", limits->pids, 0, err);
	if (r == 0 && limits->cpu_milli)
		r = write_cpu(fd, limits->cpu_milli, err);
	return r;
}

/* Cuts the last component off; false at the top. */
static bool climb(char *path, const char *top)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash < path + strlen(top))
		return false;
	*slash = '\0';
	return true;
}

static bool may_climb(void)
{
	return access("/run/systemd/system", F_OK) < 0;
}

static int open_writable(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
		return -EACCES;
	return take_fd(&fd);
}

/* Our own group and the top of the tree it is in. */
static int find_own(char *path, char *top, size_t size, struct err *err)
{
	int r = cgroup_v2_path_of("self", path, size, err);

	return r < 0 ? r : find_mount(top, size, err);
}

/* Opens the nearest group that we can write to and that can pass the controllers on. */
static int open_parent(const struct cgroup_limits *limits, struct err *err)
{
	char path[4096], top[4096];
	int r = find_own(path, top, sizeof(path), err);

	if (r < 0)
		return r;
	do {
		_cleanup_close_ int fd = open_writable(path);

		if (fd < 0)
			r = err_say(err, EACCES, "no v2 group is delegated to this user");
		else
			r = cgroup_v2_enable(fd, limits, err);
		if (r == 0)
			return take_fd(&fd);
	} while (may_climb() && climb(path, top));
	return r;
}

static int open_own(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	int fd = open_parent(limits, err);

	if (fd < 0)
		return fd;
	group->parent_fds[0] = fd;
	return cgroup_v2_make(group, limits, err);
}

/* Wherever a group of ours may have been made; nothing is enabled for that. */
static void sweep(void)
{
	char path[4096], top[4096];

	if (find_own(path, top, sizeof(path), NULL) < 0)
		return;
	do {
		_cleanup_close_ int fd = open_writable(path);

		if (fd >= 0)
			cgroup_dir_sweep(fd);
	} while (may_climb() && climb(path, top));
}

static int attach(struct cgroup *group, pid_t pid, struct err *err)
{
	(void)group;
	(void)pid;
	(void)err;
	return 0; /* it was started in the group */
}

void cgroup_v2_measure(const struct cgroup *group, struct cgroup_usage *ret_usage)
{
	*ret_usage = (struct cgroup_usage){
		.oom_kills = cgroup_dir_read(group->dir_fds[0], "memory.events", "oom_kill"),
		.memory_peak_bytes = cgroup_dir_read(group->dir_fds[0], "memory.peak", NULL),
	};
}

const struct cgroup_backend cgroup_v2 = {
	.name = "v2",
	.open = open_own,
	.attach = attach,
	.measure = cgroup_v2_measure,
	.sweep = sweep,
};
