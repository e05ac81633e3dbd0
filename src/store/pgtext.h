/* SPDX-License-Identifier: MIT */
/*
 * Values as PostgreSQL reads them: arrays of numbers and of names. A name may come from anywhere
 * (an upstream says what a call is called), and one that the database does not take would spoil
 * what was asked together with it. So bytes that mean something in an array, or that an encoding
 * of the database may not have, are written as %XX; it then is ASCII, and still one to one.
 */
#ifndef STORE_PGTEXT_H
#define STORE_PGTEXT_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/buf.h"

/* No amount is written as more: sums of a few of them fit into PostgreSQL's numbers. */
#define PGTEXT_NUMBER_MAX UINT64_C(1000000000000000000)

/* Adds an element to an array that is empty or was begun like this; pgtext_end completes it. */
void pgtext_add(struct buf *array, const char *name);
void pgtext_add_escaped(struct buf *array, const char *escaped);
void pgtext_add_number(struct buf *array, uint64_t number);
void pgtext_add_bool(struct buf *array, bool is_true);
void pgtext_end(struct buf *array);

void pgtext_escape(struct buf *text, const char *name);

/* What was escaped; in its place. */
void pgtext_unescape(char *text);

#endif
