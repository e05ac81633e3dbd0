/* SPDX-License-Identifier: MIT */
/* The store that a URL names. */
#ifndef CMD_STORE_OPEN_H
#define CMD_STORE_OPEN_H

#include "store/store.h"

enum store_kind {
	STORE_OWN = 1,    /* one process has it at a time, at once: SQLite, memory */
	STORE_SHARED = 2, /* somewhere else, and reached in its own time: PostgreSQL, Redis */
	STORE_ANY = STORE_OWN | STORE_SHARED,
};

/*
 * `place` is a URL, or the source of one (env:NAME, file:PATH); NULL is the default, SQLite where
 * the state is kept. Errors never show what is in a URL. The caller owns the store,
 * which is NULL when it is none of `kinds`, a set of enum store_kind: then nothing was opened.
 */
int store_open(const char *place, unsigned int kinds, struct loop *loop, struct store **ret_store,
	       struct err *err) must_check;

#endif
