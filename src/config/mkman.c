/* SPDX-License-Identifier: MIT */
/*
 * A build tool: copies a manual page, with a table in place of its name: the options of a run
 * for @OPTIONS@, those of a shared keeper for @KEEPER-OPTIONS@, the configuration file's keys for
 * @KEYS@.
 */
#include <stdio.h>
#include <string.h>

#include "config/keys.h"
#include "config/settings.h"
#include "config/shared_config.h"

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin))
		if (strcmp(line, "@OPTIONS@\n") == 0)
			run_config_print_mdoc(stdout);
		else if (strcmp(line, "@KEEPER-OPTIONS@\n") == 0)
			shared_config_print_mdoc(stdout);
		else if (strcmp(line, "@KEYS@\n") == 0)
			keys_print_mdoc(stdout);
		else
			fputs(line, stdout);
	return ferror(stdin) || fflush(stdout) == EOF;
}
