/* SPDX-License-Identifier: MIT */
/* The store with a file. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store/conformance.h"
#include "store/journal.h"

static char path[] = "/tmp/warder-sqlite-XXXXXX/state.db";

static struct store *open_sqlite(struct loop *loop)
{
	struct err err = { 0 };
	struct journal *journal = journal_open_sqlite(path, &err);

	if (!journal)
		print_error("%s\n", err.text);
	return journal ? store_local_new(loop, journal) : NULL;
}

int main(void)
{
	char *end = strrchr(path, '/');
	int failed;

	*end = '\0';
	if (!mkdtemp(path))
		return 1;
	*end = '/';
	failed = conformance_run(
		&(struct backend){ .name = "sqlite", .open = open_sqlite, .is_lasting = true });
	unlink(path);
	*end = '\0';
	rmdir(path);
	return failed;
}
