/* SPDX-License-Identifier: MIT */
/* A hash table with chains. */
#include "store/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/die.h"

#define FIRST_SIZE 16 /* a power of two, as all sizes are */

static struct table_entry **new_slots(size_t size)
{
	struct table_entry **slots = calloc(size, sizeof(struct table_entry *));

	if (!slots)
		die_no_memory();
	return slots;
}

void table_init(struct table *table)
{
	*table = (struct table){ .slots = new_slots(FIRST_SIZE), .size = FIRST_SIZE };
	if (getrandom(&table->seed, sizeof(table->seed), 0) != sizeof(table->seed))
		table->seed = (uintptr_t)table->slots;
}

void table_fini(struct table *table)
{
	free(table->slots);
	*table = (struct table){ 0 };
}

/* Both halves of a product, folded: each bit of the result depends on all bits of both. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(const struct table *table, const char *key)
{
	const uint64_t odd = UINT64_C(0x9fb21c651e98df25);
	uint64_t hash = table->seed, piece;
	size_t len = strlen(key), left = len;

	for (; left >= sizeof(piece); left -= sizeof(piece), key += sizeof(piece)) {
		memcpy(&piece, key, sizeof(piece));
		hash = mix(hash ^ piece, odd ^ table->seed);
	}
	piece = 0;
	memcpy(&piece, key, left);
	hash = mix(hash ^ piece, odd ^ table->seed);
	return mix(hash ^ len, odd);
}

static struct table_entry **slot_of(const struct table *table, uint64_t hash)
{
	return &table->slots[hash & (table->size - 1)];
}

struct table_entry *table_find(const struct table *table, const char *key)
{
	uint64_t hash;
	struct table_entry *entry;

	if (table->count == 0)
		return NULL;
	hash = hash_of(table, key);
	for (entry = *slot_of(table, hash); entry; entry = entry->next)
		if (entry->hash == hash && strcmp(entry->key, key) == 0)
			return entry;
	return NULL;
}

static void link_entry(struct table *table, struct table_entry *entry)
{
	struct table_entry **slot = slot_of(table, entry->hash);

	entry->next = *slot;
	*slot = entry;
}

static void grow(struct table *table)
{
	struct table_entry **slots = table->slots;
	size_t size = table->size;

	table->size = size * 2;
	table->slots = new_slots(table->size);
	for (size_t i = 0; i < size; i++)
		while (slots[i]) {
			struct table_entry *entry = slots[i];

			slots[i] = entry->next;
			link_entry(table, entry);
		}
	free(slots);
}

bool table_is_full(const struct table *table)
{
	return table->count == table->size;
}

void table_make_room(struct table *table)
{
	if (table->count > table->size / 4 * 3)
		grow(table);
}

void table_add(struct table *table, struct table_entry *entry, const char *key)
{
	if (table_is_full(table))
		grow(table);
	entry->key = key;
	entry->hash = hash_of(table, key);
	link_entry(table, entry);
	table->count++;
}

void table_remove(struct table *table, struct table_entry *entry)
{
	struct table_entry **at = slot_of(table, entry->hash);

	while (*at && *at != entry)
		at = &(*at)->next;
	assert(*at);
	*at = entry->next;
	table->count--;
}

struct table_entry *table_walk(const struct table *table, struct table_walk *walk)
{
	struct table_entry *entry = walk->next;

	while (!entry && walk->slot < table->size)
		entry = table->slots[walk->slot++];
	walk->next = entry ? entry->next : NULL;
	return entry;
}
