/* SPDX-License-Identifier: MIT */
/* Budgets. */
#include "keeper/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

void budget_init(struct budget *budget, uint64_t limit, uint64_t host_limit)
{
	*budget = (struct budget){ .limit = limit, .host_limit = host_limit };
}

void budget_limit(struct budget *budget, uint64_t limit, uint64_t host_limit)
{
	budget->limit = limit;
	budget->host_limit = host_limit;
}

void budget_fini(struct budget *budget)
{
	free(budget->hosts);
	*budget = (struct budget){ 0 };
}

struct budget_host *budget_find(struct budget *budget, const char *host)
{
	struct budget_host *found;

	if (budget->host_limit == 0)
		return &budget->others;
	if (!budget->hosts)
		budget->hosts = calloc(BUDGET_HOSTS_MAX, sizeof(*budget->hosts));
	if (!budget->hosts)
		die_no_memory();
	for (size_t i = 0; i < budget->count; i++)
		if (strcmp(budget->hosts[i].name, host) == 0)
			return &budget->hosts[i];
	/* More names do not make more room: whoever comes late shares. */
	if (budget->count == BUDGET_HOSTS_MAX)
		return &budget->others;
	found = &budget->hosts[budget->count++];
	snprintf(found->name, sizeof(found->name), "%s", host);
	return found;
}

static bool has_left(uint64_t limit, uint64_t used, uint64_t bytes)
{
	return limit == 0 || (used <= limit && bytes <= limit - used);
}

bool budget_take(struct budget *budget, struct budget_host *host, uint64_t bytes)
{
	if (!has_left(budget->limit, budget->used, bytes) ||
	    !has_left(budget->host_limit, host->used, bytes))
		return false;
	/* Without a limit a claim may be anything; it is not counted past the end. */
	if (__builtin_add_overflow(budget->used, bytes, &budget->used))
		budget->used = UINT64_MAX;
	if (__builtin_add_overflow(host->used, bytes, &host->used))
		host->used = UINT64_MAX;
	return true;
}

/* What went past the end was not counted. */
static void take_off(uint64_t *used, uint64_t bytes)
{
	*used -= bytes < *used ? bytes : *used;
}

void budget_give_back(struct budget *budget, struct budget_host *host, uint64_t bytes)
{
	take_off(&budget->used, bytes);
	take_off(&host->used, bytes);
}
