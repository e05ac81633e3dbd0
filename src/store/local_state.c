/* SPDX-License-Identifier: MIT */
/* What the local store has in memory: meters, holds and calls, by name. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "store/local.h"

#define CALLS_MAX 65536 /* that memory alone remembers; one that comes again later counts again */

void *local_alloc(size_t size)
{
	void *made = calloc(1, size);

	if (!made)
		die_no_memory();
	return made;
}

/* ---- meters ---- */

/* What is at rest is forgotten, unless nothing but memory knows what was used. */
static void forget_idle(struct local *local, uint64_t now_ms)
{
	struct table_walk walk = { 0 };
	struct table_entry *entry;

	while ((entry = table_walk(&local->tallies, &walk))) {
		struct tally *tally = OWNER_OF(entry, struct tally, entry);
		bool is_known = local->journal || tally->meter.bytes + tally->meter.spent == 0;

		if (tally->user_count > 0 || tally->is_unwritten || !is_known ||
		    !meter_is_at_rest(&tally->meter, &tally->limits, now_ms))
			continue;
		table_remove(&local->tallies, entry);
		free(tally);
	}
}

struct tally *local_get_tally(struct local *local, const char *name, uint64_t now_ms)
{
	struct table_entry *entry = table_find(&local->tallies, name);
	struct tally *tally;

	if (entry)
		return OWNER_OF(entry, struct tally, entry);
	if (table_is_full(&local->tallies)) {
		forget_idle(local, now_ms);
		table_make_room(&local->tallies);
	}
	tally = local_alloc(sizeof(*tally) + strlen(name) + 1);
	memcpy(tally->name, name, strlen(name) + 1);
	tally->is_loaded = !local->journal;
	tally->meter.has_no_money = !store_has_money(name);
	table_add(&local->tallies, &tally->entry, tally->name);
	return tally;
}

/* ---- holds ---- */

struct hold *local_find_hold(struct local *local, const char *id)
{
	struct table_entry *entry = table_find(&local->holds, id);

	return entry ? OWNER_OF(entry, struct hold, entry) : NULL;
}

struct hold *local_add_hold(struct local *local, const char *id, struct tally *const *tallies,
			    size_t count)
{
	struct hold *hold = local_alloc(sizeof(*hold));

	assert(!local_find_hold(local, id));
	snprintf(hold->id, sizeof(hold->id), "%s", id);
	hold->tally_count = count;
	for (size_t i = 0; i < count; i++) {
		hold->tallies[i] = tallies[i];
		tallies[i]->user_count++;
	}
	hold->made_at = clock_ms(CLOCK_REALTIME) / 1000;
	table_add(&local->holds, &hold->entry, hold->id);
	return hold;
}

void local_keep_hold(struct local *local, struct hold *hold, const char *call_id)
{
	hold->is_kept = true;
	hold->kept_at = clock_ms(CLOCK_REALTIME) / 1000;
	snprintf(hold->call_id, sizeof(hold->call_id), "%s", call_id);
	if (hold->call_id[0])
		table_add(&local->kept, &hold->by_call, hold->call_id);
}

/* As long as they are kept. */
static const char *shorten(const char *call_id, char ret_short[STORE_CALL_ID_MAX])
{
	snprintf(ret_short, STORE_CALL_ID_MAX, "%s", call_id);
	return ret_short;
}

struct hold *local_find_kept(struct local *local, const char *call_id)
{
	char key[STORE_CALL_ID_MAX];
	struct table_entry *entry = table_find(&local->kept, shorten(call_id, key));

	return entry ? OWNER_OF(entry, struct hold, by_call) : NULL;
}

static void leave_tables(struct local *local, struct hold *hold)
{
	for (size_t i = 0; i < hold->tally_count; i++)
		hold->tallies[i]->user_count--;
	hold->tally_count = 0;
	table_remove(&local->holds, &hold->entry);
	if (hold->call_id[0])
		table_remove(&local->kept, &hold->by_call);
}

void local_end_hold(struct local *local, struct hold *hold)
{
	leave_tables(local, hold);
	hold->is_over = true;
	if (hold->is_journalled)
		local_touch_hold(local, hold);
	else
		free(hold);
}

void local_take_back_hold(struct local *local, struct hold *hold)
{
	leave_tables(local, hold);
	if (hold->is_unwritten)
		LIST_REMOVE(hold);
	free(hold);
}

/* ---- calls ---- */

int local_find_call(struct local *local, const char *call_id, struct journal_call *ret_call)
{
	char key[STORE_CALL_ID_MAX];
	struct table_entry *entry = table_find(&local->calls, shorten(call_id, key));

	*ret_call = (struct journal_call){ .id = call_id };
	if (entry) {
		const struct call *call = OWNER_OF(entry, struct call, entry);

		ret_call->cost = call->cost;
		ret_call->is_truth = call->is_truth;
		return 1;
	}
	return local_load_call(local, key, ret_call);
}

static void forget_oldest_call(struct local *local)
{
	struct call *call = local->first_call;

	local->first_call = call->next;
	if (!local->first_call)
		local->last_call = &local->first_call;
	table_remove(&local->calls, &call->entry);
	free(call);
}

void local_remember_call(struct local *local, const char *call_id, uint64_t cost, bool is_truth)
{
	char key[STORE_CALL_ID_MAX];
	struct table_entry *entry = table_find(&local->calls, shorten(call_id, key));
	struct call *call = entry ? OWNER_OF(entry, struct call, entry) : NULL;

	if (!call) {
		if (!local->journal && local->calls.count == CALLS_MAX)
			forget_oldest_call(local);
		call = local_alloc(sizeof(*call));
		memcpy(call->id, key, sizeof(key));
		table_add(&local->calls, &call->entry, call->id);
		*local->last_call = call;
		local->last_call = &call->next;
	}
	call->cost = cost;
	call->is_truth = is_truth;
	local_hurry(local);
}

/* ---- the end ---- */

#define FREE_ALL(table, type)                                                                      \
	do {                                                                                       \
		struct table_walk walk = { 0 };                                                    \
		struct table_entry *entry;                                                         \
                                                                                                   \
		while ((entry = table_walk((table), &walk)))                                       \
			free(OWNER_OF(entry, type, entry));                                        \
		table_fini(table);                                                                 \
	} while (0)

void local_free_state(struct local *local)
{
	while (local->unwritten.holds) {
		struct hold *hold = local->unwritten.holds;

		LIST_REMOVE(hold);
		if (hold->is_over)
			free(hold);
	}
	FREE_ALL(&local->tallies, struct tally);
	FREE_ALL(&local->holds, struct hold);
	FREE_ALL(&local->calls, struct call);
	FREE_ALL(&local->runs, struct open_run);
	FREE_ALL(&local->revoked, struct revoked);
	table_fini(&local->kept);
}
