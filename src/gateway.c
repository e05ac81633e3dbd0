/* SPDX-License-Identifier: MIT */
/*
 * The second program: everything that needs OpenSSL. `warder` executes it, so that a run
 * that needs none of it does not spend its start-up on loading libraries.
 */
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "cmd/cmd.h"
#include "sys/fd.h"
#include "warder.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "audit", cmd_audit },
	{ "check", cmd_check },
	{ "spend", cmd_spend },
	{ "token", cmd_token },
	/* Started by warder, never by hand: */
	{ "carrier", cmd_carrier },
	{ "gate", cmd_gate },
	{ "keeper", cmd_keeper },
};

int main(int argc, char **argv)
{
	if (fd_fill_std() < 0)
		return WARDER_EXIT_FAILED;
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, argv[1]) == 0)
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "warder-gateway: started by warder, not by hand\n");
	return WARDER_EXIT_FAILED;
}
