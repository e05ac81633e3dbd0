/* SPDX-License-Identifier: MIT */
/*
 * The comparison: ours are sorted by id, each of theirs is looked for among them, and what has
 * found no partner stands for itself.
 */
#include "keeper/reconcile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/die.h"

/* Both sides come from the same floating-point number, read as text: it may be rounded once. */
#define ROUNDING 1

#define FIRST_SIZE 64

struct entry {
	struct reconcile_call call; /* first */
	struct entry *partner;      /* of ours: the row for it, or NULL */
	bool is_paired;             /* of theirs */
	bool is_again;              /* its id has been there before */
};

struct side {
	struct entry **entries;
	size_t count, size;
};

struct reconcile {
	struct arena arena;
	struct side ours, theirs, decided;
	struct reconcile_line *lines;
	struct reconcile_result result;
};

static const struct {
	const char *word, *text;
} verdicts[] = {
	[RECONCILE_SAME] = { "same", "both have it at the same cost" },
	[RECONCILE_SETTLED] = { "settled", "both have it, LiteLLM knows its cost" },
	[RECONCILE_RETRY] = { "retry", "another try within LiteLLM, for nothing" },
	[RECONCILE_NOT_BILLED] = { "not-billed", "failed, and LiteLLM has no row for it" },
	[RECONCILE_NO_ID] = { "no-id", "without an id: it cannot be looked for" },
	[RECONCILE_COST] = { "cost", "the costs differ" },
	[RECONCILE_WHOSE] = { "whose", "LiteLLM has it under another name" },
	[RECONCILE_ONLY_OURS] = { "only-ours", "LiteLLM does not have it" },
	[RECONCILE_ONLY_THEIRS] = { "only-theirs", "the audit log does not have it" },
	[RECONCILE_TWICE] = { "twice", "its id is there twice" },
};

const char *reconcile_word(enum reconcile_verdict verdict)
{
	return verdicts[verdict].word;
}

const char *reconcile_text(enum reconcile_verdict verdict)
{
	return verdicts[verdict].text;
}

/* ---- gathering ---- */

struct reconcile *reconcile_new(void)
{
	struct reconcile *reconcile = calloc(1, sizeof(*reconcile));

	if (!reconcile)
		die_no_memory();
	return reconcile;
}

void reconcile_free(struct reconcile *reconcile)
{
	free(reconcile->ours.entries);
	free(reconcile->theirs.entries);
	free(reconcile->decided.entries);
	free(reconcile->lines);
	arena_fini(&reconcile->arena);
	free(reconcile);
}

static int add(struct reconcile *reconcile, struct side *side, const struct reconcile_call *call)
{
	struct arena *arena = &reconcile->arena;
	struct entry *entry;

	if (side->count == RECONCILE_CALLS_MAX)
		return -E2BIG;
	if (side->count == side->size) {
		side->size = side->size ? 2 * side->size : FIRST_SIZE;
		side->entries = reallocarray(side->entries, side->size, sizeof(struct entry *));
		if (!side->entries)
			die_no_memory();
	}
	entry = arena_alloc(arena, sizeof(*entry));
	entry->call = *call;
	entry->call.id = arena_strdup(arena, call->id);
	entry->call.other_id = arena_strdup(arena, call->other_id);
	entry->call.whose = arena_strdup(arena, call->whose);
	entry->call.end_user = arena_strdup(arena, call->end_user);
	entry->call.model = arena_strdup(arena, call->model);
	side->entries[side->count++] = entry;
	return 0;
}

int reconcile_add_ours(struct reconcile *reconcile, const struct reconcile_call *call)
{
	return add(reconcile, &reconcile->ours, call);
}

int reconcile_add_theirs(struct reconcile *reconcile, const struct reconcile_call *call)
{
	return add(reconcile, &reconcile->theirs, call);
}

int reconcile_add_decided(struct reconcile *reconcile, const struct reconcile_call *call)
{
	return add(reconcile, &reconcile->decided, call);
}

/* ---- pairing ---- */

