/* SPDX-License-Identifier: MIT */
/*
 * warder_run_once: plan, limit, start, supervise, account.
 *
 * Everything a run owns on the host hangs off struct run; run_fini gives it all back
 * whichever way the run went.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/utf8.h"
#include "sandbox/supervise.h"
#include "sys/pidfd.h"
#include "sys/pty.h"
#include "warder.h"

#define API __attribute__((visibility("default")))

struct run {
	const struct warder_spec *spec;
	struct plan *plan;
	struct cgroup cgroup;
	struct spawned spawned;
	struct supervision supervision;
	struct relay relays[RELAYS_MAX];
	struct budget budget;
	struct buf out, err;
	int agent_fds[3]; /* what becomes the agent's 0, 1 and 2 */
	bool owns_agent_fd[3];
	bool is_raw; /* the caller's terminal */
	struct termios saved_mode;
};

/* ---- standard descriptors ---- */

static struct relay *add_relay(struct run *run, int from, int to)
{
	struct relay *relay = &run->relays[run->supervision.relay_count++];

	relay->from = from;
	relay->to = to;
	return relay;
}

/*
 * A pipe can be opened again by its name, /dev/stdout, but only by its owner. In a run
 * of root's that shall be the agent. Nothing with a place on disk changes hands.
 */
static void let_open(const struct plan *plan, int fd)
{
	struct statfs fs;

	if (!plan->is_privileged || fstatfs(fd, &fs) < 0 || fs.f_type != PIPEFS_MAGIC)
		return;
	if (fchown(fd, plan->map.outside_uid, plan->map.outside_gid) < 0)
		return; /* it can still be read and written */
}

static void give_agent(struct run *run, int index, int fd, bool is_owned)
{
	let_open(run->plan, fd);
	run->agent_fds[index] = fd;
	run->owns_agent_fd[index] = is_owned;
}

/*
 * Puts a pipe between the agent's descriptor `index` and us; returns our end. It does not
 * block: the agent can open its own end the other way round, and take or add what poll
 * has told us about.
 */
static int give_pipe(struct run *run, int index)
{
	int fds[2], ours;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	give_agent(run, index, fds[index == STDIN_FILENO ? 0 : 1], true);
	ours = fds[index == STDIN_FILENO ? 1 : 0];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0) {
		close(ours);
		return -errno;
	}
	return ours;
}

static bool is_dev_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/*
 * The agent holds no descriptor of the caller's, except for /dev/null. A terminal could
 * be typed into, a directory leads out of the root, a pipe can be opened again the other
 * way round through /proc, and a file's position is shared with whoever else has it.
 */
static int set_up_stdin(struct run *run, int fd, struct err *err)
{
	struct relay *relay;
	struct stat st;
	int r;

	if (fd >= 0 && is_dev_null(fd)) {
		give_agent(run, STDIN_FILENO, fd, false);
		return 0;
	}
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return err_say(err, EISDIR, "standard input is a directory");
	r = give_pipe(run, STDIN_FILENO);
	if (r < 0)
		return err_set(err, -r, "create a pipe");
	relay = add_relay(run, fd, r);
	relay->closes_to = true;
	relay_keep_position(relay, run->agent_fds[STDIN_FILENO]);
	if (fd < 0)
		relay_end(relay); /* nothing to read */
	return 0;
}

static void watch_output(struct run *run, struct relay *relay)
{
	relay->must_finish = true;
	relay->budget = &run->budget;
}

static int open_output(struct relay *relay, int fd, struct err *err)
{
	int r = relay_open_output(relay, fd);

	return r < 0 ? err_set(err, -r, "prepare the output") : 0;
}

static int set_up_output(struct run *run, int index, struct buf *into, struct err *err)
{
	struct relay *relay;
	int r;

	if (!into && !run->budget.is_limited && is_dev_null(index)) {
		give_agent(run, index, index, false);
		return 0;
	}
	r = give_pipe(run, index);
	if (r < 0)
		return err_set(err, -r, "create a pipe");
	relay = add_relay(run, r, -1);
	relay->owns_from = true;
	relay->into = into;
	watch_output(run, relay);
	return into ? 0 : open_output(relay, index, err);
}

