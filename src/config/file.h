/* SPDX-License-Identifier: MIT */
/*
 * A configuration file is another way to write options: it is read into the words of two
 * command lines, in the order of the file, and the tables of options check them.
 *
 * Only the keeper's process reads one and hands the run's words on, because of what a file
 * says of keys and where they come from (INV-SECRETS-HOST-ONLY). For the same reason an
 * error names keys, never values.
 */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

#define CONFIG_FILE_MAX  ((size_t)1024 * 1024) /* bytes of a file */
#define CONFIG_WORDS_MAX 1024                  /* words of each list */

/* "--name", "value", "--name", "value" ...; a NULL follows the last. */
struct config_words {
	const char **words;
	size_t count;
};

struct config_file {
	struct arena arena; /* owns the words */
	struct config_words run, keeper;
};

/*
 * Both fill *ret_file, for which config_file_fini is owed, or leave it empty and return
 * -errno with "file:line: what" in *err. `name` is the file's, for messages and for its
 * directory, which relative paths start from.
 */
int config_file_read(const char *path, struct config_file *ret_file, struct err *err) must_check;
int config_file_parse(const char *name, struct bytes text, struct config_file *ret_file,
		      struct err *err) must_check;

void config_file_fini(struct config_file *file);

#endif
