/* SPDX-License-Identifier: MIT */
/* The store in memory. */
#include "unit.h"

#include "store/conformance.h"

static struct store *open_memory(struct loop *loop)
{
	return store_local_new(loop, NULL);
}

int main(void)
{
	return conformance_run(&(struct backend){ .name = "memory", .open = open_memory });
}
