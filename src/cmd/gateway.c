/* SPDX-License-Identifier: MIT */
/* The second program, which lies beside this one or where it was installed. */
#include "cmd/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/die.h"
#include "cmd/cmd.h"
#include "config/settings.h"
#include "sys/pidfd.h"
#include "sys/status.h"
#include "warder.h"

#define PROGRAM   "warder-gateway"
#define SHARED    "warder-keeper"
#define WORDS_MAX 1100
#define STOP_MS   5000 /* for the last records to be written */

/* Where a program is; the installed place when it is nowhere. */
static const char *find_program(const char *name, char *ret_path, size_t size)
{
	char own[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (len > 0) {
		own[len] = '\0';
		snprintf(ret_path, size, "%s/%s", dirname(own), name);
		if (access(ret_path, X_OK) == 0)
			return ret_path;
	}
	snprintf(ret_path, size, WARDER_LIBEXECDIR "/%s", name);
	return ret_path;
}

static int say_cannot_run(struct err *err, int error, const char *path)
{
	err_set(err, error, "run %.300s", path);
	err_hint(err, "it belongs to warder; install it again");
	return -error;
}

static int become(const char *name, char **argv)
{
	char found[PATH_MAX + sizeof(PROGRAM) + 1];
	const char *path = find_program(name, found, sizeof(found));
	struct err err;

	execv(path, argv - 1);
	say_cannot_run(&err, errno, path);
	fprintf(stderr, "warder: %s\n", err.text);
	return WARDER_EXIT_FAILED;
}

/* Verbs that are wholly the second program's, or the third's. */
int cmd_gateway(int argc, char **argv)
{
	(void)argc;
	return become(PROGRAM, argv);
}

int cmd_gateway_keeper(int argc, char **argv)
{
	(void)argc;
	return become(SHARED, argv);
}

/* ---- starting ---- */

/* In a session of its own: what is typed at the terminal is for the run. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
							 POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	return r ? r : posix_spawnattr_setsigdefault(attributes, &all);
}

/* 0 is /dev/null, 1 and 2 are our stderr, 3 and 4 are `fds`; the rest closes by itself. */
static int set_actions(posix_spawn_file_actions_t *actions, const int fds[2])
{
	int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);

	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, 2, 1);
	for (int i = 0; r == 0 && i < 2; i++)
		r = posix_spawn_file_actions_adddup2(actions, fds[i], 3 + i);
	return r;
}

/* Moves a descriptor out of the way of 3 and 4. */
static int move_up(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, 10);

	if (high < 0)
		return -errno;
	close(*fd);
	*fd = high;
	return 0;
}

static int spawn(const char *const *argv, char *const *env, const int fds[2], pid_t *ret_pid,
		 struct err *err)
{
	char found[PATH_MAX + sizeof(PROGRAM) + 1];
	const char *path = find_program(PROGRAM, found, sizeof(found));
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
		die_no_memory();
	r = set_attributes(&attributes);
	if (r == 0)
		r = set_actions(&actions, fds);
	if (r == 0)
		r = posix_spawn(ret_pid, path, &actions, &attributes, (char *const *)argv, env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (r) {
		*ret_pid = 0;
		return say_cannot_run(err, r, path);
	}
	return 0;
}

static int make_pair(int type, int *ret_ours, int *ret_theirs)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	r = move_up(ret_ours);
	return r < 0 ? r : move_up(ret_theirs);
}

static int start_keeper(struct gateway *gateway, const struct gateway_run *run, int status_fd,
			int link_fd, struct err *err)
{
	const char *argv[WORDS_MAX + 16] = { PROGRAM, "keeper" };
	size_t count = 2;
	char attempt[24];

	if (run->word_count > WORDS_MAX)
		return err_say(err, E2BIG, "too many options");
	if (run->config || run->config_variable) {
		argv[count++] = run->config ? "--config" : "--config-variable";
		argv[count++] = run->config ? run->config : run->config_variable;
	}
	for (size_t i = 0; i < run->word_count; i++)
		argv[count++] = run->words[i];
	snprintf(attempt, sizeof(attempt), "%" PRIu64, run->attempt);
	argv[count++] = "--attempt";
	argv[count++] = attempt;
	if (run->run_id) {
		argv[count++] = "--run-id";
		argv[count++] = run->run_id;
	}
	if (run->token_secret) {
		argv[count++] = "--token-secret";
		argv[count++] = run->token_secret;
	}
	if (run->learn) {
		argv[count++] = "--learn";
		argv[count++] = run->learn;
	}
	if (run->is_verbose)
		argv[count++] = "--verbose";
	argv[count] = NULL;
	return spawn(argv, environ, (const int[]){ status_fd, link_fd }, &gateway->keeper, err);
}

