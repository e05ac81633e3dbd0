/* SPDX-License-Identifier: MIT */
/*
 * The supervisor's loop.
 *
 * One poll on: the sandbox's init (its end is the end of the run), the control
 * socket, the caller's signals, the relays of output, and the notice that memory
 * ran out. The deadline is the timeout of that poll:
 *
 *   RUNNING ──deadline──▶ TERMINATED ──grace──▶ KILLED
 *      │  memory ran out                           ▲
 *      └───────────────────────────────────────────┘
 *
 * However the phases go, the loop ends only when init has been reaped and what was
 * written before that has been passed on. Nothing here blocks on the caller's
 * output: a reader that has stalled cannot stop the clock.
 */
#include "sandbox/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "sandbox/message.h"
#include "sys/pidfd.h"
#include "sys/pty.h"

/* Sweeping waits until the sandbox is being built on the other processor. */
#define SWEEP_AFTER_MS 1

/* How often, and for how long, a notice of missing memory is followed up. */
#define OOM_CHECK_MS 5
#define OOM_CHECKS   200

enum phase {
	PHASE_RUNNING,
	PHASE_TERMINATED, /* SIGTERM was sent; the grace time runs */
	PHASE_KILLED,     /* SIGKILL was sent to init, and so to everything */
	PHASE_DRAINING,   /* init is gone; output is still being passed on */
};

struct watch {
	struct supervision *run;
	enum phase phase;
	uint64_t next_ms; /* when the phase ends by itself; 0: never */
	int oom_checks;   /* how often to look yet whether the kernel has killed */
	bool has_swept;   /* groups of runs whose supervisors were killed */
};

enum slot {
	SLOT_INIT,
	SLOT_CONTROL,
	SLOT_SIGNALS,
	SLOT_OOM,
	SLOT_RELAYS,
};

static void send_signal(struct supervision *run, int signal)
{
	struct message message = { .type = MESSAGE_SIGNAL, .value = signal };

	message_send(run->spawned->control_fd, &message, -1);
}

static void kill_all(struct watch *watch)
{
	pidfd_kill(watch->run->spawned->pidfd, SIGKILL);
	watch->phase = PHASE_KILLED;
	watch->next_ms = 0;
}

static void on_deadline(struct watch *watch, uint64_t now_ms)
{
	struct supervision *run = watch->run;

	switch (watch->phase) {
	case PHASE_RUNNING:
		run->has_timed_out = true;
		send_signal(run, SIGTERM);
		send_signal(run, SIGCONT); /* one that is stopped cannot act on it */
		watch->phase = PHASE_TERMINATED;
		watch->next_ms = now_ms + run->plan->limits.grace_ms;
		break;
	case PHASE_TERMINATED:
		kill_all(watch);
		break;
	case PHASE_DRAINING: /* whoever reads our output does not: the deadline counts */
		for (size_t i = 0; i < run->relay_count; i++)
			relay_end(&run->relays[i]);
		watch->next_ms = 0;
		break;
	case PHASE_KILLED:
		break;
	}
}

static void on_message(struct supervision *run)
{
	struct message message;
	int fd;

	if (message_receive(run->spawned->control_fd, &message, &fd) < 0) {
		close_fd(&run->spawned->control_fd);
		return;
	}
	switch (message.type) {
	case MESSAGE_TTY:
		if (fd < 0 || run->master_fd >= 0)
			break;
		run->master_fd = take_fd(&fd);
		fcntl(run->master_fd, F_SETFL, O_RDWR | O_NONBLOCK);
		pty_copy_size(run->tty_fd, run->master_fd);
		/* The two directions were waiting for this end. */
		run->relays[0].to = run->master_fd;
		run->relays[0].from = STDIN_FILENO;
		run->relays[1].from = run->master_fd;
		break;
	case MESSAGE_FAILED:
		run->failure = message;
		run->has_failed = true;
		break;
	case MESSAGE_EXITED:
		run->wait_status = message.value;
		run->has_exited = true;
		break;
	default:
		break;
	}
	close_fd(&fd);
}

/* The agent is in a session of its own, where the kernel would ignore SIGTSTP. */
static void stop_and_continue(struct supervision *run)
{
	send_signal(run, SIGSTOP);
	if (run->tty_mode)
		pty_restore(run->tty_fd, run->tty_mode);
	raise(SIGSTOP);
	if (run->tty_mode && pty_set_raw(run->tty_fd, run->tty_mode) < 0)
		run->tty_mode = NULL;
	send_signal(run, SIGCONT);
}

