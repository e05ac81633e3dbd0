/* SPDX-License-Identifier: MIT */
/*
 * The systemd backend: a transient scope with a delegated group, asked for over the
 * bus, and our own group inside it.
 *
 * A scope lives as long as a process is in it and is gone, cgroup and all, when the
 * last one is. So a small process, the holder, is what we hand to systemd: it keeps
 * the scope while we make the run's group and read what the run used, and it dies
 * with us even when we are killed. We never move ourselves: the library's caller
 * stays where it was.
 *
 * From a login session, which is root's part of the tree, an ordinary user may not
 * move a process into its own manager's part. systemd may, and does when asked: so
 * the sandbox is attached over the bus as well.
 */
#include "sys/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "sys/bus.h"
#include "sys/cgroup_dir.h"
#include "sys/cgroup_v2.h"
#include "sys/fd.h"
#include "sys/pidfd.h"

#define SCOPE_WAIT_MS 3000
#define HOLDER_GROUP  "holder"

/* The bus of the system for root, of the user's own manager otherwise. */
static int bus_path(char *path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int len;

	if (geteuid() == 0)
		len = snprintf(path, size, "/run/dbus/system_bus_socket");
	else if (runtime && *runtime == '/')
		len = snprintf(path, size, "%s/bus", runtime);
	else
		len = snprintf(path, size, "/run/user/%u/bus", (unsigned int)geteuid());
	return (size_t)len < size ? 0 : -ENAMETOOLONG;
}

static void put_property(struct bus_message *body, const char *name, const char *type)
{
	bus_align(body, 8);
	bus_put_string(body, name);
	bus_put_signature(body, type);
}

static int call_manager(const struct cgroup *group, const char *member, const char *signature,
			const struct bus_message *body, struct err *err)
{
	struct bus_call call = {
		.destination = "org.freedesktop.systemd1",
		.path = "/org/freedesktop/systemd1",
		.interface = "org.freedesktop.systemd1.Manager",
		.member = member,
		.signature = signature,
	};

	return bus_send_call(group->bus_fd, &call, body, err);
}

static void put_unit(struct bus_message *body, const struct cgroup *group)
{
	char unit[CGROUP_NAME_MAX + 8];

	snprintf(unit, sizeof(unit), "%s.scope", group->name);
	bus_put_string(body, unit);
}

static void put_pids(struct bus_message *body, pid_t pid)
{
	size_t pids = bus_open_array(body, 4);

	bus_put_u32(body, (uint32_t)pid);
	bus_close_array(body, pids, 4);
}

static int start_scope(const struct cgroup *group, pid_t pid, struct err *err)
{
	struct bus_message body = { .len = 0 };
	size_t properties, aux;

	put_unit(&body, group);
	bus_put_string(&body, "fail");
	properties = bus_open_array(&body, 8);
	put_property(&body, "Description", "s");
	bus_put_string(&body, "warder sandbox");
	put_property(&body, "Delegate", "b");
	bus_put_u32(&body, 1);
	put_property(&body, "CollectMode", "s");
	bus_put_string(&body, "inactive-or-failed");
	put_property(&body, "PIDs", "au");
	put_pids(&body, pid);
	bus_close_array(&body, properties, 8);
	aux = bus_open_array(&body, 8);
	bus_close_array(&body, aux, 8);
	return call_manager(group, "StartTransientUnit", "ssa(sv)a(sa(sv))", &body, err);
}

/*
 * Starts a process that does nothing but be there. It keeps no descriptor of ours
 * and ends when the other end of its pipe is closed, by us or by our death.
 */
static pid_t start_holder(struct cgroup *group)
{
	int pipe_fds[2];
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	pid = pidfd_clone(0, -1, &group->holder_pidfd);
	if (pid == 0) {
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipe_fds[0], STDIN_FILENO);
		syscall(SYS_close_range, 1, ~0U, 0);
		while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	close(pipe_fds[0]);
	group->holder_fd = pipe_fds[1];
	return pid;
}

/* Waits until systemd has moved the holder into the scope; its group's path comes back. */
static int wait_for_scope(pid_t holder, const char *name, char *path, size_t size, struct err *err)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)holder);
	for (int waited = 0; waited < SCOPE_WAIT_MS; waited++) {
		int r = cgroup_v2_path_of(pid, path, size, err);

		if (r < 0)
			return r;
		if (strstr(path, name))
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return err_say(err, ETIMEDOUT, "systemd did not start the scope in time");
}

/* The scope's own group must hold no process before controllers reach its children. */
static int move_holder(int scope_fd, pid_t holder, struct err *err)
{
	char pid[16];
	int r;

	if (mkdirat(scope_fd, HOLDER_GROUP, 0755) < 0)
		return err_set(err, errno, "create a group in the scope");
	snprintf(pid, sizeof(pid), "%d", (int)holder);
	r = fd_write_file(scope_fd, HOLDER_GROUP "/cgroup.procs", pid);
	return r < 0 ? err_set(err, -r, "arrange the groups of the scope") : 0;
}

static int open_scope(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	char path[4096];
	pid_t holder;
	int r;

	if (bus_path(path, sizeof(path)) < 0)
		return err_say(err, ENAMETOOLONG, "XDG_RUNTIME_DIR is too long");
	group->bus_fd = bus_open(path, err);
	if (group->bus_fd < 0)
		return group->bus_fd;
	holder = start_holder(group);
	if (holder < 0)
		return err_set(err, -holder, "start the holder of the scope");
	r = start_scope(group, holder, err);
	if (r == 0)
		r = wait_for_scope(holder, group->name, path, sizeof(path), err);
	if (r < 0)
		return r;
	group->parent_fds[0] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (group->parent_fds[0] < 0)
		return err_set(err, errno, "open the scope's group");
	r = move_holder(group->parent_fds[0], holder, err);
	if (r == 0)
		r = cgroup_v2_enable(group->parent_fds[0], limits, err);
	if (r == 0)
		r = cgroup_v2_make(group, limits, err);
	group->clone_fd = -1;
	return r;
}

static int attach(struct cgroup *group, pid_t pid, struct err *err)
{
	struct bus_message body = { .len = 0 };
	char below[CGROUP_NAME_MAX + 1];

	put_unit(&body, group);
	snprintf(below, sizeof(below), "/%s", group->name);
	bus_put_string(&body, below);
	put_pids(&body, pid);
	return call_manager(group, "AttachProcessesToUnit", "ssau", &body, err);
}

static void sweep(void)
{
	/* A scope whose holder is gone is systemd's to remove. */
}

const struct cgroup_backend cgroup_systemd = {
	.name = "systemd",
	.open = open_scope,
	.attach = attach,
	.measure = cgroup_v2_measure,
	.sweep = sweep,
};