/* An environment of its own, which is empty. */
static int start_gate(struct gateway *gateway, const struct gateway_run *run, int control_fd,
		      int link_fd, struct err *err)
{
	static char *const no_env[] = { NULL };
	char connections[24];
	const char *const argv[] = { PROGRAM, "gate", connections,
				     run->has_egress ? run->run_id : NULL, NULL };

	snprintf(connections, sizeof(connections), "%" PRIu64, run->connections);
	return spawn(argv, no_env, (const int[]){ control_fd, link_fd }, &gateway->gate, err);
}

/* ---- our own copy of what only the keeper may have ---- */

static void wipe_source(const char *source)
{
	char *value;

	if (!source || strncmp(source, "env:", 4) != 0)
		return;
	value = getenv(source + 4);
	if (value)
		explicit_bzero(value, strlen(value));
}

bool gateway_wipe_words(struct bytes words)
{
	static const struct bytes of_hosts[] = { BYTES("--allow-net"), BYTES("--secret"),
						 BYTES("--service") };
	struct bytes word, source;
	bool has_hosts = false;

	while (bytes_split(&words, '\0', &word) && bytes_split(&words, '\0', &source)) {
		if (bytes_equal(word, BYTES("--llm-key")))
			wipe_source(source.data);
		for (size_t i = 0; i < ARRAY_LEN(of_hosts); i++)
			has_hosts = has_hosts || bytes_equal(word, of_hosts[i]);
	}
	return !has_hosts;
}

void gateway_wipe_sources(const struct keeper_config *config)
{
	for (size_t i = 0; i < config->llm_count; i++)
		wipe_source(config->llms[i].key);
	for (size_t i = 0; i < config->secret_count; i++)
		wipe_source(config->secrets[i].source);
}

int gateway_start(struct gateway *gateway, const struct gateway_run *run,
		  const struct keeper_config *config, struct err *err)
{
	_cleanup_close_ int status_fd = -1, control_fd = -1, keeper_end = -1, gate_end = -1;
	int r = make_pair(SOCK_SEQPACKET, &gateway->status_fd, &status_fd);

	if (r == 0)
		r = make_pair(SOCK_SEQPACKET, &gateway->control_fd, &control_fd);
	if (r == 0)
		r = make_pair(SOCK_STREAM, &keeper_end, &gate_end);
	if (r < 0)
		return err_set(err, -r, "create the gateway's sockets");
	if (!run->config_variable)
		wipe_source("env:" RUN_CONFIG_VARIABLE); /* nobody needs it */
	r = start_keeper(gateway, run, status_fd, keeper_end, err);
	wipe_source("env:" RUN_CONFIG_VARIABLE);
	gateway_wipe_sources(config);
	wipe_source(run->token_secret);
	if (r == 0)
		r = start_gate(gateway, run, control_fd, gate_end, err);
	return r;
}

static int keep_link(struct gateway *gateway, int *fd)
{
	if (*fd < 0 || gateway->link_fd >= 0)
		return -EPROTO;
	gateway->link_fd = take_fd(fd);
	return move_up(&gateway->link_fd);
}

int gateway_receive(struct gateway *gateway, int wait_ms, char *ret_text, size_t *ret_len)
{
	_cleanup_close_ int fd = -1;
	int type = status_receive_passed(gateway->status_fd, wait_ms, ret_text, ret_len, &fd);
	int r = type == STATUS_LINK ? keep_link(gateway, &fd) : 0;

	return r < 0 ? r : type;
}

