/* SPDX-License-Identifier: MIT */
/* The table of what can be asked. */
#include "store/pgask.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/die.h"
#include "store/pgtext.h"

#define RATE_MAX     UINT64_C(100000000000000) /* more is as good as none */
#define BURST_MAX    UINT64_C(100000000)
#define SECOND_MS    1000
#define REQUEST      (SECOND_MS * LIMITS_PER_SECOND) /* as in postgres.sql */
#define SECONDS_MAX  UINT64_C(100000000000)          /* PostgreSQL's calendar ends later */
#define AGE_MAX_MS   UINT64_C(100000000000)          /* no run is known for so long */
#define RELEASE_STEP 1000 /* as in postgres.sql: when so many were released there may be more */
#define AGAIN_MS     1000 /* an unreachable store may be there again by then */

#define ALL "$1, $2, $3"

static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, 10);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- settle ---- */

struct settlement {
	char id[STORE_ID_MAX];
	uint64_t bytes, cost;
	bool is_cost_known;
	char call_id[STORE_CALL_ID_MAX];
};

void pgask_settle(struct pgask_book *book, const struct store_settlement *settlement)
{
	struct settlement *copy = calloc(1, sizeof(*copy));

	if (!copy)
		die_no_memory();
	copy->bytes = settlement->bytes;
	copy->cost = settlement->cost;
	copy->is_cost_known = settlement->is_cost_known;
	snprintf(copy->id, sizeof(copy->id), "%s", settlement->id);
	snprintf(copy->call_id, sizeof(copy->call_id), "%s", settlement->call_id);
	pglist_add(&book->waiting[PGASK_SETTLE], copy);
}

static void write_settle(const struct pgask_book *book, const struct pglist *list,
			 struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++) {
		const struct settlement *settlement = list->items[i];

		pgtext_add(&params[0], settlement->id);
		pgtext_add_number(&params[1], settlement->bytes);
		pgtext_add_bool(&params[2], settlement->is_cost_known);
		pgtext_add_number(&params[3], settlement->cost);
		pgtext_add(&params[4], settlement->call_id);
	}
}

static void free_item(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms)
{
	(void)book;
	(void)values;
	(void)now_ms;
	free(item);
}

/* ---- runs ---- */

void pgask_close_run(struct pgask_book *book, const char *run_id)
{
	char *copy = strdup(run_id);

	if (!copy)
		die_no_memory();
	pglist_add(&book->waiting[PGASK_CLOSE], copy);
}

static void write_close(const struct pgask_book *book, const struct pglist *list,
			struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++)
		pgtext_add(&params[0], list->items[i]);
}

static void write_open(const struct pgask_book *book, const struct pglist *list, struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++) {
		const struct store_run *run = list->items[i];

		pgtext_add(&params[0], run->run_id);
		pgtext_add(&params[1], run->account);
		pgtext_add_number(&params[2], run->attempt);
		pgtext_add_bool(&params[3], run->has_no_link);
		pgtext_add_number(&params[4], least(run->age_ms, AGE_MAX_MS));
	}
}

static void answer_open(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms)
{
	struct store_run *run = item;

	run->verdict = (enum store_verdict)number_of(values[0]);
	run->begun_ms = number_of(values[1]);
	if (run->verdict == STORE_GRANTED && !run->has_no_link)
		watch_open(&book->watch, run->run_id);
	run->on_done(run, now_ms);
}

static void refuse_open(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	struct store_run *run = item;

	if (was_sent && !run->has_no_link)
		pgask_close_run(book, run->run_id);
	book->store->failure_count++;
	run->verdict = STORE_UNREACHABLE;
	run->on_done(run, now_ms);
}

static void write_revoke(const struct pgask_book *book, const struct pglist *list,
			 struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++) {
		const struct store_revocation *revocation = list->items[i];

		pgtext_add(&params[0], revocation->run_id);
	}
}

static void tell(struct pgask_book *book, enum store_news news, const char *about, uint64_t now_ms)
{
	if (book->store->on_news)
		book->store->on_news(book->store, news, about, now_ms);
}

static void answer_revoke(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms)
{
	struct store_revocation *revocation = item;

	(void)values;
	if (watch_is_revoked(&book->watch, revocation->run_id))
		tell(book, STORE_NEWS_REVOKED, revocation->run_id, now_ms);
	revocation->verdict = STORE_GRANTED;
	revocation->on_done(revocation, now_ms);
}

