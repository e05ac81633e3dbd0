/* SPDX-License-Identifier: MIT */
/* Commands that are made of verbs, such as `warder token mint`. */
#ifndef CMD_VERB_H
#define CMD_VERB_H

#include "base/err.h"

struct verb_command {
	const char *name;
	const char *const *verbs; /* ends with NULL */
	void (*print_help)(void);
	/* argv[0] is one of the verbs. 0, -EACCES for a "no" (status 1), or another -errno. */
	int (*run)(int argc, char **argv, struct err *err);
};

/* The exit status of the program. */
int verb_main(const struct verb_command *command, int argc, char **argv);

#endif
