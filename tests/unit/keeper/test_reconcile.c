/* SPDX-License-Identifier: MIT */
/* Two lists of calls, side by side (INV-BILLING-TRUTH). */
#include "unit.h"

#include "keeper/reconcile.h"

#define CALLS_MAX 4
#define UNKNOWN   UINT64_MAX

/* A call of a row; the id NULL ends a list. */
struct brief {
	const char *id, *other_id, *whose;
	uint64_t cost;
	int status;
	bool is_outside;
};

static struct reconcile_call call_of(const struct brief *brief, uint64_t time_ms)
{
	return (struct reconcile_call){
		.id = brief->id,
		.other_id = brief->other_id ? brief->other_id : "",
		.whose = brief->whose ? brief->whose : "r/0",
		.end_user = brief->whose ? brief->whose : "r/0",
		.model = "m",
		.time_ms = time_ms,
		.has_cost = brief->cost != UNKNOWN,
		.cost = brief->cost != UNKNOWN ? brief->cost : 0,
		.status = brief->status ? brief->status : 200,
		.is_inside = !brief->is_outside,
	};
}

/* In the order of time. */
static const struct reconcile_result *compare(struct reconcile *reconcile, const char *wanted)
{
	const struct reconcile_result *result = reconcile_compare(reconcile);
	char words[256] = "";

	for (size_t i = 0; i < result->line_count; i++) {
		strcat(words, reconcile_word(result->lines[i].verdict));
		strcat(words, " ");
	}
	assert_string_equal(words, wanted);
	return result;
}