static void refuse_revoke(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	struct store_revocation *revocation = item;

	(void)was_sent; /* who asked asks again */
	book->store->failure_count++;
	revocation->verdict = STORE_UNREACHABLE;
	revocation->on_done(revocation, now_ms);
}

/* ---- reserve ---- */

/* All meters that are claimed, escaped, each once, in order. */
struct names {
	struct arena arena;
	const char **list;
	size_t count;
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *escape(struct arena *arena, const char *name)
{
	struct buf escaped;
	const char *copy;

	buf_init(&escaped, SIZE_MAX);
	pgtext_escape(&escaped, name);
	copy = arena_strdup(arena, escaped.len > 0 ? escaped.data : "");
	buf_fini(&escaped);
	return copy;
}

/* `own` gets the name of each claim, three for each reservation; NULL where there is none. */
static void gather_names(const struct pglist *list, struct names *ret_names, const char **own)
{
	size_t all = list->count * STORE_CLAIMS_MAX, count = 0;
	const char **sorted = arena_alloc(&ret_names->arena, all * sizeof(char *));

	for (size_t i = 0; i < all; i++) {
		const struct store_reservation *reservation = list->items[i / STORE_CLAIMS_MAX];
		size_t claim = i % STORE_CLAIMS_MAX;

		own[i] = NULL;
		if (claim < reservation->claim_count)
			sorted[count++] = own[i] = escape(&ret_names->arena,
							  reservation->claims[claim].meter);
	}
	qsort(sorted, count, sizeof(char *), compare);
	ret_names->list = sorted;
	for (size_t i = 0; i < count; i++)
		if (ret_names->count == 0 || strcmp(sorted[ret_names->count - 1], sorted[i]) != 0)
			sorted[ret_names->count++] = sorted[i];
}

/* From 1, as PostgreSQL counts. */
static size_t place_of(const struct names *names, const char *name)
{
	const char **found = bsearch(&name, names->list, names->count, sizeof(char *), compare);

	return (size_t)(found - names->list) + 1;
}

/* Those that it is tested by. */
static struct limits limits_of(const struct store_reservation *reservation, size_t claim)
{
	struct limits limits = reservation->claims[claim].limits;

	if (reservation->is_more)
		return (struct limits){ .bytes = limits.bytes };
	limits.spend = store_spend_limit(reservation, claim);
	return limits;
}

static void write_claim(size_t place, const struct limits *limits, struct buf *params)
{
	uint64_t rate = least(limits->rate, RATE_MAX), capacity;

	/* Nothing set is one second's, but a request at least. */
	capacity = limits->burst ? least(limits->burst, BURST_MAX) * REQUEST : rate * SECOND_MS;
	pgtext_add_number(&params[0], place);
	pgtext_add_number(&params[1], rate);
	pgtext_add_number(&params[2], capacity < REQUEST ? REQUEST : capacity);
	pgtext_add_number(&params[3], limits->concurrent);
	pgtext_add_number(&params[4], limits->bytes);
	pgtext_add_number(&params[5], limits->spend);
}

static void write_reserve(const struct pgask_book *book, const struct pglist *list,
			  struct buf *params)
{
	static const struct limits none;
	struct names names = { 0 };
	const char **own = arena_alloc(&names.arena,
				       list->count * STORE_CLAIMS_MAX * sizeof(char *));

