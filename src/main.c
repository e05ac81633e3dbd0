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
	{ "audit", cmd_gateway, "show, follow or verify an audit log" },
	{ "gate", cmd_serve, "serve the LLM endpoint for agents that warder did not start" },
	{ "token", cmd_gateway, "mint and verify the tokens that name a run" },
	{ "help", print_help, "print this help" },
	{ "version", print_version, "print the version" },
};

static const struct command *command_find(const char *name)
{
	if (strncmp(name, "--", 2) == 0)
		name += 2; /* --help, --version */
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int print_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("usage: warder COMMAND [options]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].help);
	printf("\nTry: warder run -- ls -la\n");
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
	if (argc < 2) {
		print_help(argc, argv);
		return WARDER_EXIT_FAILED;
	}
	command = command_find(argv[1]);
	if (!command) {
		struct err err;

		err_say(&err, EINVAL, "unknown command '%.60s'", argv[1]);
		err_hint(&err, "'warder help' lists them");
		err_hint(&err, "'warder run -- %.60s' runs a program", argv[1]);
		fprintf(stderr, "warder: %s\n", err.text);
		return WARDER_EXIT_FAILED;
	}
	return command->run(argc - 1, argv + 1);
}
