/* SPDX-License-Identifier: MIT */
/* The store that a URL names. */
#ifndef CMD_STORE_OPEN_H
#define CMD_STORE_OPEN_H

#include "store/store.h"

/*
 * `place` is a URL, or the source of one (env:NAME, file:PATH); NULL is the default, SQLite where
 * the state is kept. Errors never show what is in a URL. The caller owns the store.
 */
int store_open(const char *place, struct loop *loop, struct store **ret_store,
	       struct err *err) must_check;

#endif