	(void)book;
	gather_names(list, &names, own);
	for (size_t i = 0; i < names.count; i++)
		pgtext_add_escaped(&params[0], names.list[i]);
	for (size_t i = 0; i < list->count; i++) {
		const struct store_reservation *reservation = list->items[i];

		pgtext_add(&params[1], reservation->id);
		pgtext_add(&params[2], reservation->run_id);
		pgtext_add(&params[3], reservation->account);
		pgtext_add_number(&params[4], reservation->attempt);
		pgtext_add_number(&params[5], reservation->bytes);
		pgtext_add_number(&params[6], reservation->spend);
		pgtext_add_number(&params[13], reservation->more);
		pgtext_add_bool(&params[14], reservation->is_more);
		for (size_t c = 0; c < STORE_CLAIMS_MAX; c++) {
			const char *name = own[i * STORE_CLAIMS_MAX + c];
			const struct limits limits = name ? limits_of(reservation, c) : none;

			write_claim(name ? place_of(&names, name) : 0, &limits, params + 7);
		}
	}
	arena_fini(&names.arena);
}

static void answer_reserve(struct pgask_book *book, void *item, char *const *values,
			   uint64_t now_ms)
{
	struct store_reservation *reservation = item;

	(void)book;
	reservation->verdict = (enum store_verdict)number_of(values[0]);
	reservation->refused_claim = number_of(values[1]);
	reservation->retry_ms = number_of(values[2]);
	reservation->granted_bytes = number_of(values[3]);
	reservation->on_done(reservation, now_ms);
}

static void refuse_reserve(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	struct store_reservation *reservation = item;

	/* There may be a hold, of something that is never done. What it has got more is its own. */
	if (was_sent && !reservation->is_more)
		pgask_settle(book, &(struct store_settlement){ .id = reservation->id,
							       .is_cost_known = true,
							       .call_id = "" });
	book->store->failure_count++;
	reservation->verdict = STORE_UNREACHABLE;
	reservation->refused_claim = 0;
	reservation->retry_ms = AGAIN_MS;
	reservation->on_done(reservation, now_ms);
}

/* ---- meters and calls ---- */

static void write_read(const struct pgask_book *book, const struct pglist *list, struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++) {
		const struct store_meter *meter = list->items[i];

		pgtext_add(&params[0], meter->meter);
	}
}

static void answer_read(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms)
{
	struct store_meter *meter = item;

	(void)book;
	meter->verdict = STORE_GRANTED;
	meter->bytes = number_of(values[0]);
	meter->spent = number_of(values[1]);
	meter->reserved = number_of(values[2]);
	meter->concurrent = number_of(values[3]);
	meter->on_done(meter, now_ms);
}

static void refuse_read(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	struct store_meter *meter = item;

	(void)was_sent;
	book->store->failure_count++;
	meter->verdict = STORE_UNREACHABLE;
	meter->on_done(meter, now_ms);
}

static void write_reconcile(const struct pgask_book *book, const struct pglist *list,
			    struct buf *params)
{
	(void)book;
	for (size_t i = 0; i < list->count; i++) {
		const struct store_call *call = list->items[i];
		char call_id[STORE_CALL_ID_MAX];

		snprintf(call_id, sizeof(call_id), "%s", call->call_id); /* as it was settled */
		pgtext_add(&params[0], call_id);
		pgtext_add(&params[1], call->run_id);
		pgtext_add(&params[2], call->account);
		pgtext_add_number(&params[3], call->attempt);
		pgtext_add_number(&params[4], call->cost);
	}
}

static void answer_reconcile(struct pgask_book *book, void *item, char *const *values,
			     uint64_t now_ms)
{
	struct store_call *call = item;

	(void)book;
	call->verdict = STORE_GRANTED;
	call->was_known = values[0][0] == 't';
	call->counted = number_of(values[1]);
	call->on_done(call, now_ms);
}

static void refuse_reconcile(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	struct store_call *call = item;

	(void)was_sent; /* doing it again changes nothing */
	book->store->failure_count++;
	call->verdict = STORE_UNREACHABLE;
	call->on_done(call, now_ms);
}

/* ---- what has one item, which says only that it is to be done ---- */

static void write_release(const struct pgask_book *book, const struct pglist *list,
			  struct buf *params)
{
	(void)list;
	pgtext_add(&params[0], book->release.logs);
	pgtext_add_number(&params[1], least(book->release.since_s, SECONDS_MAX));
	pgtext_add_number(&params[1], least(book->release.before_s, SECONDS_MAX));
}

static void answer_release(struct pgask_book *book, void *item, char *const *values,
			   uint64_t now_ms)
{
	(void)now_ms;
	if (number_of(values[0]) >= RELEASE_STEP && book->waiting[PGASK_RELEASE].count == 0)
		pglist_add(&book->waiting[PGASK_RELEASE], item);
}

static void add_name(void *owner, const char *name)
{
	pgtext_add(owner, name);
}

static void write_news(const struct pgask_book *book, const struct pglist *list, struct buf *params)
{
	(void)list;
	watch_each_run(&book->watch, add_name, &params[0]);
	watch_each_meter(&book->watch, add_name, &params[1]);
}

