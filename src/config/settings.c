/* SPDX-License-Identifier: MIT */
/* The settings of a run: the rows of settings.def, and the kinds that only they have. */
#include "config/settings.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "config/options.h"

#define MOUNTS_MAX 256
#define ENV_MAX    1024

/* "A:B" is A and B; without a colon, the whole is A. */
static const char *split(struct arena *arena, const char *text, const char **ret_second)
{
	const char *colon = strchr(text, ':');

	*ret_second = colon ? colon + 1 : NULL;
	return colon ? arena_printf(arena, "%.*s", (int)(colon - text), text) : text;
}

static int read_mount(void *data, const struct option *option, const char *text, struct err *err)
{
	struct run_config *config = data;
	struct warder_mount mount = { .mode = (enum warder_mount_mode)option->low };
	const char *second, *first = split(&config->arena, text, &second);

	if (config->mount_count == MOUNTS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d mounts", option->name, MOUNTS_MAX);
	if (!*first || (second && (!*second || strchr(second, ':'))))
		return err_say(err, EINVAL, "--%s: '%.100s' is not %s", option->name, text,
			       option->argument);
	if (mount.mode != WARDER_MOUNT_TMPFS) {
		mount.source = first;
		mount.dest = second;
	} else {
		mount.dest = first;
		if (second &&
		    (units_parse_size(second, &mount.size_bytes) < 0 || mount.size_bytes < 4096))
			return err_say(err, EINVAL, "--tmpfs: '%.40s' is not a size such as 64M",
				       second);
	}
	if (!config->mounts)
		config->mounts = arena_alloc(&config->arena, MOUNTS_MAX * sizeof(mount));
	config->mounts[config->mount_count++] = mount;
	return 0;
}

static bool is_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

		if (!is_letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return len > 0;
}

static int read_env(void *data, const struct option *option, const char *text, struct err *err)
{
	struct run_config *config = data;
	size_t len = strcspn(text, "=");

	if (config->env_count == ENV_MAX)
		return err_say(err, E2BIG, "--env: more than %d variables", ENV_MAX);
	if (!is_name(text, len))
		return err_say(err, EINVAL, "--env: '%.*s' is not a variable's name",
			       (int)(len > 40 ? 40 : len), text);
	if (!text[len]) {
		const char *value = getenv(text);

		if (!value)
			return err_say(err, ENOENT,
				       "--env: %.40s is not set here; write %.40s=VALUE to set it",
				       text, text);
		text = arena_printf(&config->arena, "%s=%s", text, value);
	}
	if (strncmp(text, "RUN_ID=", 7) == 0)
		return err_say(err, EINVAL, "--env: RUN_ID is set by warder; use --run-id");
	if (!config->env)
		config->env = arena_alloc(&config->arena, (ENV_MAX + 1) * sizeof(*config->env));
	config->env[config->env_count++] = text;
	(void)option;
	return 0;
}

static const struct option rows[] = {
#define FLAG     OPTION_FLAG, NULL
#define STRING   OPTION_STRING, NULL
#define CHOICE   OPTION_CHOICE, NULL
#define RUN_ID   OPTION_RUN_ID, NULL
#define COUNT    OPTION_COUNT, NULL
#define SIZE     OPTION_SIZE, NULL
#define DURATION OPTION_DURATION, NULL
#define MILLI    OPTION_MILLI, NULL
#define MOUNT    OPTION_OWN, read_mount
#define ENV      OPTION_OWN, read_env
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{                                                                                          \
		name,     letter, kind,  offsetof(struct run_config, field), low, high,            \
		argument, help,   detail                                                           \
	},
#include "config/settings.def"
#undef SETTING
};

static const struct option_table table = { "run", rows, ARRAY_LEN(rows) };

int run_config_parse(struct run_config *config, int argc, char **argv, struct err *err)
{
	int rest, r;

	*config = (struct run_config){ .cgroup = "auto" };
	r = options_parse(&table, config, argc, argv, &rest, err);
	config->argv = (const char *const *)argv + rest;
	if (r == 0 && rest >= argc && !config->help)
		r = err_say(err, EINVAL,
			    "no command; write 'warder run [options] -- COMMAND [ARG...]'");
	return r;
}

void run_config_fini(struct run_config *config)
{
	arena_fini(&config->arena);
}

void run_config_print_help(FILE *out)
{
	options_print_help(&table, out);
}

void run_config_print_mdoc(FILE *out)
{
	options_print_mdoc(&table, out);
}
