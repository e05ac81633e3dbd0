/* SPDX-License-Identifier: MIT */
/*
 * A configuration file is another way to write options: it is read into the words of three
 * command lines, in the order of the file, and the tables of options check them.
 *
 * Only the keeper's process reads one and hands the words on, because a file may have secrets
 * in it (INV-SECRETS-HOST-ONLY). These are in no word: they stay beside them, to be wiped. For
 * the same reason an error names keys, never values.
 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

#define CONFIG_FILE_MAX  ((size_t)1024 * 1024) /* bytes of a file */
#define CONFIG_WORDS_MAX 4096                  /* words of each list */

/* "--name", "value", "--name", "value" ...; a NULL follows the last. */
struct config_words {
	const char **words;
	size_t count;
};

/* A secret that the file itself has; its words name it as "config:NAME". */
struct config_value {
	const char *name;
	char *text;
};

/* The first key that only one reader can use, "limits.memory"; NULL where there is none. */
struct config_mark {
	const char *key;
	size_t line;
};

struct config_file {
	struct arena arena; /* owns the words and the values */
	struct config_words run, keeper, shared;
	struct config_mark run_mark, shared_mark;
	struct config_value *values;
	size_t value_count;
};

/*
 * Both fill *ret_file, for which config_file_fini is owed, or leave it empty and return
 * -errno with "file:line: what" in *err. `name` is the file's, for messages and for its
 * directory, which relative paths start from.
 */
int config_file_read(const char *path, struct config_file *ret_file, struct err *err) must_check;
int config_file_parse(const char *name, struct bytes text, struct config_file *ret_file,
		      struct err *err) must_check;

enum config_use {
	CONFIG_FOR_RUN,    /* of a run or a gate, with a keeper of its own */
	CONFIG_FOR_SHARED, /* of a shared keeper */
};

/* Refuses what the file says to somebody else: nobody would do it (INV-FAIL-CLOSED). */
int config_file_expect(const struct config_file *file, const char *name, enum config_use use,
		       struct err *err) must_check;

/* When whoever needs the values has them. */
void config_file_wipe_values(struct config_file *file);

/* Wipes the values as well. */
void config_file_fini(struct config_file *file);

#endif
