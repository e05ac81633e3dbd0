/* SPDX-License-Identifier: MIT */
/* Run tokens of a benchmark, from a file with a line each, all of one length: taken in turn. */
#ifndef BENCH_TOKENS_H
#define BENCH_TOKENS_H

#include <stddef.h>

struct tokens {
	char *text;
	size_t len; /* of each */
	size_t count, next;
};

/* Ends the program on what it cannot read. */
void tokens_read(struct tokens *tokens, const char *path);

/* `len` bytes without an end. */
const char *tokens_next(struct tokens *tokens);

#endif