static void verdicts(void **state)
{
	static const struct {
		struct brief ours[CALLS_MAX], theirs[CALLS_MAX];
		const char *verdicts; /* in the order of time */
		uint64_t differences;
	} rows[] = {
		{ { { .id = NULL } }, { { .id = NULL } }, "", 0 },
		{ { { "a", .cost = 5 } }, { { "a", "x", .cost = 5 } }, "same ", 0 },
		/* Rounded once, and more than that. */
		{ { { "a", .cost = 5 } }, { { "a", .cost = 6 } }, "same ", 0 },
		{ { { "a", .cost = 5 } }, { { "a", .cost = 7 } }, "cost ", 1 },
		{ { { "a", .cost = 7 } }, { { "a", .cost = 5 } }, "cost ", 1 },
		/* A stream. */
		{ { { "a", .cost = UNKNOWN } }, { { "a", .cost = 7 } }, "settled ", 0 },
		/* By either of their ids. */
		{ { { "a", .cost = 5 } }, { { "", "a", .cost = 5 } }, "same ", 0 },
		{ { { "a", .cost = 5 } }, { { "x", "a", .cost = 5 } }, "same ", 0 },
		{ { { "a", .cost = 5 } },
		  { { "x", "y", .cost = 5 } },
		  "only-ours only-theirs ",
		  2 },
		{ { { "a", .cost = 5 } }, { { .id = NULL } }, "only-ours ", 1 },
		{ { { .id = NULL } }, { { "a", .cost = 5 } }, "only-theirs ", 1 },
		{ { { .id = NULL } }, { { "a", .cost = 0 } }, "only-theirs ", 1 },
		/* Failed: nobody pays. But what we say has cost something must be there. */
		{ { { "a", .cost = 0, .status = 400 } }, { { .id = NULL } }, "not-billed ", 0 },
		{ { { "a", .cost = UNKNOWN, .status = 500 } },
		  { { .id = NULL } },
		  "not-billed ",
		  0 },
		{ { { "a", .cost = 1, .status = 500 } }, { { .id = NULL } }, "only-ours ", 1 },
		{ { { "a", .cost = 0 } }, { { .id = NULL } }, "only-ours ", 1 },
		/* Without an id nothing can be found; no two of them are the same. */
		{ { { "", .cost = UNKNOWN }, { "", .cost = 0 } },
		  { { .id = NULL } },
		  "no-id no-id ",
		  0 },
		{ { { "", .cost = 5 } }, { { .id = NULL } }, "only-ours ", 1 },
		{ { { "", .cost = UNKNOWN } }, { { "", "", .cost = 5 } }, "no-id only-theirs ", 1 },
		/* Twice. */
		{ { { "a", .cost = 5 }, { "a", .cost = 5 } },
		  { { "a", .cost = 5 } },
		  "same twice ",
		  1 },
		{ { { "a", .cost = 5 } },
		  { { "a", "x", .cost = 5 }, { "a", "y", .cost = 5 } },
		  "same twice ",
		  1 },
		/* The same row, told twice, is one; a try that cost nothing is no other call. */
		{ { { "a", .cost = 5 } },
		  { { "a", "x", .cost = 5 }, { "a", "y", .cost = 0 } },
		  "same retry ",
		  0 },
		{ { { "a", .cost = 5 } },
		  { { "a", "x", .cost = 0 }, { "a", "y", .cost = 5 } },
		  "same retry ",
		  0 },
		/* Under another name. */
		{ { { "a", .cost = 5 } }, { { "a", "x", "s/0", .cost = 5 } }, "whose ", 1 },
		{ { { "a", .cost = UNKNOWN } }, { { "a", "x", "s/0", .cost = 5 } }, "whose ", 1 },
		/* At an edge: one side suffices, and what is outside stands for nobody. */
		{ { { "a", .cost = 5, .is_outside = true } }, { { "a", .cost = 5 } }, "same ", 0 },
		{ { { "a", .cost = 5 } }, { { "a", .cost = 5, .is_outside = true } }, "same ", 0 },
		{ { { "a", .cost = 5, .is_outside = true } }, { { .id = NULL } }, "", 0 },
		{ { { .id = NULL } }, { { "a", .cost = 5, .is_outside = true } }, "", 0 },
		{ { { "a", .cost = 5, .is_outside = true } },
		  { { "a", .cost = 9, .is_outside = true } },
		  "",
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reconcile *reconcile = reconcile_new();
		const struct reconcile_result *result;

		for (size_t j = 0; j < CALLS_MAX && rows[i].ours[j].id; j++) {
			struct reconcile_call call = call_of(&rows[i].ours[j], j + 1);

			assert_int_equal(reconcile_add_ours(reconcile, &call), 0);
		}
		for (size_t j = 0; j < CALLS_MAX && rows[i].theirs[j].id; j++) {
			struct reconcile_call call = call_of(&rows[i].theirs[j], j + 100);

			assert_int_equal(reconcile_add_theirs(reconcile, &call), 0);
		}
		result = compare(reconcile, rows[i].verdicts);
		assert_int_equal(result->differences, rows[i].differences);
		reconcile_free(reconcile);
	}
}

/* What was to be made stands for nothing by itself, and for nobody who has it. */
static void a_call_that_was_only_decided(void **state)
{
	static const struct {
		struct brief decided, ours, theirs;
		const char *end_user; /* of theirs */
		const char *verdicts;
	} rows[] = {
		{ { "a", .cost = UNKNOWN }, { .id = NULL }, { .id = NULL }, NULL, "" },
		{ { "a", .cost = UNKNOWN }, { .id = NULL }, { "a", .cost = 5 }, "r/0", "settled " },
		{ { "a", .cost = UNKNOWN },
		  { .id = NULL },
		  { "a", .cost = 5 },
		  "team",
		  "settled " },
		{ { "a", .cost = UNKNOWN },
		  { .id = NULL },
		  { "a", "x", "s/0", .cost = 5 },
		  "s/0",
		  "whose " },
		{ { "a", .cost = UNKNOWN },
		  { .id = NULL },
		  { "b", .cost = 5 },
		  "r/0",
		  "only-theirs " },
		{ { "a", .cost = UNKNOWN },
		  { "a", .cost = 5 },
		  { "a", .cost = 5 },
		  "r/0",
		  "same " },
		{ { "a", .cost = UNKNOWN },
		  { "a", .cost = 5 },
		  { .id = NULL },
		  NULL,
		  "only-ours " },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reconcile *reconcile = reconcile_new();
		struct reconcile_call decided = call_of(&rows[i].decided, 1);
		struct reconcile_call ours = call_of(&rows[i].ours, 2);
		struct reconcile_call theirs = call_of(&rows[i].theirs, 3);

		decided.end_user = "";
		theirs.end_user = rows[i].end_user;
		assert_int_equal(reconcile_add_decided(reconcile, &decided), 0);
		if (ours.id)
			assert_int_equal(reconcile_add_ours(reconcile, &ours), 0);
		if (theirs.id)
			assert_int_equal(reconcile_add_theirs(reconcile, &theirs), 0);
		compare(reconcile, rows[i].verdicts);
		reconcile_free(reconcile);
	}
}

/* A row of a window that overlaps another; and another call at the same moment. */
static void a_row_that_is_told_twice(void **state)
{
	struct reconcile *reconcile = reconcile_new();
	struct brief brief = { "a", "x", .cost = 5 };
	struct reconcile_call call = call_of(&brief, 1);
	const struct reconcile_result *result;

	(void)state;
	assert_int_equal(reconcile_add_ours(reconcile, &call), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(reconcile_add_theirs(reconcile, &call), 0);
	result = reconcile_compare(reconcile);
	assert_int_equal(result->line_count, 1);
	assert_int_equal(result->theirs.count, 1);
	assert_int_equal(result->theirs.cost, 5);
	reconcile_free(reconcile);
}

static void many_calls_and_their_sums(void **state)
{
	struct reconcile *reconcile = reconcile_new();
	const struct reconcile_result *result;
	char id[32];

	(void)state;
	for (unsigned int i = 0; i < 10000; i++) {
		struct reconcile_call call = { .id = id,
					       .other_id = "",
					       .whose = "r/0",
					       .end_user = "r/0",
					       .model = "",
					       .time_ms = 20000 - i,
					       .has_cost = true,
					       .cost = i,
					       .status = 200,
					       .is_inside = true };

		snprintf(id, sizeof(id), "call-%u", i * 7919 % 10000);
		call.cost = i * 7919 % 10000;
		if (i != 17)
			assert_int_equal(reconcile_add_ours(reconcile, &call), 0);
		snprintf(id, sizeof(id), "call-%u", i);
		call.cost = i;
		if (i != 4711)
			assert_int_equal(reconcile_add_theirs(reconcile, &call), 0);
	}
	result = reconcile_compare(reconcile);
	assert_int_equal(result->line_count, 10000);
	assert_int_equal(result->differences, 2);
	assert_int_equal(result->counts[RECONCILE_ONLY_OURS], 1);
	assert_int_equal(result->counts[RECONCILE_ONLY_THEIRS], 1);
	assert_int_equal(result->ours.count, 9999);
	assert_int_equal(result->theirs.cost, 49995000 - 4711);
	for (size_t i = 1; i < result->line_count; i++)
		assert_true((result->lines[i - 1].ours ? result->lines[i - 1].ours
						       : result->lines[i - 1].theirs)
				    ->time_ms <= (result->lines[i].ours ? result->lines[i].ours
									: result->lines[i].theirs)
							 ->time_ms);
	reconcile_free(reconcile);
}

/* The same rule without a list of ours, in whatever order they come. */
static void each_call_once(void **state)
{
	static const struct {
		struct brief theirs[CALLS_MAX];
		const char *ids;
		uint64_t costs[CALLS_MAX];
	} rows[] = {
		{ { { .id = NULL } }, "", { 0 } },
		{ { { "b", .cost = 5 }, { "a", .cost = 7 } }, "ab", { 7, 5 } },
		{ { { "a", .cost = 0 }, { "a", .cost = 0 }, { "a", .cost = 5 } }, "a", { 5 } },
		{ { { "a", .cost = 5 }, { "a", .cost = 0 }, { "a", .cost = 0 } }, "a", { 5 } },
		{ { { "a", .cost = 0 }, { "b", .cost = 3 }, { "a", .cost = 0 } }, "ab", { 0, 3 } },
		/* Of two that cost something the first one is it, each time. */
		{ { { "a", .cost = 5 }, { "b", .cost = 0 }, { "a", .cost = 9 } }, "ab", { 5, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reconcile *reconcile = reconcile_new();

		for (size_t j = 0; j < CALLS_MAX && rows[i].theirs[j].id; j++) {
			struct reconcile_call call = call_of(&rows[i].theirs[j], j + 1);

			assert_int_equal(reconcile_add_theirs(reconcile, &call), 0);
		}
		assert_int_equal(reconcile_gather(reconcile), strlen(rows[i].ids));
		for (size_t j = 0; rows[i].ids[j]; j++) {
			assert_int_equal(reconcile_get(reconcile, j)->id[0], rows[i].ids[j]);
			assert_int_equal(reconcile_get(reconcile, j)->cost, rows[i].costs[j]);
		}
		reconcile_free(reconcile);
	}
}

int main(void)
{
	RUN_TESTS(TEST(verdicts), TEST(a_call_that_was_only_decided),
		  TEST(a_row_that_is_told_twice), TEST(many_calls_and_their_sums),
		  TEST(each_call_once));
}
