/* SPDX-License-Identifier: MIT */
/*
 * A build tool: copies a manual page, with the table of settings in place of @OPTIONS@ and
 * that of the configuration file's keys in place of @KEYS@.
 */
#include <stdio.h>
#include <string.h>

#include "config/keys.h"
#include "config/settings.h"

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin))
		if (strcmp(line, "@OPTIONS@\n") == 0)
			run_config_print_mdoc(stdout);
		else if (strcmp(line, "@KEYS@\n") == 0)
			keys_print_mdoc(stdout);
		else
			fputs(line, stdout);
	return ferror(stdin) || fflush(stdout) == EOF;
}
