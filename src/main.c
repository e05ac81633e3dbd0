/* SPDX-License-Identifier: MIT */
/* The table of subcommands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "sys/fd.h"
#include "warder.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static int print_help(int argc, char **argv);
static int print_version(int argc, char **argv);

static const struct command commands[] = {
	{ "run", cmd_run, "run a command in a sandbox with no network and no secrets" },
	{ "doctor", cmd_doctor, "what this host can enforce, what is missing, and the remedy" },
	{ "check", cmd_gateway, "say what a configuration file allows, and what is odd about it" },
	{ "audit", cmd_gateway, "show, follow or verify an audit log" },
	{ "keeper", cmd_gateway_keeper, "hold secrets and policy for many runs" },
	{ "ps", cmd_ps, "list the runs of a shared keeper" },
	{ "revoke", cmd_revoke, "take a run's access away" },
	{ "drain", cmd_drain, "let a shared keeper end with its last run" },
	{ "gate", cmd_serve, "serve the LLM endpoint for agents that warder did not start" },
	{ "spend", cmd_gateway, "compare what calls have cost with LiteLLM's spend log" },
	{ "token", cmd_gateway, "mint and verify the tokens that name a run" },
	{ "help", print_help, "print this help" },
	{ "version", print_version, "print the version" },
};

/* The same program under the name of the one whose place it takes. */
static const struct command secrets_proxy_commands[] = {
	{ "run", cmd_secrets_proxy_run, "run a command with placeholders for its secrets" },
	{ "help", print_help, "print this help" },
	{ "version", print_version, "print the version" },
};

static const struct program {
	const char *name;
	const struct command *commands;
	size_t count;
	const char *example;
} programs[] = {
	{ "warder", commands, ARRAY_LEN(commands), "warder run -- ls -la" },
	{ "secrets-proxy", secrets_proxy_commands, ARRAY_LEN(secrets_proxy_commands),
	  "secrets-proxy run --config secrets.json -- python3 my_script.py" },
};

static const struct program *program = &programs[0];

/* By the name that it was called by; under any other it is the first. */
static void find_program(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;

	for (size_t i = 0; name && i < ARRAY_LEN(programs); i++)
		if (strcmp(programs[i].name, name) == 0)
			program = &programs[i];
}

static const struct command *command_find(const char *name)
{
	if (strncmp(name, "--", 2) == 0)
		name += 2; /* --help, --version */
	for (size_t i = 0; i < program->count; i++)
		if (strcmp(program->commands[i].name, name) == 0)
			return &program->commands[i];
	return NULL;
}

static int print_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("usage: %s COMMAND [options]\n\n", program->name);
	for (size_t i = 0; i < program->count; i++)
		printf("  %-8s %s\n", program->commands[i].name, program->commands[i].help);
	printf("\nTry: %s\n", program->example);
	return 0;
}

static int print_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("warder %s\n", warder_version());
	return 0;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (fd_fill_std() < 0)
		return WARDER_EXIT_FAILED;
	find_program(argv[0]);
	if (argc < 2) {
		print_help(argc, argv);
		return WARDER_EXIT_FAILED;
	}
	command = command_find(argv[1]);
	if (!command) {
		struct err err;

		err_say(&err, EINVAL, "unknown command '%.60s'", argv[1]);
		err_hint(&err, "'%s help' lists them", program->name);
		err_hint(&err, "'%s run -- %.60s' runs a program", program->name, argv[1]);
		fprintf(stderr, "warder: %s\n", err.text);
		return WARDER_EXIT_FAILED;
	}
	return command->run(argc - 1, argv + 1);
}
