/* SPDX-License-Identifier: MIT */
/* The keys of warder.json, as a table. */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <stdio.h>

#include "base/err.h"

enum key_kind {
	KEY_GROUP,   /* an object; its members are rows of their own */
	KEY_TEXT,    /* a text */
	KEY_PATH,    /* a text: a path relative to the file's directory */
	KEY_NUMBER,  /* a number, or a text such as "2G" */
	KEY_PAIRS,   /* an object: the option with NAME=VALUE for each member */
	KEY_LIST,    /* a list of texts: the option with each */
	KEY_LIMIT,   /* a number, or a text such as "30/m": the option with run:NAME=VALUE */
	KEY_LIMITS,  /* an object of objects: --limit for each */
	KEY_MOUNTS,  /* a list of objects: --ro, --rw or --tmpfs for each */
	KEY_SECRETS, /* an object of objects: --secret and what belongs to it for each */
	KEY_LLM,     /* an object or a list of them: --llm and what belongs to it for each */
	/* These only within an entry: */
	KEY_WORDS, /* a list of texts, of which there must be one: one word with commas */
	KEY_FLAG,  /* true, or false, which is as if it were not there */
	KEY_VALUE, /* a text that is a secret */
};

enum key_side {
	KEY_RUN = 1,    /* an option of the run */
	KEY_KEEPER = 2, /* an option of the keeper */
	KEY_BOTH = KEY_RUN | KEY_KEEPER,
	KEY_ONCE = 4,   /* one entry of a list may have it */
	KEY_SHARED = 8, /* an option of a shared keeper only */
};

struct key {
	const char *group; /* "" for the outermost object */
	const char *name;
	const char *option; /* with its dashes, or NULL */
	enum key_kind kind;
	unsigned int side; /* of enum key_side */
	const char *example, *help;
};

extern const struct key keys[];
extern const size_t key_count;

#define KEYS_MAX 128 /* rows of the table, for arrays with a place for each */

/* NULL when the group has no such key. */
const struct key *key_find(const char *group, const char *name);

/* Adds to *err which key somebody who wrote `name` in `group` may have meant. */
void key_hint(const char *group, const char *name, struct err *err);

/* The table as an mdoc(7) list. */
void keys_print_mdoc(FILE *out);

#endif
