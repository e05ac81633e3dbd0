/* SPDX-License-Identifier: MIT */
/* Things in the order in which they were asked for. They are somebody else's. */
#ifndef STORE_PGLIST_H
#define STORE_PGLIST_H

#include <stddef.h>

/* Zeroed, it is empty. */
struct pglist {
	void **items;
	size_t count, size;
};

void pglist_add(struct pglist *list, void *item);
void pglist_drop(struct pglist *list);

/* Moves up to `most` items from the front of one list to another, which is empty. */
void pglist_move(struct pglist *from, struct pglist *to, size_t most);

/* Puts all of these in front of the others. */
void pglist_return(struct pglist *to, struct pglist *from);

#endif
