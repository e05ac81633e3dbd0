/* SPDX-License-Identifier: MIT */
/*
 * How many bytes may leave for hosts: in the whole run, and for each of them (INV-BOUNDED).
 *
 * Bytes are taken before they go out: those of a length that is told beforehand all at once, so
 * that a request which cannot end is not begun, and others as they come. What was taken and did
 * not go out is given back.
 */
#ifndef KEEPER_BUDGET_H
#define KEEPER_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "policy/host.h"

#define BUDGET_HOSTS_MAX 1024 /* with an account of their own; all others share one */

struct budget_host {
	char name[HOST_MAX + 1];
	uint64_t used;
};

struct budget {
	uint64_t limit, host_limit; /* 0: none */
	uint64_t used;
	struct budget_host *hosts; /* or NULL: not needed so far */
	size_t count;
	struct budget_host others;
};

/* budget_fini is owed from here on. */
void budget_init(struct budget *budget, uint64_t limit, uint64_t host_limit);
void budget_fini(struct budget *budget);

/* Other limits from now on; what was used counts. */
void budget_limit(struct budget *budget, uint64_t limit, uint64_t host_limit);

/* The account of a host, to be asked for once in an exchange; lives as long as the budget. */
struct budget_host *budget_find(struct budget *budget, const char *host);

/* Takes so many bytes; false, and nothing is taken, when either limit has not as many left. */
bool budget_take(struct budget *budget, struct budget_host *host, uint64_t bytes) must_check;

/* Gives back what was taken before. */
void budget_give_back(struct budget *budget, struct budget_host *host, uint64_t bytes);

#endif
