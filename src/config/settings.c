/* SPDX-License-Identifier: MIT */
/* The settings of a run: the rows of settings.def, and the kinds that only they have. */
#include "config/settings.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "config/options.h"
#include "config/url.h"

#define MOUNTS_MAX 256
#define ENV_MAX    1024
#define WORDS_MAX  4096

#define DEFAULT_LLM_PORT 8080

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

int run_config_add_mount(struct run_config *config, const struct warder_mount *mount,
			 struct err *err)
{
	if (config->mount_count == MOUNTS_MAX)
		return err_say(err, E2BIG, "more than %d mounts", MOUNTS_MAX);
	if (!config->mounts)
		config->mounts = arena_alloc(&config->arena, MOUNTS_MAX * sizeof(*config->mounts));
	config->mounts[config->mount_count++] = *mount;
	return 0;
}

static int read_env(void *data, const struct option *option, const char *text, struct err *err)
{
	struct run_config *config = data;
	size_t len = strcspn(text, "=");

	if (config->env_count == ENV_MAX)
		return err_say(err, E2BIG, "--env: more than %d variables", ENV_MAX);
	if (!option_is_variable(text, len))
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

/* A setting of the keeper: understood here, and passed on as it is. */
static int read_keeper(void *data, const struct option *option, const char *text, struct err *err)
{
	struct run_config *config = data;

	if (config->keeper_word_count + 2 > WORDS_MAX)
		return err_say(err, E2BIG, "--%s: too many options", option->name);
	if (!config->keeper_words)
		config->keeper_words = arena_alloc(&config->arena,
						   (WORDS_MAX + 1) * sizeof(char *));
	config->keeper_words[config->keeper_word_count++] = arena_printf(&config->arena, "--%s",
									 option->name);
	config->keeper_words[config->keeper_word_count++] = text;
	return keeper_config_apply(&config->keeper, option->name, text, err);
}

/* Both of its forms, as a whole; the parts are read again by whoever dials. */
static int read_keeper_address(void *data, const struct option *option, const char *text,
			       struct err *err)
{
	struct run_config *config = data;
	const char *host;
	struct err ignored;
	uint16_t port;
	bool is_good = strncmp(text, "unix:", 5) == 0 && text[5];

	if (strncmp(text, "tls:", 4) == 0)
		is_good = url_parse_address(text + 4, &config->arena, &host, &port, &ignored) == 0;
	if (!is_good)
		return err_say(err, EINVAL, "--%s: '%.100s' is not %s", option->name, text,
			       option->argument);
	config->keeper_address = text;
	return 0;
}

static int read_keeper_token(void *data, const struct option *option, const char *text,
			     struct err *err)
{
	struct run_config *config = data;
	int r = keeper_check_outer_source(option->name, text, err);

	if (r == 0)
		config->keeper_token = text;
	return r;
}

static const struct option rows[] = {
#define FLAG           OPTION_FLAG, NULL
#define STRING         OPTION_STRING, NULL
#define CHOICE         OPTION_CHOICE, NULL
#define RUN_ID         OPTION_RUN_ID, NULL
#define COUNT          OPTION_COUNT, NULL
#define SIZE           OPTION_SIZE, NULL
#define DURATION       OPTION_DURATION, NULL
#define MILLI          OPTION_MILLI, NULL
#define MOUNT          OPTION_OWN, read_mount
#define ENV            OPTION_OWN, read_env
#define KEEPER_ADDRESS OPTION_OWN, read_keeper_address
#define KEEPER_TOKEN   OPTION_OWN, read_keeper_token
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{                                                                                          \
		name,     letter, kind,  offsetof(struct run_config, field), low, high,            \
		argument, help,   detail                                                           \
	},
#include "config/settings.def"
#undef SETTING
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{ name, letter, OPTION_OWN, read_keeper, 0, low, high, argument, help, detail },
#include "config/keeper.def"
#undef SETTING
};

static const struct option_table table = { "run", rows, ARRAY_LEN(rows) };

bool run_config_has_egress(const struct run_config *config)
{
	return config->keeper.rule_count > 0 || config->keeper.secret_count > 0 || config->learn;
}

bool run_config_has_file(const struct run_config *config)
{
	return config->config || config->config_variable;
}

bool run_config_has_gateway(const struct run_config *config)
{
	return config->keeper_word_count > 0 || run_config_has_file(config) ||
	       config->llm_socket.path || config->learn || config->keeper_address;
}

/* The words of a file, one after the other. */
static int read_words(struct run_config *config, struct bytes words, struct err *err)
{
	const char **argv = arena_alloc(&config->arena, (2 * WORDS_MAX + 2) * sizeof(*argv));
	int argc = 1, rest;
	struct bytes word;

	argv[0] = "run";
	while (argc <= 2 * WORDS_MAX && bytes_split(&words, '\0', &word))
		argv[argc++] = word.data;
	return options_parse(&table, config, argc, (char **)argv, &rest, err);
}

int run_config_add_words(struct run_config *config, struct bytes words, struct err *err)
{
	const char **env = config->env;
	size_t count = config->env_count;
	int r;

	/* Before the caller's variables, which follow and so count. */
	config->env = NULL;
	config->env_count = 0;
	r = read_words(config, words, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = options_apply(&table, config, "env", env[i], err);
	return r;
}

int run_config_parse_again(struct run_config *config, struct bytes words, int argc, char **argv,
			   struct err *err)
{
	const char *variable = config->config_variable;
	bool covers_config = config->covers_config;
	int rest, r;

	run_config_fini(config);
	*config = (struct run_config){
		.cgroup = "auto",
		.capture = "auto",
		.llm_port = DEFAULT_LLM_PORT,
		.config_variable = variable,
		.covers_config = covers_config,
	};
	keeper_config_init(&config->keeper);
	r = read_words(config, words, err);
	if (r == 0)
		r = options_parse(&table, config, argc, argv, &rest, err);
	if (r == 0)
		config->argv = (const char *const *)argv + rest;
	return r;
}

/* What a shared keeper is told of a run beside its name. */
static bool is_of_run(const char *option)
{
	return strcmp(option, "--billing-account") == 0 || strcmp(option, "--metadata") == 0;
}

/* With a shared keeper, what only one of the run's own would do is refused (INV-FAIL-CLOSED). */
static int check_shared(const struct run_config *config, struct err *err)
{
	for (size_t i = 0; i < config->keeper_word_count; i += 2)
		if (!is_of_run(config->keeper_words[i]))
			return err_say(err, EINVAL,
				       "%s: the keeper decides; leave it to its configuration",
				       config->keeper_words[i]);
	if (config->config || config->learn)
		return err_say(err, EINVAL,
			       "--%s: needs a keeper of the run's own; leave it or --keeper away",
			       config->config ? "config" : "learn");
	if (strncmp(config->keeper_address, "tls:", 4) == 0 && !config->keeper_token)
		return err_say(err, EINVAL,
			       "--keeper: a keeper on another machine needs --keeper-token SOURCE, "
			       "by which it knows the run");
	if (strncmp(config->keeper_address, "unix:", 5) == 0 &&
	    (config->keeper_token || config->keeper_ca))
		return err_say(err, EINVAL,
			       "--%s: is for a keeper on another machine; this one knows who asks",
			       config->keeper_token ? "keeper-token" : "keeper-ca");
	return 0;
}

static int check_keeper(const struct run_config *config, struct err *err)
{
	if (config->keeper_address)
		return check_shared(config, err);
	if (config->keeper_token || config->keeper_ca)
		return err_say(err, EINVAL, "--%s: belongs to --keeper tls:HOST:PORT",
			       config->keeper_token ? "keeper-token" : "keeper-ca");
	return 0;
}

int run_config_parse(struct run_config *config, int argc, char **argv, struct err *err)
{
	int rest, r;

	*config = (struct run_config){ .cgroup = "auto",
				       .capture = "auto",
				       .llm_port = DEFAULT_LLM_PORT };
	keeper_config_init(&config->keeper);
	r = options_parse(&table, config, argc, argv, &rest, err);
	config->argv = (const char *const *)argv + rest;
	if (r == 0)
		r = check_keeper(config, err);
	if (r == 0 && rest >= argc && !config->help)
		r = err_say(err, EINVAL,
			    "no command; write 'warder run [options] -- COMMAND [ARG...]'");
	return r;
}

void run_config_fini(struct run_config *config)
{
	keeper_config_fini(&config->keeper);
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