int gateway_start_carrier(struct gateway *gateway, const char *to, const char *ca,
			  const char *token, struct err *err)
{
	const char *const argv[] = { PROGRAM, "carrier",          "--to", to,  "--token",
				     token,   ca ? "--ca" : NULL, ca,     NULL };
	_cleanup_close_ int status_fd = -1, link_fd = -1;
	int r = make_pair(SOCK_SEQPACKET, &gateway->status_fd, &status_fd);

	if (r == 0)
		r = make_pair(SOCK_STREAM, &link_fd, &gateway->link_fd);
	if (r < 0)
		return err_set(err, -r, "create the gateway's sockets");
	r = spawn(argv, environ, (const int[]){ status_fd, link_fd }, &gateway->keeper, err);
	wipe_source(token);
	return r;
}

int gateway_start_gate(struct gateway *gateway, const struct gateway_run *run, struct err *err)
{
	_cleanup_close_ int control_fd = -1;
	int r;

	if (gateway->link_fd < 0)
		return err_say(err, EPROTO, "the keeper has sent no link; is it of this version?");
	r = make_pair(SOCK_SEQPACKET, &gateway->control_fd, &control_fd);
	if (r < 0)
		return err_set(err, -r, "create the gateway's sockets");
	r = start_gate(gateway, run, control_fd, gateway->link_fd, err);
	close_fd(&gateway->link_fd);
	return r;
}

/* ---- stopping ---- */

/* Until it has ended, or the deadline has come. */
static void wait_for_end(pid_t pid, uint64_t deadline_ms)
{
	_cleanup_close_ int fd = pidfd_of(pid);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint64_t now_ms;

	while (fd >= 0 && (now_ms = clock_now_ms()) < deadline_ms &&
	       poll(&poll_fd, 1, (int)(deadline_ms - now_ms)) < 0 && errno == EINTR)
		;
}

/* One that does not end by itself is ended. */
static bool reap(pid_t *pid, uint64_t deadline_ms)
{
	int status = 0;
	pid_t r;

	if (*pid == 0)
		return false;
	wait_for_end(*pid, deadline_ms);
	r = waitpid(*pid, &status, WNOHANG);
	if (r == 0) {
		kill(*pid, SIGKILL);
		while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	*pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void note_refused(struct gateway_summary *summary, const char *name)
{
	if (summary->refused_host_count < ARRAY_LEN(summary->refused_hosts))
		snprintf(summary->refused_hosts[summary->refused_host_count++],
			 sizeof(summary->refused_hosts[0]), "%s", name);
}

/* The keeper's last words; what it said before them is passed over. */
static void read_summary(int status_fd, uint64_t deadline_ms, struct gateway_summary *summary)
{
	_cleanup_free_ char *text = malloc(STATUS_TEXT_MAX + 1);
	uint64_t now_ms;
	int path_at = 0;

	if (!text)
		die_no_memory();
	while ((now_ms = clock_now_ms()) < deadline_ms) {
		int type = status_receive(status_fd, (int)(deadline_ms - now_ms), text, NULL);

		if (type <= 0)
			return;
		if (type == STATUS_REFUSED)
			note_refused(summary, text);
		if (type == STATUS_LEARNED)
			summary->learned = strtoull(text, NULL, 10);
		if (type != STATUS_SUMMARY ||
		    sscanf(text, "%" SCNu64 " %" SCNu64 " %n", &summary->allowed, &summary->refused,
			   &path_at) != 2 ||
		    path_at == 0)
			continue;
		snprintf(summary->audit, sizeof(summary->audit), "%s", text + path_at);
		summary->is_complete = true;
	}
}

void gateway_stop(struct gateway *gateway, struct gateway_summary *ret_summary)
{
	uint64_t deadline_ms = clock_now_ms() + STOP_MS;

	*ret_summary = (struct gateway_summary){ .is_complete = false };
	close_fd(&gateway->control_fd);
	/* A keeper that waits for its go is told that there is none; what it says is still heard.
	 */
	if (gateway->status_fd >= 0)
		shutdown(gateway->status_fd, SHUT_WR);
	close_fd(&gateway->link_fd);
	if (gateway->status_fd >= 0)
		read_summary(gateway->status_fd, deadline_ms, ret_summary);
	close_fd(&gateway->status_fd); /* the keeper ends with it, whatever the gate does */
	if (!reap(&gateway->gate, deadline_ms))
		ret_summary->is_complete = false;
	if (gateway->keeper && !reap(&gateway->keeper, deadline_ms))
		ret_summary->is_complete = false;
}
