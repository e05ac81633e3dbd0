/* SPDX-License-Identifier: MIT */
/* Secrets and where they come from. */
#include "keeper/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include "base/die.h"
#include "keeper/command.h"
#include "sys/fd.h"

#define VARIABLES_MAX 64
#define LENT_MAX      64

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

/* Commands that were run before they are needed. */
static const struct command *outputs[SECRET_OUTPUTS_MAX];
static size_t output_count;

void secret_lend_output(const struct command *command)
{
	assert(output_count < SECRET_OUTPUTS_MAX);
	outputs[output_count++] = command;
}

void secret_forget_outputs(void)
{
	output_count = 0;
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

/* One that was run already, or that we run ourselves: then it may ask at our terminal. */
static int find_output(const char *text, struct command **ret_own, struct bytes *ret_output,
		       struct err *err)
{
	const struct command_config config = { .text = text, .most_ms = COMMAND_MS };
	int r;

	*ret_own = NULL;
	for (size_t i = 0; i < output_count; i++)
		if (strcmp(command_text(outputs[i]), text) == 0)
			return command_output(outputs[i], ret_output, err);
	r = command_run(&config, ret_own, err);
	return r < 0 ? r : command_output(*ret_own, ret_output, err);
}

static int read_exec(const char *text, struct secret *secret, struct err *err)
{
	struct command *own;
	struct bytes output;
	int r = find_output(text, &own, &output, err);

	if (r == 0) {
		memcpy(secret->value, output.data, output.len);
		secret->len = output.len;
		drop_line_end(secret);
	}
	command_free(own);
	return r;
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