static void answer_news(struct pgask_book *book, void *item, char *const *values, uint64_t now_ms)
{
	(void)item;
	if (values[0][0]) {
		pgtext_unescape(values[0]);
		if (watch_is_revoked(&book->watch, values[0]))
			tell(book, STORE_NEWS_REVOKED, values[0], now_ms);
	} else {
		pgtext_unescape(values[1]);
		if (watch_is_spent(&book->watch, values[1], number_of(values[2])))
			tell(book, STORE_NEWS_NO_MONEY, values[1], now_ms);
	}
}

static void write_nothing(const struct pgask_book *book, const struct pglist *list,
			  struct buf *params)
{
	(void)book;
	(void)list;
	(void)params;
}

static void answer_nothing(struct pgask_book *book, void *item, char *const *values,
			   uint64_t now_ms)
{
	(void)book;
	(void)item;
	(void)values;
	(void)now_ms;
}

static void refuse_nothing(struct pgask_book *book, void *item, bool was_sent, uint64_t now_ms)
{
	(void)book;
	(void)item;
	(void)was_sent;
	(void)now_ms;
}

/* ---- the table ---- */

const struct pgask_kind pgask_kinds[PGASK_COUNT] = {
	[PGASK_SETTLE] = { "settle", "SELECT warder.settle(" ALL ", $4, $5, $6, $7, $8)", 5, 1,
			   PGASK_NO_ROWS, true, write_settle, free_item, NULL },
	[PGASK_CLOSE] = { "close", "SELECT warder.close_runs(" ALL ", $4)", 1, 1, PGASK_NO_ROWS,
			  true, write_close, free_item, NULL },
	[PGASK_REVOKE] = { "revoke", "SELECT warder.revoke(" ALL ", $4)", 1, 1, PGASK_ROW_EACH,
			   false, write_revoke, answer_revoke, refuse_revoke },
	[PGASK_RECONCILE] = { "reconcile",
			      "SELECT * FROM warder.reconcile(" ALL ", $4, $5, $6, $7, $8)", 5, 2,
			      PGASK_ROW_EACH, false, write_reconcile, answer_reconcile,
			      refuse_reconcile },
	[PGASK_RELEASE] = { "release",
			    "SELECT warder.release(" ALL
			    ", ($4::text[])[1], ($5::bigint[])[1], ($5::bigint[])[2])",
			    2, 1, PGASK_ROW_EACH, true, write_release, answer_release, NULL },
	[PGASK_OPEN] = { "open", "SELECT * FROM warder.open_runs(" ALL ", $4, $5, $6, $7, $8)", 5,
			 2, PGASK_ROW_EACH, false, write_open, answer_open, refuse_open },
	[PGASK_RESERVE] = { "reserve",
			    "SELECT unnest(verdicts), unnest(refused), unnest(waits), "
			    "unnest(grants) "
			    "FROM warder.reserve(" ALL
			    ", $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
			    "$14, $15, $16, $17, $18)",
			    15, 4, PGASK_ROW_EACH, false, write_reserve, answer_reserve,
			    refuse_reserve },
	[PGASK_READ] = { "read", "SELECT * FROM warder.read_meters(" ALL ", $4)", 1, 4,
			 PGASK_ROW_EACH, false, write_read, answer_read, refuse_read },
	[PGASK_NEWS] = { "news", "SELECT * FROM warder.news(" ALL ", $4, $5)", 2, 3,
			 PGASK_ROWS_OF_THEM, false, write_news, answer_news, refuse_nothing },
	[PGASK_BEAT] = { "beat", "SELECT warder.beat(" ALL ")", 0, 1, PGASK_ROW_EACH, false,
			 write_nothing, answer_nothing, refuse_nothing },
	[PGASK_TIDY] = { "tidy", "SELECT warder.tidy(" ALL ")", 0, 1, PGASK_ROW_EACH, false,
			 write_nothing, answer_nothing, refuse_nothing },
	[PGASK_LEAVE] = { "leave", "SELECT warder.leave(" ALL ")", 0, 1, PGASK_ROW_EACH, false,
			  write_nothing, answer_nothing, refuse_nothing },
};

void pgask_fini(struct pgask_book *book)
{
	static const enum pgask own[] = { PGASK_SETTLE, PGASK_CLOSE };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		for (size_t j = 0; j < book->waiting[own[i]].count; j++)
			free(book->waiting[own[i]].items[j]);
	for (size_t i = 0; i < PGASK_COUNT; i++)
		pglist_drop(&book->waiting[i]);
	watch_fini(&book->watch);
}