static int set_up_terminal(struct run *run, struct err *err)
{
	struct relay *input, *output;
	int r;

	/* Both wait for the master, which the sandbox sends when it has made it. */
	input = add_relay(run, -1, -1);
	input->sends_eof = true;
	output = add_relay(run, -1, -1);
	watch_output(run, output);
	r = open_output(output, STDOUT_FILENO, err);
	/* At a terminal, errors that were redirected away from it stay so. */
	if (r == 0 && isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO))
		r = set_up_output(run, STDERR_FILENO, NULL, err);
	if (r < 0 || !isatty(STDIN_FILENO))
		return r;
	run->supervision.tty_fd = STDIN_FILENO;
	r = pty_set_raw(STDIN_FILENO, &run->saved_mode);
	if (r < 0)
		return err_set(err, -r, "prepare the terminal");
	run->is_raw = true;
	run->supervision.tty_mode = &run->saved_mode;
	return 0;
}

static int set_up_stdio(struct run *run, struct err *err)
{
	bool is_captured = run->spec->stdio == WARDER_STDIO_CAPTURE;
	int r;

	run->budget = (struct budget){
		.is_limited = run->plan->limits.output_bytes > 0,
		.left = run->plan->limits.output_bytes,
	};
	if (run->spec->stdio == WARDER_STDIO_TTY)
		return set_up_terminal(run, err);
	r = set_up_stdin(run, is_captured ? run->spec->stdin_fd : STDIN_FILENO, err);
	if (r == 0)
		r = set_up_output(run, STDOUT_FILENO, is_captured ? &run->out : NULL, err);
	if (r == 0)
		r = set_up_output(run, STDERR_FILENO, is_captured ? &run->err : NULL, err);
	return r;
}

/* ---- the run ---- */

static void run_init(struct run *run, const struct warder_spec *spec)
{
	run->spec = spec;
	run->spawned = (struct spawned){ -1, -1 };
	run->supervision.master_fd = run->supervision.tty_fd = -1;
	run->supervision.signal_fd = spec->signal_fd;
	run->supervision.relays = run->relays;
	run->supervision.spawned = &run->spawned;
	run->supervision.cgroup = &run->cgroup;
	for (int i = 0; i < 3; i++)
		run->agent_fds[i] = -1;
	buf_init(&run->out, SIZE_MAX / 4);
	buf_init(&run->err, SIZE_MAX / 4);
}

static void close_agent_fds(struct run *run)
{
	for (int i = 0; i < 3; i++) {
		if (run->owns_agent_fd[i])
			close_fd(&run->agent_fds[i]);
		run->owns_agent_fd[i] = false;
	}
}

static void run_fini(struct run *run)
{
	if (run->spawned.pidfd >= 0) {
		pidfd_kill(run->spawned.pidfd, SIGKILL);
		run->supervision.init_status = pidfd_reap(run->spawned.pidfd);
		close_fd(&run->spawned.pidfd);
	}
	close_fd(&run->spawned.control_fd);
	close_agent_fds(run);
	for (size_t i = 0; i < run->supervision.relay_count; i++) {
		relay_give_back(&run->relays[i]);
		relay_end(&run->relays[i]);
	}
	close_fd(&run->supervision.master_fd);
	if (run->is_raw)
		pty_restore(STDIN_FILENO, &run->saved_mode);
	if (run->cgroup.backend)
		cgroup_close(&run->cgroup);
	if (run->plan)
		plan_free(run->plan);
	buf_fini(&run->out);
	buf_fini(&run->err);
}

static int open_cgroup(struct run *run, struct err *err)
{
	const struct warder_limits *asked = &run->spec->limits;
	struct cgroup_limits limits = {
		.memory_bytes = asked->memory_bytes,
		.pids = asked->pids ? asked->pids + 1 : 0, /* the sandbox's init is one */
		.cpu_milli = asked->cpu_milli,
	};
	char name[CGROUP_NAME_MAX - 16];

	snprintf(name, sizeof(name), "%s.%u.%d", run->plan->run_id, run->spec->attempt,
		 (int)getpid());
	return cgroup_open(&run->cgroup, run->spec->cgroup ? run->spec->cgroup : "auto", name,
			   &limits, err);
}

static int start_and_watch(struct run *run, struct err *err)
{
	int r = plan_new(run->spec, &run->plan, err);

	if (r == 0)
		r = open_cgroup(run, err);
	if (r == 0)
		r = set_up_stdio(run, err);
	if (r < 0)
		return r;
	run->supervision.plan = run->plan;
	run->supervision.start_ms = clock_now_ms();
	r = spawn_sandbox(run->plan, &run->cgroup, run->agent_fds, &run->spawned, err);
	close_agent_fds(run);
	if (r < 0)
		return r;
	supervise(&run->supervision);
	return 0;
}

