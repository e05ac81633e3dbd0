/* SPDX-License-Identifier: MIT */
/* Finding the verb, and what its failure means. */
#include "cmd/verb.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "warder.h"

static bool is_known(const struct verb_command *command, const char *word)
{
	for (const char *const *verb = command->verbs; *verb; verb++)
		if (strcmp(*verb, word) == 0)
			return true;
	return false;
}

/* "a, b or c". */
static int say_unknown(const struct verb_command *command, const char *word, struct err *err)
{
	char list[128] = "";

	for (const char *const *verb = command->verbs; *verb; verb++) {
		size_t len = strlen(list);

		snprintf(list + len, sizeof(list) - len, "%s%s",
			 verb == command->verbs ? ""
			 : verb[1]              ? ", "
						: " or ",
			 *verb);
	}
	return err_say(err, EINVAL, "%s: '%.60s' is not %s", command->name, word, list);
}

int verb_main(const struct verb_command *command, int argc, char **argv)
{
	struct err err = { 0 };
	int r;

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		command->print_help();
		return argc < 2 ? WARDER_EXIT_FAILED : 0;
	}
	r = is_known(command, argv[1]) ? command->run(argc - 1, argv + 1, &err)
				       : say_unknown(command, argv[1], &err);
	if (r == 0 && fflush(stdout) < 0)
		r = err_set(&err, errno, "write to standard output");
	if (r == 0)
		return 0;
	fprintf(stderr, "warder: %s\n", err.text);
	return r == -EACCES ? 1 : WARDER_EXIT_FAILED;
}
