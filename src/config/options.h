/* SPDX-License-Identifier: MIT */
/* Command lines read by a table, for every verb; help and manual page come from it, too. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum option_kind {
	OPTION_FLAG,     /* no argument; sets a uint64_t to `low` */
	OPTION_STRING,   /* any text that is not empty, as const char * */
	OPTION_CHOICE,   /* one of the words in the argument's name, separated by |; const char * */
	OPTION_RUN_ID,   /* an id as base/runid.h has it; const char * */
	OPTION_COUNT,    /* a whole number, as uint64_t like those that follow */
	OPTION_SIZE,     /* a number of bytes with a unit */
	OPTION_DURATION, /* a time with a unit, in milliseconds */
	OPTION_MILLI,    /* a number with up to three places, in thousandths */
	OPTION_OWN,      /* the verb's own function reads it */
};

struct option;

/* Reads the argument of a row into the verb's struct. 0, or -errno with *err set. */
typedef int option_reader(void *config, const struct option *option, const char *text,
			  struct err *err);

struct option {
	const char *name; /* without the dashes */
	char letter;      /* or 0 */
	enum option_kind kind;
	option_reader *read; /* of OPTION_OWN */
	size_t offset;       /* of the field in the verb's struct */
	uint64_t low, high;  /* accepted range of a number */
	const char *argument, *help, *detail;
};

struct option_table {
	const char *verb; /* as in "warder run" */
	const struct option *rows;
	size_t count;
};

/*
 * Reads options up to "--" or the first word that is none; *ret_rest is the index of what
 * follows. On failure the first error is in *err, but the rest of the line has been read
 * too.
 */
int options_parse(const struct option_table *table, void *config, int argc, char **argv,
		  int *ret_rest, struct err *err) must_check;

/* Applies one row as if it had been on the command line; a flag takes a NULL text. */
int options_apply(const struct option_table *table, void *config, const char *name,
		  const char *text, struct err *err) must_check;

#define OPTION_VARIABLE_MAX 255

/* Whether a text is a variable's name: letters, digits and underscores, no digit first. */
bool option_is_variable(const char *text, size_t len);

void options_print_help(const struct option_table *table, FILE *out);
void options_print_mdoc(const struct option_table *table, FILE *out);

#endif
