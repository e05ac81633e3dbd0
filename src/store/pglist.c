/* SPDX-License-Identifier: MIT */
/* An array that grows. */
#include "store/pglist.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static void grow(struct pglist *list)
{
	void **items;

	list->size = list->size ? list->size * 2 : 16;
	items = realloc(list->items, list->size * sizeof(void *));
	if (!items)
		die_no_memory();
	list->items = items;
}

void pglist_add(struct pglist *list, void *item)
{
	if (list->count == list->size)
		grow(list);
	list->items[list->count++] = item;
}

void pglist_drop(struct pglist *list)
{
	free(list->items);
	*list = (struct pglist){ 0 };
}

void pglist_move(struct pglist *from, struct pglist *to, size_t most)
{
	if (from->count <= most) {
		free(to->items);
		*to = *from;
		*from = (struct pglist){ 0 };
		return;
	}
	for (size_t i = 0; i < most; i++)
		pglist_add(to, from->items[i]);
	from->count -= most;
	memmove(from->items, from->items + most, from->count * sizeof(void *));
}

void pglist_return(struct pglist *to, struct pglist *from)
{
	for (size_t i = 0; i < to->count; i++)
		pglist_add(from, to->items[i]);
	pglist_drop(to);
	*to = *from;
	*from = (struct pglist){ 0 };
}
