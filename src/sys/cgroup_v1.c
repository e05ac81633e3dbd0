/* SPDX-License-Identifier: MIT */
/*
 * The v1 backend: one hierarchy per controller, one directory of ours in each that
 * a limit needs. A process cannot be started in a v1 group. It moves itself, through a
 * file that was opened for it: moving another process takes a lock on every fork and
 * exec of the machine, which can wait for milliseconds, moving oneself does not.
 */
#include "sys/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

#include "sys/cgroup_dir.h"
#include "sys/fd.h"

#define MOUNTS_SIZE ((size_t)256 * 1024)
#define PERIOD_US   100000

static const char *const controller_names[CGROUP_CONTROLLERS] = {
	[CGROUP_MEMORY] = "memory",
	[CGROUP_PIDS] = "pids",
	[CGROUP_CPU] = "cpu",
};

/* Whether a comma-separated list has this word. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
		if ((p == list || p[-1] == ',') && (p[len] == ',' || !p[len]))
			return true;
	return false;
}

/*
 * Finds the hierarchy of a controller in the text of mountinfo: where it is
 * mounted, and which of its groups is the top of that mount.
 */
static bool find_hierarchy(const char *mountinfo, const char *controller, char *ret_dir,
			   char *ret_root)
{
	char type[64], super[256];

	for (const char *line = mountinfo; line; line = strchr(line, '\n')) {
		const char *dash;

		line += *line == '\n';
		dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*s %*s %*s %1023s %1023s", ret_root, ret_dir) != 2)
			break;
		if (sscanf(dash, " - %63s %*s %255s", type, super) == 2 &&
		    strcmp(type, "cgroup") == 0 && has_word(super, controller))
			return true;
	}
	return false;
}

/* The group this process is in, from the text of /proc/self/cgroup. */
static bool find_own_group(const char *cgroups, const char *controller, char *ret_group)
{
	char names[256];

	for (const char *line = cgroups; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%*d:%255[^:]:%1023[^\n]", names, ret_group) == 2 &&
		    has_word(names, controller))
			return true;
	}
	return false;
}

struct proc_text {
	char mountinfo[MOUNTS_SIZE];
	char cgroups[8192];
};

static int open_writable(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Our own group, or the one an administrator made for this user. */
static int open_parent(const struct proc_text *text, const char *controller, struct err *err)
{
	char dir[1024], root[1024], own[1024], path[2100];
	const char *below = own;
	int fd;

	if (!find_hierarchy(text->mountinfo, controller, dir, root) ||
	    !find_own_group(text->cgroups, controller, own))
		return err_say(err, ENOENT, "no v1 hierarchy has the %s controller", controller);
	if (strcmp(root, "/") != 0)
		below = strncmp(own, root, strlen(root)) == 0 ? own + strlen(root) : "";
	snprintf(path, sizeof(path), "%s%s", dir, below);
	fd = open_writable(path);
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/warder.%u", dir, (unsigned int)geteuid());
		fd = open_writable(path);
	}
	if (fd < 0)
		return err_say(err, EACCES, "no v1 %s group is writable for this user", controller);
	return fd;
}

