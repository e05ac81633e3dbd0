/* SPDX-License-Identifier: MIT */
/*
 * PID 1 inside.
 *
 * It starts the agent in a session of its own, reaps every orphan, passes signals of
 * the supervisor on to the agent's process group, and reports how the agent ended.
 * Its own end is the end of everything in the namespace: the kernel sees to that.
 * It ends when the agent has ended, or when the supervisor is gone: the other end of
 * the control socket is then closed, whatever the reason.
 *
 * It runs under the same filter as the agent, with no capability, and reads nothing
 * that the agent wrote.
 */
#include "sandbox/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sandbox/message.h"
#include "sys/fd.h"
#include "sys/pty.h"
#include "sys/rlimit.h"

/* The agent's process, up to the exec. */

static int place_std_fds(const struct entry *entry)
{
	int high[3];

	/* Out of the way first: one of them may be another's number. */
	for (int i = 0; i < 3; i++) {
		high[i] = dup(entry->std_fds[i]);
		while (high[i] >= 0 && high[i] < 3)
			high[i] = dup(high[i]);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(high[i], i) < 0)
			return -errno;
	return fd_cloexec_from(3);
}

/* By system call: libc keeps two signals to itself, which the caller may ignore as well. */
static void reset_signals(void)
{
	static const uint64_t standard[4]; /* handler, flags, restorer and mask of the kernel's */
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		syscall(SYS_rt_sigaction, i, standard, NULL, sizeof(uint64_t));
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void exec_agent(const struct entry *entry)
{
	const struct plan *plan = entry->plan;

	execve(entry->command, (char *const *)plan->argv, (char *const *)plan->env);
	if (errno == ENOEXEC) {
		/* A script without an interpreter line, as every shell understands it. */
		plan->shell_argv[1] = entry->command;
		execve("/bin/sh", (char *const *)plan->shell_argv, (char *const *)plan->env);
	}
}

static void run_agent(struct entry *entry) does_not_return;

static void run_agent(struct entry *entry)
{
	struct message message = { .type = MESSAGE_FAILED, .value = WARDER_EXIT_FAILED };
	int r;

	r = entry->plan->has_tty ? pty_become_controlling(entry->std_fds[0])
	    : setsid() < 0       ? -errno
				 : 0;
	if (r == 0)
		r = place_std_fds(entry);
	/* Here and not earlier: on the way we have more files open than the agent may. */
	if (r == 0 && entry->plan->limits.files)
		r = rlimit_lower(RLIMIT_NOFILE, entry->plan->limits.files);
	if (r < 0) {
		err_set(&message.err, -r, "prepare the agent's descriptors");
	} else {
		umask(entry->umask);
		reset_signals();
		exec_agent(entry);
		message.value = errno == ENOENT ? WARDER_EXIT_NOT_FOUND : WARDER_EXIT_CANNOT_RUN;
		err_set(&message.err, errno, "run '%.200s'", entry->plan->argv[0]);
		if (errno == ENOENT)
			err_hint(&message.err, "it exists, but not the interpreter it names");
	}
	message_send(entry->control_fd, &message, -1);
	_exit(message.value);
}

/* PID 1. */

/* Reaps all there is to reap; true when the agent was among it. */
static bool reap(pid_t agent, int *ret_status)
{
	bool is_over = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		if (pid == agent) {
			*ret_status = status;
			is_over = true;
		}
	return is_over;
}

static void signal_agent(pid_t agent, int signal)
{
	if (signal <= 0 || signal >= NSIG)
		return;
	/* It may not have reached its own session yet. */
	if (kill(-agent, signal) < 0)
		kill(agent, signal);
}

static void close_others(const struct entry *entry, int signal_fd)
{
	unsigned int low = (unsigned int)entry->control_fd, high = (unsigned int)signal_fd;

	if (low > high) {
		low = (unsigned int)signal_fd;
		high = (unsigned int)entry->control_fd;
	}
	if (low > 0)
		syscall(SYS_close_range, 0, low - 1, 0);
	if (high > low + 1)
		syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0U, 0);
}

static void serve(const struct entry *entry, pid_t agent, int signal_fd)
{
	struct pollfd fds[] = {
		{ .fd = entry->control_fd, .events = POLLIN },
		{ .fd = signal_fd, .events = POLLIN },
	};
	struct message message = { .type = MESSAGE_EXITED };
	struct signalfd_siginfo info;
	int fd;

	for (;;) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0)
			continue;
		if (fds[1].revents && read(signal_fd, &info, sizeof(info)) > 0 &&
		    reap(agent, &message.value)) {
			message_send(entry->control_fd, &message, -1);
			return;
		}
		if (!fds[0].revents)
			continue;
		if (message_receive(entry->control_fd, &message, &fd) < 0)
			return; /* the supervisor is gone */
		close_fd(&fd);
		if (message.type == MESSAGE_SIGNAL)
			signal_agent(agent, message.value);
		message = (struct message){ .type = MESSAGE_EXITED };
	}
}

void init_run(struct entry *entry)
{
	struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t all, child;
	int signal_fd;
	long agent;

	sigaction(SIGCHLD, &standard, NULL); /* the caller may have ignored it */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signal_fd = signalfd(-1, &child, SFD_CLOEXEC);
	agent = signal_fd < 0 ? -1 : syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (agent < 0) {
		struct message message = { .type = MESSAGE_FAILED, .value = WARDER_EXIT_FAILED };

		err_set(&message.err, errno, "start the agent");
		message_send(entry->control_fd, &message, -1);
		_exit(WARDER_EXIT_FAILED);
	}
	if (agent == 0)
		run_agent(entry);
	close_others(entry, signal_fd);
	serve(entry, (pid_t)agent, signal_fd);
	_exit(0);
}