static int by_id(const void *a, const void *b)
{
	const struct entry *first = *(const struct entry *const *)a;
	const struct entry *second = *(const struct entry *const *)b;
	int order = strcmp(first->call.id, second->call.id);

	if (order == 0)
		order = strcmp(first->call.other_id, second->call.other_id);
	if (order == 0)
		order = (first->call.time_ms > second->call.time_ms) -
			(first->call.time_ms < second->call.time_ms);
	return order;
}

static void sort(struct side *side, int (*compare)(const void *a, const void *b))
{
	if (side->count > 0)
		qsort(side->entries, side->count, sizeof(struct entry *), compare);
}

/* A row that was told twice, of windows that overlap, is one row. */
static void drop_repeated(struct side *theirs)
{
	size_t kept = 0;

	for (size_t i = 0; i < theirs->count; i++) {
		const struct reconcile_call *call = &theirs->entries[i]->call;
		const struct reconcile_call *before = kept ? &theirs->entries[kept - 1]->call
							   : NULL;

		if (before && call->other_id[0] && strcmp(before->other_id, call->other_id) == 0 &&
		    strcmp(before->id, call->id) == 0 && before->cost == call->cost &&
		    before->time_ms == call->time_ms)
			continue;
		theirs->entries[kept++] = theirs->entries[i];
	}
	theirs->count = kept;
}

static void mark_repeated(struct side *ours)
{
	for (size_t i = 1; i < ours->count; i++)
		ours->entries[i]->is_again = ours->entries[i]->call.id[0] &&
					     strcmp(ours->entries[i - 1]->call.id,
						    ours->entries[i]->call.id) == 0;
}

static int to_id(const void *id, const void *entry)
{
	return strcmp(id, (*(const struct entry *const *)entry)->call.id);
}

/* The first of ours with that id. */
static struct entry *find(const struct side *ours, const char *id)
{
	struct entry **found = id[0] && ours->count ? bsearch(id, ours->entries, ours->count,
							      sizeof(struct entry *), to_id)
						    : NULL;

	if (!found)
		return NULL;
	while (found > ours->entries && strcmp(found[-1]->call.id, id) == 0)
		found--;
	return *found;
}

/* A call may have several rows, of tries that failed: the one that cost something is it. */
static bool is_rather(const struct entry *theirs, const struct entry *other)
{
	return other->call.cost == 0 && theirs->call.cost > 0;
}

static void pair(struct entry *ours, struct entry *theirs)
{
	struct entry *other = ours->partner;

	if (other && is_rather(theirs, other)) {
		other->is_again = true;
		ours->partner = theirs;
	} else if (other) {
		theirs->is_again = true;
	} else {
		ours->partner = theirs;
	}
	theirs->is_paired = true;
}

static void pair_all(struct reconcile *reconcile)
{
	for (size_t i = 0; i < reconcile->theirs.count; i++) {
		struct entry *theirs = reconcile->theirs.entries[i];
		struct entry *ours = find(&reconcile->ours, theirs->call.id);

		if (!ours)
			ours = find(&reconcile->ours, theirs->call.other_id);
		if (!ours)
			ours = find(&reconcile->decided, theirs->call.id);
		if (ours)
			pair(ours, theirs);
	}
}

size_t reconcile_gather(struct reconcile *reconcile)
{
	struct side *theirs = &reconcile->theirs;
	size_t kept = 0;

	sort(theirs, by_id);
	for (size_t i = 0; i < theirs->count; i++) {
		struct entry *row = theirs->entries[i];
		struct entry *before = kept ? theirs->entries[kept - 1] : NULL;

		if (!before || strcmp(before->call.id, row->call.id) != 0)
			theirs->entries[kept++] = row;
		else if (is_rather(row, before))
			theirs->entries[kept - 1] = row;
	}
	theirs->count = kept;
	return kept;
}

const struct reconcile_call *reconcile_get(const struct reconcile *reconcile, size_t i)
{
	return &reconcile->theirs.entries[i]->call;
}

/* ---- judging ---- */

