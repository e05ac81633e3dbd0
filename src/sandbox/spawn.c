/* SPDX-License-Identifier: MIT */
/* The supervisor's side of starting a sandbox. */
#include "sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "sandbox/enter.h"
#include "sandbox/message.h"
#include "sandbox/root.h"
#include "sys/pidfd.h"

/* The cgroup namespace comes later, when the process is in its group. */
#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static int say_clone_failed(int error, struct err *err)
{
	err_set(err, error, "make the sandbox's namespaces");
	err_hint(err, "'warder doctor' tells what forbids them and how to allow them");
	return -error;
}

static void run_child(struct plan *plan, const struct cgroup *cgroup, int control_fd,
		      const int std_fds[3]) does_not_return;

static void run_child(struct plan *plan, const struct cgroup *cgroup, int control_fd,
		      const int std_fds[3])
{
	struct entry entry = { .plan = plan, .cgroup = cgroup, .control_fd = control_fd };

	memcpy(entry.std_fds, std_fds, sizeof(entry.std_fds));
	enter_sandbox(&entry);
}

/* Waits for the gateway, or for a signal that ends a run. */
static bool is_interrupted(const struct plan *plan)
{
	struct pollfd fds[] = { { .fd = plan->ready_fd, .events = POLLIN },
				{ .fd = plan->signal_fd, .events = POLLIN } };
	struct signalfd_siginfo info;

	for (;;) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0)
			continue;
		if (fds[0].revents)
			return false;
		if (read(plan->signal_fd, &info, sizeof(info)) == sizeof(info) &&
		    (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
		     info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT))
			return true;
	}
}

/* The gateway says whether the agent may start, while the sandbox is being built. */
static int wait_for_gateway(const struct plan *plan, struct err *err)
{
	char text[ERR_TEXT_MAX] = "";
	ssize_t n;

	if (plan->ready_fd < 0)
		return 0;
	if (is_interrupted(plan))
		return err_say(err, EINTR, "interrupted before the command was started");
	do {
		n = recv(plan->ready_fd, text, sizeof(text) - 1, 0);
	} while (n < 0 && errno == EINTR);
	if (n > 0 && text[0] == '+')
		return 0;
	text[n > 0 ? n : 0] = '\0';
	return err_say(err, EIO, "%s",
		       text[0] ? text + 1 : "the gateway ended before the run began");
}

/* What it waits for, in the order it waits for it. */
static int let_go(struct plan *plan, struct cgroup *cgroup, pid_t pid, int control_fd,
		  struct err *err)
{
	struct message mapped = { .type = MESSAGE_MAPPED }, go = { .type = MESSAGE_GO };
	int r = 0;

	if (plan->is_privileged) {
		r = userns_write_map(pid, &plan->map, 0);
		if (r < 0)
			return err_set(err, -r, "map the agent's ids");
		r = message_send(control_fd, &mapped, -1);
	}
	/* While it builds its root. */
	if (r == 0) {
		r = cgroup->backend->attach(cgroup, pid, err);
		if (r == 0)
			r = wait_for_gateway(plan, err);
		if (r < 0)
			return r;
		r = message_send(control_fd, &go, -1);
	}
	/* If it has failed meanwhile, its own words are the better ones. */
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r < 0 ? err_set(err, -r, "talk to the sandbox") : 0;
}

int spawn_sandbox(struct plan *plan, struct cgroup *cgroup, const int std_fds[3],
		  struct spawned *ret_spawned, struct err *err)
{
	sigset_t all, saved;
	int sockets[2];
	pid_t pid;
	int r = 0;

	*ret_spawned = (struct spawned){ -1, -1 };
	if (plan->is_privileged)
		r = root_open_privileged(plan, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_set(err, errno, "create a control socket");

	/* No handler of the caller's program may run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	pid = pidfd_clone(NAMESPACES, cgroup->clone_fd, &ret_spawned->pidfd);
	if (pid == 0) {
		close(sockets[0]);
		run_child(plan, cgroup, sockets[1], std_fds);
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	close(sockets[1]);
	ret_spawned->control_fd = sockets[0];
	if (pid < 0) {
		ret_spawned->pidfd = -1;
		return say_clone_failed(-pid, err);
	}
	return let_go(plan, cgroup, pid, sockets[0], err);
}