static int watch_oom(struct cgroup *group, struct err *err)
{
	int dir_fd = group->dir_fds[CGROUP_MEMORY];
	_cleanup_close_ int control_fd = openat(dir_fd, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	char text[64];
	int r;

	if (control_fd < 0)
		return err_set(err, errno, "open memory.oom_control");
	group->oom_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (group->oom_fd < 0)
		return err_set(err, errno, "create an event descriptor");
	snprintf(text, sizeof(text), "%d %d", group->oom_fd, control_fd);
	r = fd_write_file(dir_fd, "cgroup.event_control", text);
	return r < 0 ? err_set(err, -r, "watch for memory kills") : 0;
}

static int arm(struct cgroup *group, enum cgroup_controller controller, uint64_t value,
	       struct err *err)
{
	int fd = group->dir_fds[controller];
	int r = 0;

	switch (controller) {
	case CGROUP_MEMORY:
		r = cgroup_dir_write(fd, "memory.limit_in_bytes", value, 0, err);
		if (r == 0)
			r = cgroup_dir_write(fd, "memory.memsw.limit_in_bytes", value, 1, err);
		if (r == 0)
			r = watch_oom(group, err);
		break;
	case CGROUP_PIDS:
		r = cgroup_dir_write(fd, "pids.max", value, 0, err);
		break;
	case CGROUP_CPU:
		r = cgroup_dir_write(fd, "cpu.cfs_period_us", PERIOD_US, 0, err);
		if (r == 0)
			r = cgroup_dir_write(fd, "cpu.cfs_quota_us", value * (PERIOD_US / 1000), 0,
					     err);
		break;
	case CGROUP_CONTROLLERS:
		break;
	}
	return r;
}

static int make(struct cgroup *group, const struct proc_text *text,
		enum cgroup_controller controller, uint64_t value, struct err *err)
{
	int fd = open_parent(text, controller_names[controller], err);

	if (fd < 0)
		return fd;
	group->parent_fds[controller] = fd;
	fd = cgroup_dir_make(group->parent_fds[controller], group->name);
	if (fd < 0)
		return err_set(err, -fd, "create a v1 %s group", controller_names[controller]);
	group->dir_fds[controller] = fd;
	/* "tasks" and not "cgroup.procs": one thread needs no lock against others. */
	group->join_fds[controller] = openat(fd, "tasks", O_WRONLY | O_CLOEXEC);
	if (group->join_fds[controller] < 0)
		return err_set(err, errno, "open the v1 %s group", controller_names[controller]);
	return arm(group, controller, value, err);
}

static int read_proc(struct proc_text **ret_text, struct err *err)
{
	_cleanup_free_ struct proc_text *text = malloc(sizeof(*text));

	if (!text)
		return err_set(err, ENOMEM, "read the mount table");
	if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", text->mountinfo,
			 sizeof(text->mountinfo)) < 0 ||
	    fd_read_file(AT_FDCWD, "/proc/self/cgroup", text->cgroups, sizeof(text->cgroups)) < 0)
		return err_say(err, EIO, "cannot read /proc/self/mountinfo and /proc/self/cgroup");
	*ret_text = text;
	text = NULL;
	return 0;
}

static int open_v1(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	const uint64_t values[CGROUP_CONTROLLERS] = {
		[CGROUP_MEMORY] = limits->memory_bytes,
		[CGROUP_PIDS] = limits->pids,
		[CGROUP_CPU] = limits->cpu_milli,
	};
	_cleanup_free_ struct proc_text *text = NULL;
	int r = read_proc(&text, err);

	for (int i = 0; i < CGROUP_CONTROLLERS && r == 0; i++)
		if (values[i])
			r = make(group, text, i, values[i], err);
	return r;
}

static int attach(struct cgroup *group, pid_t pid, struct err *err)
{
	(void)group;
	(void)pid;
	(void)err;
	return 0; /* it joins by itself */
}

static void measure(const struct cgroup *group, struct cgroup_usage *ret_usage)
{
	int fd = group->dir_fds[CGROUP_MEMORY];

	*ret_usage = (struct cgroup_usage){ 0 };
	if (fd < 0)
		return;
	ret_usage->oom_kills = cgroup_dir_read(fd, "memory.oom_control", "oom_kill");
	ret_usage->memory_peak_bytes = cgroup_dir_read(fd, "memory.max_usage_in_bytes", NULL);
}

static void sweep(void)
{
	_cleanup_free_ struct proc_text *text = NULL;

	if (read_proc(&text, NULL) < 0)
		return;
	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		_cleanup_close_ int fd = open_parent(text, controller_names[i], NULL);

		if (fd >= 0)
			cgroup_dir_sweep(fd);
	}
}

const struct cgroup_backend cgroup_v1 = {
	.name = "v1",
	.open = open_v1,
	.attach = attach,
	.measure = measure,
	.sweep = sweep,
};
