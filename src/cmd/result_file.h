/* SPDX-License-Identifier: MIT */
/* --result FILE, --learn FILE: opened before the run, written after it, whole or not at all. */
#ifndef CMD_RESULT_FILE_H
#define CMD_RESULT_FILE_H

#include "base/err.h"

struct result_file {
	int dir_fd; /* where it will appear, or -1 */
	int fd;     /* what it is, when it is no regular file (/dev/fd/3), or -1 */
	const char *name;
	const char *option; /* for messages */
};

#define RESULT_FILE_INIT                                                                           \
	{                                                                                          \
		-1, -1, NULL, NULL                                                                 \
	}

/* Finds out whether the file can be written, and changes nothing. */
int result_file_open(struct result_file *file, const char *option, const char *path,
		     struct err *err) must_check;

/*
 * Refuses to replace a file that is there, unless it is empty or begins with `mark`; only after
 * result_file_open.
 */
int result_file_check_mark(const struct result_file *file, const char *mark,
			   struct err *err) must_check;

/*
 * Puts the result in place. The agent is gone by now, and the directory is the one
 * that was opened before it started, wherever its name leads today.
 */
int result_file_write(struct result_file *file, const char *text, size_t len,
		      struct err *err) must_check;

void result_file_close(struct result_file *file);

#endif
