/* SPDX-License-Identifier: MIT */
/*
 * Two tables of names. A run knows the meters that it has claimed with, and a meter how many runs
 * know it: it goes with the last of them.
 */
#include "store/watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/die.h"

#define FIRST_ROWS 64
#define METERS_MAX 64 /* of a run; of those beyond there are no news, only refusals */

struct meter {
	struct watch_name name;
	uint64_t limit; /* the last that was claimed with */
	bool is_told;
	size_t run_count;
};

struct run {
	struct watch_name name;
	size_t use_count; /* its link, and the gates that its tokens are at */
	bool is_told;
	struct meter *meters[METERS_MAX];
	size_t meter_count;
};

/* ---- tables ---- */

/* FNV-1a: the names are the operator's and our own. */
static size_t row_of(const struct watch_table *table, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash & (table->row_count - 1);
}

static struct watch_name **place_of(const struct watch_table *table, const char *text)
{
	struct watch_name **at = &table->rows[row_of(table, text)];

	while (*at && strcmp((*at)->text, text) != 0)
		at = &(*at)->next;
	return at;
}

static struct watch_name *find(const struct watch_table *table, const char *text)
{
	return table->count > 0 ? *place_of(table, text) : NULL;
}

static void grow(struct watch_table *table)
{
	struct watch_table larger = {
		.row_count = table->row_count ? table->row_count * 2 : FIRST_ROWS,
		.count = table->count,
	};

	larger.rows = calloc(larger.row_count, sizeof(struct watch_name *));
	if (!larger.rows)
		die_no_memory();
	for (size_t i = 0; i < table->row_count; i++) {
		while (table->rows[i]) {
			struct watch_name *name = table->rows[i];
			struct watch_name **row = &larger.rows[row_of(&larger, name->text)];

			table->rows[i] = name->next;
			name->next = *row;
			*row = name;
		}
	}
	free(table->rows);
	*table = larger;
}

/* Of something that has a struct watch_name as its first member. */
static void *add(struct watch_table *table, const char *text, size_t size)
{
	struct watch_name *name = calloc(1, size), **row;

	if (!name)
		die_no_memory();
	name->text = strdup(text);
	if (!name->text)
		die_no_memory();
	if (table->count >= table->row_count)
		grow(table);
	row = &table->rows[row_of(table, text)];
	name->next = *row;
	*row = name;
	table->count++;
	return name;
}

static void drop(struct watch_table *table, struct watch_name *name)
{
	*place_of(table, name->text) = name->next;
	table->count--;
	free(name->text);
	free(name);
}

/* ---- runs and meters ---- */

static struct run *find_run(const struct watch *watch, const char *run_id)
{
	struct watch_name *name = find(&watch->runs, run_id);

	return name ? OWNER_OF(name, struct run, name) : NULL;
}

void watch_open(struct watch *watch, const char *run_id)
{
	struct run *run = find_run(watch, run_id);

	if (!run)
		run = add(&watch->runs, run_id, sizeof(*run));
	run->use_count++;
}

static struct meter *find_meter(const struct watch *watch, const char *meter)
{
	struct watch_name *name = find(&watch->meters, meter);

	return name ? OWNER_OF(name, struct meter, name) : NULL;
}

static void close_run(struct watch *watch, struct run *run)
{
	for (size_t i = 0; i < run->meter_count; i++)
		if (--run->meters[i]->run_count == 0)
			drop(&watch->meters, &run->meters[i]->name);
	drop(&watch->runs, &run->name);
}

void watch_close(struct watch *watch, const char *run_id)
{
	struct run *run = find_run(watch, run_id);

	if (run && --run->use_count == 0)
		close_run(watch, run);
}

void watch_fini(struct watch *watch)
{
	for (size_t i = 0; i < watch->runs.row_count; i++)
		while (watch->runs.rows[i])
			close_run(watch, OWNER_OF(watch->runs.rows[i], struct run, name));
	assert(watch->meters.count == 0);
	free(watch->runs.rows);
	free(watch->meters.rows);
	*watch = (struct watch){ 0 };
}

static bool knows(const struct run *run, const struct meter *meter)
{
	for (size_t i = 0; i < run->meter_count; i++)
		if (run->meters[i] == meter)
			return true;
	return false;
}

void watch_claim(struct watch *watch, const char *run_id, const char *meter, uint64_t limit)
{
	struct meter *found = find_meter(watch, meter);
	struct run *run = limit || found ? find_run(watch, run_id) : NULL;

	if (!run || (!found && run->meter_count == METERS_MAX))
		return;
	if (!found)
		found = add(&watch->meters, meter, sizeof(*found));
	if (!knows(run, found) && run->meter_count < METERS_MAX) {
		run->meters[run->meter_count++] = found;
		found->run_count++;
	}
	if (found->limit != limit)
		found->is_told = false;
	found->limit = limit;
}

void watch_claims(struct watch *watch, const struct store_reservation *reservation)
{
	/* What costs no money has no say in how much there is. */
	for (size_t i = 0; reservation->is_of_money && i < reservation->claim_count; i++)
		watch_claim(watch, reservation->run_id, reservation->claims[i].meter,
			    store_spend_limit(reservation, i));
}

bool watch_is_revoked(struct watch *watch, const char *run_id)
{
	struct run *run = find_run(watch, run_id);

	if (!run || run->is_told)
		return false;
	run->is_told = true;
	return true;
}

bool watch_is_spent(struct watch *watch, const char *meter, uint64_t spent)
{
	struct meter *found = find_meter(watch, meter);
	bool was_told;

	if (!found)
		return false;
	/* Reconciliation may give some of it back. */
	was_told = found->is_told;
	found->is_told = found->limit != 0 && spent >= found->limit;
	return found->is_told && !was_told;
}

static void each(const struct watch_table *table, void (*call)(void *owner, const char *text),
		 void *owner)
{
	for (size_t i = 0; i < table->row_count; i++)
		for (const struct watch_name *name = table->rows[i]; name; name = name->next)
			call(owner, name->text);
}

void watch_each_meter(const struct watch *watch, void (*call)(void *owner, const char *meter),
		      void *owner)
{
	each(&watch->meters, call, owner);
}

void watch_each_run(const struct watch *watch, void (*call)(void *owner, const char *run_id),
		    void *owner)
{
	each(&watch->runs, call, owner);
}
