/* SPDX-License-Identifier: MIT */
/* Commands whose output is a secret. */
#include "keeper/command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/die.h"
#include "keeper/secret.h"
#include "sys/fd.h"
#include "sys/pidfd.h"

struct command {
	struct command_config config;
	struct loop *loop;
	struct loop_source output, process;
	struct loop_timer timer;
	int output_fd, process_fd;
	pid_t pid;
	bool is_done;
	int failure; /* 0 or -errno, when it is done */
	int status;  /* as waitpid has it, when it has ended by itself */
	size_t len;
	char bytes[SECRET_MAX + 1];
};

/* ---- starting ---- */

/* Whatever we have blocked and ignored is our own affair. */
static int set_attributes(posix_spawnattr_t *attributes, bool is_apart)
{
	sigset_t none, all;
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	if (is_apart)
		flags |= POSIX_SPAWN_SETPGROUP; /* 0 by default: its own */
	r = posix_spawnattr_setflags(attributes, flags);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	return r ? r : posix_spawnattr_setsigdefault(attributes, &all);
}

static int set_actions(posix_spawn_file_actions_t *actions, int out_fd, bool is_apart)
{
	int r = posix_spawn_file_actions_adddup2(actions, out_fd, STDOUT_FILENO);

	if (r == 0 && is_apart)
		r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY,
						     0);
	return r;
}

static int spawn(const struct command_config *config, int out_fd, pid_t *ret_pid)
{
	const char *const argv[] = { "sh", "-c", config->text, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
		die_no_memory();
	r = set_attributes(&attributes, config->is_apart);
	if (r == 0)
		r = set_actions(&actions, out_fd, config->is_apart);
	if (r == 0)
		r = posix_spawn(ret_pid, "/bin/sh", &actions, &attributes, (char *const *)argv,
				environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

/* ---- ending ---- */

/*
 * Nobody has waited for it until here, so its number, and that of its group, is still its own.
 * What is killed ends at once.
 */
static void end(struct command *command, int failure)
{
	pid_t r;

	loop_cancel(command->loop, &command->timer);
	loop_remove(command->loop, &command->output);
	loop_remove(command->loop, &command->process);
	close_fd(&command->output_fd);
	if (failure < 0)
		kill(command->config.is_apart ? -command->pid : command->pid, SIGKILL);
	while ((r = waitpid(command->pid, &command->status, 0)) < 0 && errno == EINTR)
		;
	if (r < 0 && failure == 0)
		failure = -errno; /* how it has ended nobody knows */
	close_fd(&command->process_fd);
	command->is_done = true;
	command->failure = failure;
}

static void finish(struct command *command, int failure, uint64_t now_ms)
{
	end(command, failure);
	if (command->config.on_done)
		command->config.on_done(command, now_ms);
}

static void on_output(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct command *command = OWNER_OF(source, struct command, output);
	ssize_t n = read(source->fd, command->bytes + command->len,
			 sizeof(command->bytes) - command->len);

	(void)ready;
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			finish(command, -errno, now_ms);
		return;
	}
	command->len += (size_t)n;
	if (command->len > SECRET_MAX) {
		finish(command, -E2BIG, now_ms);
	} else if (n == 0) {
		loop_remove(command->loop, &command->output);
		if (command->process.fd < 0)
			finish(command, 0, now_ms);
	}
}

static void on_exit_seen(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct command *command = OWNER_OF(source, struct command, process);

	(void)ready;
	loop_remove(command->loop, &command->process);
	if (command->output.fd < 0)
		finish(command, 0, now_ms);
}

static void on_time_over(struct loop_timer *timer, uint64_t now_ms)
{
	finish(OWNER_OF(timer, struct command, timer), -ETIMEDOUT, now_ms);
}

/* ---- all of it ---- */

static int watch(struct command *command)
{
	int r;

	command->process_fd = pidfd_of(command->pid);
	if (command->process_fd < 0)
		return command->process_fd;
	r = loop_add(command->loop, &command->output, command->output_fd, LOOP_READ);
	if (r == 0)
		r = loop_add(command->loop, &command->process, command->process_fd, LOOP_READ);
	loop_set_timer(command->loop, &command->timer, clock_now_ms() + command->config.most_ms);
	return r;
}

int command_start(struct loop *loop, const struct command_config *config,
		  struct command **ret_command, struct err *err)
{
	struct command *command = calloc(1, sizeof(*command));
	int fds[2], r = 0;

	if (!command)
		die_no_memory();
	command->config = *config;
	command->loop = loop;
	command->output = (struct loop_source){ .fd = -1, .on_ready = on_output };
	command->process = (struct loop_source){ .fd = -1, .on_ready = on_exit_seen };
	command->timer.on_due = on_time_over;
	command->output_fd = command->process_fd = -1;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		r = -errno;
	} else {
		command->output_fd = fds[0];
		r = spawn(config, fds[1], &command->pid);
		close(fds[1]);
	}
	if (r < 0) {
		close_fd(&command->output_fd);
		command->is_done = true;
	} else {
		r = fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : watch(command);
	}
	if (r < 0) {
		command_free(command);
		return err_set(err, -r, "secret exec:%.200s", config->text);
	}
	*ret_command = command;
	return 0;
}

int command_run(const struct command_config *config, struct command **ret_command, struct err *err)
{
	struct command_config alone = *config;
	struct loop loop;
	int r = loop_init(&loop);

	alone.on_done = NULL;
	if (r < 0)
		return err_set(err, -r, "create an event loop");
	r = command_start(&loop, &alone, ret_command, err);
	while (r == 0 && !(*ret_command)->is_done) {
		r = loop_turn(&loop, -1);
		if (r < 0) {
			err_set(err, -r, "secret exec:%.200s", config->text);
			command_free(*ret_command);
		}
	}
	loop_fini(&loop);
	return r;
}

int command_output(const struct command *command, struct bytes *ret_output, struct err *err)
{
	int status = command->status;

	if (command->failure == -ETIMEDOUT)
		return err_say(err, ETIMEDOUT,
			       "secret exec:%.200s: the command has not ended within %" PRIu64
			       " s, and was ended",
			       command->config.text, command->config.most_ms / 1000);
	if (command->failure == -E2BIG)
		return err_say(err, E2BIG, "secret exec:%.200s is longer than %d bytes",
			       command->config.text, SECRET_MAX);
	if (command->failure < 0)
		return err_set(err, -command->failure, "secret exec:%.200s", command->config.text);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_say(err, EIO, "secret exec:%.200s: the command failed (status %d)",
			       command->config.text,
			       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	*ret_output = (struct bytes){ command->bytes, command->len };
	return 0;
}

const char *command_text(const struct command *command)
{
	return command->config.text;
}

void *command_owner(const struct command *command)
{
	return command->config.owner;
}

void command_free(struct command *command)
{
	if (!command)
		return;
	if (!command->is_done)
		end(command, -ECANCELED);
	explicit_bzero(command, sizeof(*command));
	free(command);
}
