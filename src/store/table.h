/* SPDX-License-Identifier: MIT */
/*
 * Things by name: a hash table whose entries are parts of what is in it. Names may be chosen by an
 * agent (hosts are), so the hash is seeded: nobody can pick names that all fall together.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_entry {
	struct table_entry *next;
	uint64_t hash;
	const char *key; /* borrowed: lives as long as the entry */
};

struct table {
	struct table_entry **slots;
	size_t size, count;
	uint64_t seed;
};

/* table_fini is owed from here on; it does not free what is in the table. */
void table_init(struct table *table);
void table_fini(struct table *table);

struct table_entry *table_find(const struct table *table, const char *key);

/* The key must not be in it yet, unless all of that name are looked for one by one. */
void table_add(struct table *table, struct table_entry *entry, const char *key);
void table_remove(struct table *table, struct table_entry *entry);

/* Whether the next one to be added makes it grow: the time to throw out what is not needed. */
bool table_is_full(const struct table *table);

/*
 * To be called when that was done: grows unless a quarter of it is free now. Looking through all
 * of it then is paid for by as many additions, however little was thrown out.
 */
void table_make_room(struct table *table);

/* Goes through all, from a walk of zeros; NULL at the end. What was returned last may be removed.
 */
struct table_walk {
	size_t slot;
	struct table_entry *next;
};
struct table_entry *table_walk(const struct table *table, struct table_walk *walk);

#endif
