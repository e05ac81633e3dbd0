/* SPDX-License-Identifier: MIT */
/* Secrets and where they come from. */
#include "keeper/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/die.h"
#include "sys/fd.h"

#define VARIABLES_MAX 64
#define LENT_MAX      64

/* How long a command may take. */
#define EXEC_MS 30000

struct secret {
	size_t len;
	char value[SECRET_MAX + 1];
};

static struct secret *secret_new(void)
{
	struct secret *secret = calloc(1, sizeof(*secret));

	if (!secret)
		die_no_memory();
	return secret;
}

/* The variables that secrets came from; another may come from the same. */
static const char *variables[VARIABLES_MAX];
static size_t variable_count;

static void note_variable(const char *name)
{
	if (variable_count < VARIABLES_MAX)
		variables[variable_count++] = name;
}

/* What a configuration file has itself. */
static struct {
	const char *name;
	char *value;
} lent[LENT_MAX];
static size_t lent_count;

void secret_lend(const char *name, char *value)
{
	assert(lent_count < LENT_MAX);
	lent[lent_count].name = name;
	lent[lent_count++].value = value;
}

static void wipe(char *value)
{
	if (value)
		explicit_bzero(value, strlen(value));
}

void secret_forget_lent(void)
{
	variable_count = 0;
	while (lent_count > 0)
		wipe(lent[--lent_count].value);
}

void secret_forget_sources(void)
{
	while (variable_count > 0)
		wipe(getenv(variables[--variable_count]));
	secret_forget_lent();
}

static int take_text(const char *kind, const char *name, const char *value, struct secret *secret,
		     struct err *err)
{
	secret->len = strlen(value);
	if (secret->len > SECRET_MAX)
		return err_say(err, E2BIG, "secret %s:%.60s is longer than %d bytes", kind, name,
			       SECRET_MAX);
	memcpy(secret->value, value, secret->len);
	return 0;
}

static int read_lent(const char *name, struct secret *secret, struct err *err)
{
	for (size_t i = 0; i < lent_count; i++)
		if (strcmp(lent[i].name, name) == 0)
			return take_text("config", name, lent[i].value, secret, err);
	return err_say(err, ENOENT, "secret config:%.60s: no configuration file has such a value",
		       name);
}

static int read_env(const char *name, struct secret *secret, struct err *err)
{
	const char *value = getenv(name);

	if (!value)
		return err_say(err, ENOENT, "secret env:%.60s: the variable is not set", name);
	note_variable(name);
	return take_text("env", name, value, secret, err);
}

static void drop_line_end(struct secret *secret)
{
	if (secret->len > 0 && secret->value[secret->len - 1] == '\n')
		secret->len--;
	if (secret->len > 0 && secret->value[secret->len - 1] == '\r')
		secret->len--;
}

static int read_file(const char *path, struct secret *secret, struct err *err)
{
	ssize_t len = fd_read_file(AT_FDCWD, path, secret->value, sizeof(secret->value));

	if (len == -EFBIG)
		return err_say(err, E2BIG, "secret file:%.200s is longer than %d bytes", path,
			       SECRET_MAX);
	if (len < 0)
		return err_set(err, (int)-len, "secret file:%.200s", path);
	secret->len = (size_t)len;
	drop_line_end(secret);
	return 0;
}

/* Reads to the end, for a time; 0 or -errno. */
static int read_pipe(int fd, struct secret *secret)
{
	uint64_t deadline_ms = clock_now_ms() + EXEC_MS, now_ms;
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	while ((now_ms = clock_now_ms()) < deadline_ms) {
		ssize_t n;

		if (poll(&ready, 1, (int)(deadline_ms - now_ms)) <= 0)
			continue;
		n = read(fd, secret->value + secret->len, sizeof(secret->value) - secret->len);
		if (n == 0)
			return 0;
		if (n < 0)
			return -errno;
		secret->len += (size_t)n;
		if (secret->len > SECRET_MAX)
			return -E2BIG;
	}
	return -ETIMEDOUT;
}

static int start_command(const char *command, int out_fd, pid_t *ret_pid)
{
	const char *const argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(ret_pid, "/bin/sh", &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int read_exec(const char *command, struct secret *secret, struct err *err)
{
	_cleanup_close_ int out_fd = -1, in_fd = -1;
	int fds[2], status = 0, r;
	pid_t pid = 0;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "create a pipe");
	in_fd = fds[0];
	out_fd = fds[1];
	r = start_command(command, out_fd, &pid);
	if (r < 0)
		return err_set(err, -r, "secret exec:%.200s", command);
	close_fd(&out_fd);
	r = read_pipe(in_fd, secret);
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_set(err, -r, "secret exec:%.200s", command);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_say(err, EIO, "secret exec:%.200s: the command failed (status %d)",
			       command,
			       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	drop_line_end(secret);
	return 0;
}

static const struct {
	const char *prefix;
	int (*read)(const char *what, struct secret *secret, struct err *err);
} sources[] = {
	{ "env:", read_env },
	{ "file:", read_file },
	{ "exec:", read_exec },
	{ "config:", read_lent },
};

int secret_open(const char *source, struct secret **ret_secret, struct err *err)
{
	struct secret *secret;
	int r = -EINVAL;

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		size_t len = strlen(sources[i].prefix);

		if (strncmp(source, sources[i].prefix, len) != 0)
			continue;
		secret = secret_new();
		r = sources[i].read(source + len, secret, err);
		if (r == 0 && secret->len == 0)
			r = err_say(err, ENODATA, "secret %.200s is empty", source);
		if (r == 0)
			*ret_secret = secret;
		else
			secret_free(secret);
		return r;
	}
	/* It may be the secret itself, given by mistake: it is not repeated. */
	return err_say(err, EINVAL, "a secret comes from env:NAME, file:PATH or exec:COMMAND");
}

struct bytes secret_get(const struct secret *secret)
{
	return (struct bytes){ secret->value, secret->len };
}

void secret_free(struct secret *secret)
{
	if (!secret)
		return;
	explicit_bzero(secret, sizeof(*secret));
	free(secret);
}
