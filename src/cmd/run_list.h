/* SPDX-License-Identifier: MIT */
/* Runs of a shared keeper, as a table, as lines of JSON, or one of them at length. */
#ifndef CMD_RUN_LIST_H
#define CMD_RUN_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

struct run_list {
	bool is_json, is_one;
	size_t count;
};

/* Prints one: words NAME=VALUE, each with its NUL. */
void run_list_add(struct run_list *list, struct bytes words);

#endif
