/* SPDX-License-Identifier: MIT */
/*
 * The third program: the shared keeper, and what speaks with its databases. `warder` executes
 * it; a run does not load what only this needs.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "sys/fd.h"
#include "warder.h"

int main(int argc, char **argv)
{
	if (fd_fill_std() < 0)
		return WARDER_EXIT_FAILED;
	if (argc > 1 && strcmp(argv[1], "keeper") == 0)
		return cmd_shared_keeper(argc - 1, argv + 1);
	fprintf(stderr, "warder-keeper: started by warder, not by hand\n");
	return WARDER_EXIT_FAILED;
}
