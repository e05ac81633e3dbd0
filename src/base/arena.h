/* SPDX-License-Identifier: MIT */
/* Memory with one lifetime: many small allocations, freed together. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/attr.h"

struct arena_block;

struct arena {
	struct arena_block *head;
};

/* Zeroed memory that lives until arena_fini. Ends the process when there is none. */
void *arena_alloc(struct arena *arena, size_t size);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *fmt, ...) printf_like(2);

void arena_fini(struct arena *arena);

#endif
