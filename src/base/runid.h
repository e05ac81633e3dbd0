/* SPDX-License-Identifier: MIT */
/* Run ids: ULIDs when minted here, a small alphabet when given (INV-RUN-IDENTITY). */
#ifndef BASE_RUNID_H
#define BASE_RUNID_H

#include <stdbool.h>
#include <stdint.h>

#define RUNID_MAX      64
#define RUNID_ULID_LEN 26

/*
 * Letters, digits, '.', '-' and '_', beginning with a letter or digit: an id is
 * also part of file names, header values and tokens, and needs no quoting in any.
 */
bool runid_is_valid(const char *id);

/* Writes 48 bits of milliseconds and 80 random bits as 26 characters and a NUL. */
void runid_format(uint64_t now_ms, const unsigned char random[10], char *ret_id);

/* Mints a new one. 0 or -errno. */
int runid_new(char *ret_id);

#endif