static void on_signal(struct supervision *run)
{
	struct signalfd_siginfo info;

	if (read(run->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	switch (info.ssi_signo) {
	case SIGWINCH:
		if (run->master_fd >= 0)
			pty_copy_size(run->tty_fd, run->master_fd);
		break;
	case SIGTSTP:
		stop_and_continue(run);
		break;
	case SIGCONT:
	case SIGCHLD:
		break;
	default:
		send_signal(run, (int)info.ssi_signo);
	}
}

/*
 * v1 kills one process; a run is killed as a whole, as v2 does by itself. The notice comes
 * while the kernel still looks for a victim, so the count is looked at until it tells.
 */
static void check_oom(struct watch *watch)
{
	struct cgroup_usage usage;

	watch->oom_checks--; /* down to 0: memory was found after all */
	watch->run->cgroup->backend->measure(watch->run->cgroup, &usage);
	if (usage.oom_kills > 0)
		kill_all(watch);
}

static void on_oom(struct watch *watch)
{
	uint64_t count;

	if (read(watch->run->cgroup->oom_fd, &count, sizeof(count)) > 0)
		watch->oom_checks = OOM_CHECKS;
}

static void on_init_gone(struct watch *watch)
{
	struct supervision *run = watch->run;
	struct pollfd control = { .fd = run->spawned->control_fd, .events = POLLIN };

	/* What it said last may still be in the socket. */
	while (poll(&control, 1, 0) > 0 && run->spawned->control_fd >= 0)
		on_message(run);
	close_fd(&run->spawned->control_fd);
	run->init_status = pidfd_reap(run->spawned->pidfd);
	close_fd(&run->spawned->pidfd);
	for (size_t i = 0; i < run->relay_count; i++) {
		struct relay *relay = &run->relays[i];

		relay_give_back(relay);
		if (!relay->must_finish)
			relay_end(relay); /* input has nobody to go to */
		else if (relay->from != run->master_fd)
			relay_bound(relay);
	}
	watch->phase = PHASE_DRAINING;
	/* A terminal says when its other side is closed, unless somebody else has it still. */
	if (run->master_fd >= 0)
		watch->next_ms = clock_now_ms() + run->plan->limits.grace_ms;
	if (run->plan->limits.timeout_ms) {
		uint64_t deadline_ms = run->start_ms + run->plan->limits.timeout_ms;
		uint64_t now_ms = clock_now_ms();

		watch->next_ms = (now_ms > deadline_ms ? now_ms : deadline_ms) +
				 run->plan->limits.grace_ms;
	}
}

static bool is_over(const struct watch *watch)
{
	if (watch->phase != PHASE_DRAINING)
		return false;
	for (size_t i = 0; i < watch->run->relay_count; i++)
		if (watch->run->relays[i].must_finish && watch->run->relays[i].from >= 0)
			return false;
	return true;
}

static int poll_timeout(const struct watch *watch, uint64_t now_ms)
{
	uint64_t left_ms;

	if (!watch->has_swept)
		return SWEEP_AFTER_MS;
	if (watch->oom_checks > 0 && watch->phase < PHASE_KILLED)
		return OOM_CHECK_MS;
	if (!watch->next_ms)
		return -1;
	left_ms = watch->next_ms > now_ms ? watch->next_ms - now_ms : 0;
	return left_ms > 60000 ? 60000 : (int)left_ms;
}

static void sweep(struct watch *watch)
{
	cgroup_sweep();
	watch->has_swept = true;
}

static void dispatch(struct watch *watch, const struct pollfd *fds)
{
	struct supervision *run = watch->run;

	for (size_t i = 0; i < run->relay_count; i++)
		if (fds[SLOT_RELAYS + i].fd >= 0 && fds[SLOT_RELAYS + i].revents)
			relay_move(&run->relays[i]);
	if (fds[SLOT_CONTROL].revents && run->spawned->control_fd >= 0)
		on_message(run);
	if (fds[SLOT_SIGNALS].revents)
		on_signal(run);
	if (fds[SLOT_OOM].revents && watch->phase < PHASE_KILLED)
		on_oom(watch);
	if (fds[SLOT_INIT].revents)
		on_init_gone(watch);
}

void supervise(struct supervision *run)
{
	struct watch watch = { .run = run };

	if (run->plan->limits.timeout_ms)
		watch.next_ms = run->start_ms + run->plan->limits.timeout_ms;
	while (!is_over(&watch)) {
		struct pollfd fds[SLOT_RELAYS + RELAYS_MAX] = {
			[SLOT_INIT] = { .fd = run->spawned->pidfd, .events = POLLIN },
			[SLOT_CONTROL] = { .fd = run->spawned->control_fd, .events = POLLIN },
			[SLOT_SIGNALS] = { .fd = run->signal_fd, .events = POLLIN },
			[SLOT_OOM] = { .fd = run->cgroup->oom_fd, .events = POLLIN },
		};
		uint64_t now_ms = clock_now_ms();

		for (size_t i = 0; i < run->relay_count; i++)
			fds[SLOT_RELAYS + i] = relay_want(&run->relays[i]);
		if (poll(fds, SLOT_RELAYS + run->relay_count, poll_timeout(&watch, now_ms)) > 0)
			dispatch(&watch, fds);
		else if (!watch.has_swept)
			sweep(&watch);
		if (watch.oom_checks > 0 && watch.phase < PHASE_KILLED)
			check_oom(&watch);
		now_ms = clock_now_ms();
		if (watch.next_ms && now_ms >= watch.next_ms)
			on_deadline(&watch, now_ms);
	}
	if (!watch.has_swept)
		sweep(&watch);
}
