/* SPDX-License-Identifier: MIT */
/* Tables: what was put in is found, until it is taken out. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/table.h"

#define COUNT 5000

struct thing {
	struct table_entry entry;
	char name[32];
};

static struct thing things[COUNT];
static struct table table;

static int set_up(void **state)
{
	(void)state;
	table_init(&table);
	for (int i = 0; i < COUNT; i++) {
		snprintf(things[i].name, sizeof(things[i].name), "%.*s%d", i % 17,
			 "aaaaaaaaaaaaaaaaa", i);
		assert_null(table_find(&table, things[i].name));
		table_add(&table, &things[i].entry, things[i].name);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	table_fini(&table);
	return 0;
}

static void what_was_added_is_found(void **state)
{
	(void)state;
	assert_int_equal(table.count, COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_ptr_equal(table_find(&table, things[i].name), &things[i].entry);
	assert_null(table_find(&table, ""));
	assert_null(table_find(&table, "nobody"));
}

static void what_was_removed_is_not(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT; i += 2)
		table_remove(&table, &things[i].entry);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(table_find(&table, things[i].name) != NULL, i % 2);
	assert_int_equal(table.count, COUNT / 2);
}

static void a_walk_meets_each_once_and_may_remove_it(void **state)
{
	struct table_walk walk = { 0 };
	struct table_entry *entry;
	size_t met = 0;

	(void)state;
	while ((entry = table_walk(&table, &walk))) {
		met++;
		table_remove(&table, entry);
	}
	assert_int_equal(met, COUNT);
	assert_int_equal(table.count, 0);
}

/* Names that differ little do not fall together. */
static void no_chain_is_long(void **state)
{
	size_t longest = 0;

	(void)state;
	for (size_t i = 0; i < table.size; i++) {
		size_t len = 0;

		for (struct table_entry *entry = table.slots[i]; entry; entry = entry->next)
			len++;
		longest = len > longest ? len : longest;
	}
	assert_in_range(longest, 1, 12);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(what_was_added_is_found), FRESH(what_was_removed_is_not),
		  FRESH(a_walk_meets_each_once_and_may_remove_it), FRESH(no_chain_is_long));
}
