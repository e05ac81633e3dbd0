/* SPDX-License-Identifier: MIT */
/* Choosing a control group backend, and the backend that is none. */
#include "sys/cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "sys/cgroup_dir.h"
#include "sys/pidfd.h"

/* In the order "auto" tries them. */
static const struct cgroup_backend *const backends[] = {
	&cgroup_v2,
	&cgroup_systemd,
	&cgroup_v1,
	&cgroup_none,
};

static int none_open(struct cgroup *group, const struct cgroup_limits *limits, struct err *err)
{
	(void)group;
	/* A limit on processes is not lost: RLIMIT_NPROC holds it, per user namespace. */
	if (limits->memory_bytes)
		return err_say(err, EOPNOTSUPP, "no control group: memory cannot be limited");
	if (limits->cpu_milli)
		return err_say(err, EOPNOTSUPP, "no control group: CPU time cannot be limited");
	return 0;
}

static int none_attach(struct cgroup *group, pid_t pid, struct err *err)
{
	(void)group;
	(void)pid;
	(void)err;
	return 0;
}

static void none_measure(const struct cgroup *group, struct cgroup_usage *ret_usage)
{
	(void)group;
	*ret_usage = (struct cgroup_usage){ 0 };
}

static void none_sweep(void)
{
}

const struct cgroup_backend cgroup_none = {
	.name = "none",
	.open = none_open,
	.attach = none_attach,
	.measure = none_measure,
	.sweep = none_sweep,
};

static void group_init(struct cgroup *group, const struct cgroup_backend *backend, const char *name)
{
	*group = (struct cgroup){
		.backend = backend,
		.clone_fd = -1,
		.oom_fd = -1,
		.bus_fd = -1,
		.holder_fd = -1,
		.holder_pidfd = -1,
	};
	snprintf(group->name, sizeof(group->name), CGROUP_PREFIX "%s", name);
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		group->parent_fds[i] = group->dir_fds[i] = group->join_fds[i] = -1;
}

static int try_backend(struct cgroup *group, const struct cgroup_backend *backend, const char *name,
		       const struct cgroup_limits *limits, struct err *err)
{
	int r;

	group_init(group, backend, name);
	r = backend->open(group, limits, err);
	if (r < 0) {
		cgroup_close(group);
		group_init(group, &cgroup_none, name);
	}
	return r;
}

static int open_auto(struct cgroup *group, const char *name, const struct cgroup_limits *limits,
		     struct err *err)
{
	struct err tried[ARRAY_LEN(backends)] = { { 0 } };

	if (!limits->memory_bytes && !limits->cpu_milli)
		return try_backend(group, &cgroup_none, name, limits, err);
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (try_backend(group, backends[i], name, limits, &tried[i]) == 0)
			return 0;
	err_say(err, EOPNOTSUPP, "%s limit asked for but no control group can hold it",
		limits->memory_bytes ? "memory" : "CPU");
	for (size_t i = 0; backends[i] != &cgroup_none; i++)
		err_hint(err, "%s: %s", backends[i]->name, tried[i].text);
	err_hint(err, "'warder doctor' names the remedy");
	return -EOPNOTSUPP;
}

int cgroup_open(struct cgroup *group, const char *backend, const char *name,
		const struct cgroup_limits *limits, struct err *err)
{
	group_init(group, &cgroup_none, name);
	if (strcmp(backend, "auto") == 0)
		return open_auto(group, name, limits, err);
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strcmp(backends[i]->name, backend) == 0)
			return try_backend(group, backends[i], name, limits, err);
	return err_say(err, EINVAL,
		       "unknown cgroup backend '%s'; use auto, v2, systemd, v1 or none", backend);
}

int cgroup_join(const struct cgroup *group)
{
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		if (group->join_fds[i] >= 0 && write(group->join_fds[i], "0", 1) != 1)
			return -errno;
	return 0;
}

void cgroup_close(struct cgroup *group)
{
	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		if (group->dir_fds[i] >= 0)
			cgroup_dir_remove(group->parent_fds[i], group->name);
		close_fd(&group->join_fds[i]);
		close_fd(&group->dir_fds[i]);
		close_fd(&group->parent_fds[i]);
	}
	group->clone_fd = -1; /* was one of the above */
	close_fd(&group->oom_fd);
	close_fd(&group->bus_fd);
	close_fd(&group->holder_fd);
	if (group->holder_pidfd >= 0) {
		pidfd_kill(group->holder_pidfd, SIGKILL);
		if (pidfd_reap(group->holder_pidfd) < 0)
			close_fd(&group->holder_pidfd); /* somebody else has reaped it */
	}
	close_fd(&group->holder_pidfd);
}

void cgroup_sweep(void)
{
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		backends[i]->sweep();
}
