/* SPDX-License-Identifier: MIT */
/*
 * What every backend of the store has to do (store/store.h), as tests that ask it only through its
 * table of functions. Answers may come at once or later.
 */
#ifndef STORE_CONFORMANCE_H
#define STORE_CONFORMANCE_H

#include <stdbool.h>

#include "store/store.h"

struct backend {
	const char *name;
	/*
	 * The store of a new keeper. Names are never used twice, so what is behind it may be one
	 * database for all tests. NULL fails the test.
	 */
	struct store *(*open)(struct loop *loop);
	bool is_lasting;    /* what was counted is there when it is closed and opened again */
	bool is_shared;     /* several can be open at once, and count together */
	bool has_own_clock; /* rates go by a clock of its own, not by the time they are told */
};

/* Runs all of it; the number of tests that failed. */
int conformance_run(const struct backend *backend);

#endif