/* ---- the result ---- */

static void say(struct warder_result *result, enum warder_error error, int exit_code,
		const char *fmt, ...) printf_like(4);

static void say(struct warder_result *result, enum warder_error error, int exit_code,
		const char *fmt, ...)
{
	va_list ap;

	result->error = error;
	result->exit_code = exit_code;
	va_start(ap, fmt);
	vsnprintf(result->message, sizeof(result->message), fmt, ap);
	va_end(ap);
}

static void judge_exit(const struct run *run, struct warder_result *result)
{
	int status = run->supervision.wait_status;

	if (WIFSIGNALED(status)) {
		result->signal = WTERMSIG(status);
		result->exit_code = 128 + result->signal;
	} else {
		result->exit_code = WEXITSTATUS(status);
	}
}

/* How it ended: the first of these that is true. */
static void judge(const struct run *run, struct warder_result *result)
{
	const struct supervision *seen = &run->supervision;
	struct cgroup_usage usage;

	run->cgroup.backend->measure(&run->cgroup, &usage);
	result->memory_peak_bytes = usage.memory_peak_bytes;
	if (seen->has_exited)
		judge_exit(run, result);
	if (seen->has_failed)
		say(result, WARDER_ERROR_CONTAINER_FAILED, seen->failure.value, "%s",
		    seen->failure.err.text);
	else if (usage.oom_kills > 0)
		say(result, WARDER_ERROR_OOM_KILLED, WARDER_EXIT_OOM,
		    "killed: the run needed more than its %" PRIu64 " bytes of memory",
		    run->plan->limits.memory_bytes);
	else if (seen->has_timed_out)
		say(result, WARDER_ERROR_TIMEOUT, WARDER_EXIT_TIMEOUT,
		    "ended: the deadline of %" PRIu64 " ms passed", run->plan->limits.timeout_ms);
	else if (!seen->has_exited)
		say(result, WARDER_ERROR_INTERNAL, WARDER_EXIT_FAILED,
		    "the sandbox was ended from outside (its init: status %d)", seen->init_status);
	else if (result->output_truncated)
		say(result, WARDER_ERROR_OUTPUT_TRUNCATED, result->exit_code,
		    "output beyond %" PRIu64 " bytes was dropped", run->plan->limits.output_bytes);
	result->ok = result->exit_code == 0 && (result->error == WARDER_ERROR_NONE ||
						result->error == WARDER_ERROR_OUTPUT_TRUNCATED);
}

static char *take_output(struct buf *buf, bool is_cut, size_t *ret_len)
{
	if (is_cut && buf->len > 0)
		buf->len = utf8_cut(buf->data, buf->len);
	return buf_take(buf, ret_len);
}

API int warder_run_once(const struct warder_spec *spec, struct warder_result *result)
{
	_cleanup_free_ struct run *run = calloc(1, sizeof(*run));
	uint64_t start_ms = clock_now_ms();
	struct err err = { 0 };
	int r;

	if (!run)
		die_no_memory();
	run_init(run, spec);
	*result = (struct warder_result){ .attempt = spec->attempt, .cgroup = "none" };
	r = start_and_watch(run, &err);
	if (run->plan)
		memcpy(result->run_id, run->plan->run_id, sizeof(result->run_id));
	if (run->cgroup.backend)
		result->cgroup = run->cgroup.backend->name;
	result->output_truncated = run->budget.is_exceeded;
	result->out = take_output(&run->out, run->budget.is_exceeded, &result->out_len);
	result->err = take_output(&run->err, run->budget.is_exceeded, &result->err_len);
	if (r < 0)
		say(result, WARDER_ERROR_CONTAINER_FAILED, WARDER_EXIT_FAILED, "%s", err.text);
	else
		judge(run, result);
	if (r == 0 && run->supervision.has_failed)
		r = run->supervision.failure.err.code ? -run->supervision.failure.err.code : -EIO;
	run_fini(run);
	result->duration_ms = clock_now_ms() - start_ms;
	return r;
}

API void warder_result_clear(struct warder_result *result)
{
	free(result->out);
	free(result->err);
	*result = (struct warder_result){ 0 };
}

API const char *warder_version(void)
{
	return WARDER_VERSION;
}