/* LiteLLM can be told not to keep end users; then what warder says beside that counts. */
static bool is_same_user(const struct reconcile_call *ours, const struct reconcile_call *theirs)
{
	if (ours->end_user[0] && theirs->end_user[0])
		return strcmp(ours->end_user, theirs->end_user) == 0;
	return strcmp(ours->whose, theirs->whose) == 0;
}

static enum reconcile_verdict judge_pair(const struct reconcile_call *ours,
					 const struct reconcile_call *theirs)
{
	uint64_t more = ours->cost > theirs->cost ? ours->cost : theirs->cost;
	uint64_t less = ours->cost > theirs->cost ? theirs->cost : ours->cost;

	if (!is_same_user(ours, theirs))
		return RECONCILE_WHOSE;
	if (!ours->has_cost)
		return RECONCILE_SETTLED;
	return more - less <= ROUNDING ? RECONCILE_SAME : RECONCILE_COST;
}

static enum reconcile_verdict judge_ours(const struct entry *entry)
{
	const struct reconcile_call *call = &entry->call;
	bool is_free = !call->has_cost || call->cost == 0;

	if (entry->is_again)
		return RECONCILE_TWICE;
	if (entry->partner)
		return judge_pair(call, &entry->partner->call);
	if (is_free && !call->id[0])
		return RECONCILE_NO_ID;
	return is_free && call->status >= 400 ? RECONCILE_NOT_BILLED : RECONCILE_ONLY_OURS;
}

static enum reconcile_verdict judge_theirs(const struct entry *entry)
{
	if (entry->is_again)
		return entry->call.cost > 0 ? RECONCILE_TWICE : RECONCILE_RETRY;
	return RECONCILE_ONLY_THEIRS;
}

static void count(struct reconcile_side *side, const struct reconcile_call *call)
{
	if (!call)
		return;
	side->count++;
	side->cost += call->cost;
	side->unknown_count += !call->has_cost;
}

static void show(struct reconcile *reconcile, enum reconcile_verdict verdict,
		 const struct reconcile_call *ours, const struct reconcile_call *theirs)
{
	struct reconcile_result *result = &reconcile->result;

	if (!(ours && ours->is_inside) && !(theirs && theirs->is_inside))
		return;
	reconcile->lines[result->line_count++] = (struct reconcile_line){ verdict, ours, theirs };
	count(&result->ours, ours);
	count(&result->theirs, theirs);
	result->counts[verdict]++;
	result->differences += reconcile_is_difference(verdict);
}

static void show_ours(struct reconcile *reconcile, const struct entry *entry)
{
	show(reconcile, judge_ours(entry), &entry->call,
	     entry->partner ? &entry->partner->call : NULL);
}

static uint64_t time_of(const struct reconcile_line *line)
{
	return line->ours ? line->ours->time_ms : line->theirs->time_ms;
}

static int by_time(const void *a, const void *b)
{
	uint64_t first = time_of(a), second = time_of(b);

	return (first > second) - (first < second);
}

const struct reconcile_result *reconcile_compare(struct reconcile *reconcile)
{
	struct side *ours = &reconcile->ours, *theirs = &reconcile->theirs;

	sort(ours, by_id);
	sort(theirs, by_id);
	sort(&reconcile->decided, by_id);
	drop_repeated(theirs);
	mark_repeated(ours);
	pair_all(reconcile);
	reconcile->lines = calloc(ours->count + theirs->count + 1, sizeof(*reconcile->lines));
	if (!reconcile->lines)
		die_no_memory();
	for (size_t i = 0; i < ours->count; i++)
		show_ours(reconcile, ours->entries[i]);
	for (size_t i = 0; i < reconcile->decided.count; i++)
		if (reconcile->decided.entries[i]->partner)
			show_ours(reconcile, reconcile->decided.entries[i]);
	for (size_t i = 0; i < theirs->count; i++)
		if (!theirs->entries[i]->is_paired || theirs->entries[i]->is_again)
			show(reconcile, judge_theirs(theirs->entries[i]), NULL,
			     &theirs->entries[i]->call);
	qsort(reconcile->lines, reconcile->result.line_count, sizeof(*reconcile->lines), by_time);
	reconcile->result.lines = reconcile->lines;
	return &reconcile->result;
}
