/* SPDX-License-Identifier: MIT */
/*
 * Rounds of reading LiteLLM's log.
 *
 *   on_due ──▶ read_next ──▶ on_row … on_log_done ──▶ tell_some … ──▶ read_next … ──▶ finish_round
 *
 * What a log has of one call may be several rows, in any order. So the rows are gathered, and the
 * store is told of each call when all have come; a few at a time, for it may write each down.
 */
#include "keeper/reconciler.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "keeper/reconcile.h"
#include "keeper/spend_log.h"

#define FAR_S       604800 /* how far back the first round looks, */
#define FAR_EVERY_S 86400  /* and so often another: for calls of keepers that are gone */
#define NEAR_S      3600   /* how far behind the last one the others begin */
#define TELL_MAX    64     /* calls that the store is told in one turn */

struct reconciler {
	struct keeper *keeper;
	struct loop_timer timer, tell_timer;
	uint64_t every_ms, grace_ms;
	/* The round under way. */
	struct charter *charter; /* a use of it; NULL: none is */
	size_t llm;              /* whose log is read */
	struct upstream upstream;
	struct spend_log *log;
	struct reconcile *rows;     /* what it has, and then what the store is told; or NULL */
	size_t row_count, next_row; /* the latter */
	uint64_t since_s, until_s;
	size_t open_count; /* calls that the store has not answered for */
	size_t call_count;
	char logs[STORE_LOGS_MAX]; /* the names of those that were read */
	bool has_failed;
	bool has_store_failed;
	bool has_log_failed; /* the one that is read, or was last */
	bool has_nameless;   /* the log has rows that cannot be told from others */
	uint64_t done_s;     /* until when everything has been read; 0: nothing has */
	uint64_t far_s;      /* when it was last looked far back, */
	uint64_t far_back_s; /* and how far that is */
	/*
	 * When the earliest began of the calls that may be missing in the log: of those that had
	 * ended before `sealed_s`, until a round has begun some time after that; and of those after
	 * it. 0: none.
	 */
	uint64_t early_s, next_early_s, sealed_s;
	bool is_over;
};

/* One that the store is asked about; its texts follow it. */
struct told {
	struct store_call call; /* first */
	struct reconciler *reconciler;
	char run_id[RUNID_MAX + 1];
	char account[SPEND_TEXT_MAX + 1], call_id[SPEND_TEXT_MAX + 1];
};

static void read_next(struct reconciler *reconciler, uint64_t now_ms);

/* ---- telling the store ---- */

static void count(struct reconciler *reconciler, const struct told *told, uint64_t now_ms)
{
	struct keeper *keeper = reconciler->keeper;
	const struct store_call *call = &told->call;
	bool is_equal = call->was_known && call->counted == call->cost;

	keeper->metrics.reconciled[is_equal          ? METRICS_RECONCILED_EQUAL
				   : call->was_known ? METRICS_RECONCILED_CORRECTED
						     : METRICS_RECONCILED_UNKNOWN]++;
	if (!is_equal)
		keeper_notice(keeper, NOTICE_RECONCILE_DIFFERS, now_ms,
			      &(struct notice){ .run_id = told->run_id,
						.code = call->was_known ? "corrected" : "unknown",
						.text = told->call_id });
}

static void free_if_over(struct reconciler *reconciler)
{
	if (reconciler->is_over && reconciler->open_count == 0)
		free(reconciler);
}

/* A store that does not answer is not asked for the rest: the next round has it all again. */
static void go_on(struct reconciler *reconciler, uint64_t now_ms)
{
	if (reconciler->is_over || reconciler->open_count > 0)
		return;
	if (reconciler->next_row < reconciler->row_count && !reconciler->has_store_failed) {
		loop_set_timer(&reconciler->keeper->loop, &reconciler->tell_timer, now_ms);
		return;
	}
	reconcile_free(reconciler->rows);
	reconciler->rows = NULL;
	read_next(reconciler, now_ms);
}

static void on_told(struct store_call *call, uint64_t now_ms)
{
	struct told *told = (struct told *)(void *)call;
	struct reconciler *reconciler = told->reconciler;

	reconciler->open_count--;
	if (call->verdict != STORE_GRANTED) {
		reconciler->has_failed = reconciler->has_store_failed = true;
		reconciler->keeper->metrics.reconciled[METRICS_RECONCILED_FAILED]++;
	} else if (!reconciler->is_over) {
		count(reconciler, told, now_ms);
	}
	free(told);
	go_on(reconciler, now_ms);
	free_if_over(reconciler);
}

/* "RUN/ATTEMPT" is no account. */
static bool is_account(const char *end_user, const char *run_id)
{
	size_t len = strlen(run_id);

	return *end_user && (strncmp(end_user, run_id, len) != 0 || end_user[len] != '/');
}

static void tell(struct reconciler *reconciler, const struct reconcile_call *call, uint64_t now_ms)
{
	const struct spend_row whose = { .run_id = "", .end_user = call->whose };
	struct store *store = reconciler->keeper->store;
	struct told *told = calloc(1, sizeof(*told));

	if (!told)
		die_no_memory();
	told->reconciler = reconciler;
	snprintf(told->call_id, sizeof(told->call_id), "%s", call->id);
	told->call = (struct store_call){ .call_id = told->call_id,
					  .run_id = told->run_id,
					  .account = told->account,
					  .cost = call->cost,
					  .on_done = on_told };
	spend_row_run(&whose, told->run_id, &told->call.attempt);
	if (is_account(call->end_user, told->run_id))
		snprintf(told->account, sizeof(told->account), "%s", call->end_user);
	reconciler->open_count++;
	reconciler->call_count++;
	store->ops->reconcile(store, &told->call, now_ms);
}

/* Of a log that could not be read to its end what was for nothing may not be all of a call. */
static void tell_some(struct reconciler *reconciler, uint64_t now_ms)
{
	reconciler->open_count++; /* answers may come at once: none of them goes on */
	for (size_t i = 0; i < TELL_MAX && reconciler->next_row < reconciler->row_count; i++) {
		const struct reconcile_call *call = reconcile_get(reconciler->rows,
								  reconciler->next_row++);

		if (call->cost > 0 || !reconciler->has_log_failed)
			tell(reconciler, call, now_ms);
	}
	reconciler->open_count--;
	go_on(reconciler, now_ms);
}

static void on_tell_due(struct loop_timer *timer, uint64_t now_ms)
{
	tell_some(OWNER_OF(timer, struct reconciler, tell_timer), now_ms);
}

/* ---- rows ---- */

/*
 * A row without the id that replies carry could be a call that was counted already: it is not told,
 * and what it has cost is not known to be counted. One that names no run was not made by warder.
 */
static int on_row(void *owner, const struct spend_row *row, struct err *err)
{
	struct reconciler *reconciler = owner;
	char run_id[RUNID_MAX + 1], whose[RUNID_MAX + 16];
	struct reconcile_call call = { .id = row->call_id,
				       .other_id = "",
				       .whose = whose,
				       .end_user = row->end_user,
				       .model = "",
				       .time_ms = row->start_ms,
				       .cost = row->cost };
	uint32_t attempt;

	if (!spend_row_run(row, run_id, &attempt) ||
	    (row->start_ms && row->start_ms / 1000 < reconciler->since_s))
		return 0;
	if (!row->call_id[0]) {
		reconciler->has_nameless |= row->cost > 0;
		return 0;
	}
	snprintf(whose, sizeof(whose), "%s/%" PRIu32, run_id, attempt);
	if (reconcile_add_theirs(reconciler->rows, &call) < 0)
		return err_say(err, E2BIG, "%s has more than %d calls to be compared at once",
			       reconciler->upstream.label, RECONCILE_CALLS_MAX);
	return 0;
}

/* ---- rounds ---- */

static void set_timer(struct reconciler *reconciler, uint64_t now_ms)
{
	if (reconciler->every_ms)
		loop_set_timer(&reconciler->keeper->loop, &reconciler->timer,
			       now_ms + reconciler->every_ms);
}

/* 0 is none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Far back now and then; else a little behind the last round, and behind every call that may still
 * be missing, however long ago it began. */
static uint64_t find_since(struct reconciler *reconciler)
{
	uint64_t grace_s = reconciler->grace_ms / 1000, until_s = reconciler->until_s;
	uint64_t since_s = reconciler->done_s - grace_s - NEAR_S, early_s;

	if (reconciler->done_s == 0 || until_s - reconciler->far_s >= FAR_EVERY_S) {
		reconciler->far_s = until_s;
		since_s = until_s - reconciler->far_back_s;
	}
	early_s = earlier(reconciler->early_s, reconciler->next_early_s);
	/* For a clock that is behind ours, and for what is not released at the edge. */
	if (early_s > 0 && early_s - 2 * grace_s < since_s)
		since_s = early_s - 2 * grace_s;
	return since_s;
}

/* What had ended the grace before is in the log, or never will be; and once more for clocks. */
static void forget_early(struct reconciler *reconciler)
{
	if (reconciler->until_s <= reconciler->sealed_s + 2 * (reconciler->grace_ms / 1000))
		return;
	reconciler->early_s = reconciler->next_early_s;
	reconciler->next_early_s = 0;
	reconciler->sealed_s = reconciler->until_s;
}

static void end_round(struct reconciler *reconciler, uint64_t now_ms)
{
	charter_unref(reconciler->charter);
	reconciler->charter = NULL;
	set_timer(reconciler, now_ms);
}

/*
 * Clocks differ, and so do what the store takes for the beginning of a call and what the log does:
 * what began within the grace from the edge is left to a round that looks further back.
 */
static void release(struct reconciler *reconciler, uint64_t now_ms)
{
	struct store *store = reconciler->keeper->store;
	uint64_t grace_s = reconciler->grace_ms / 1000;
	struct store_release read = { .since_s = reconciler->since_s + grace_s,
				      .before_s = reconciler->until_s - grace_s };

	memcpy(read.logs, reconciler->logs, sizeof(read.logs));
	if (read.logs[0] && reconciler->until_s > grace_s)
		store->ops->release(store, &read, now_ms);
}

/* When every log was read, and the store has answered for every call. */
static void finish_round(struct reconciler *reconciler, uint64_t now_ms)
{
	struct keeper *keeper = reconciler->keeper;

	if (!reconciler->has_store_failed)
		release(reconciler, now_ms);
	if (!reconciler->has_failed) {
		reconciler->done_s = reconciler->until_s;
		forget_early(reconciler);
		keeper_notice(keeper, NOTICE_RECONCILED, now_ms,
			      &(struct notice){ .count = NOTICE_NUMBER(reconciler->call_count) });
	}
	end_round(reconciler, now_ms);
}

static void on_log_done(void *owner, const struct err *err, uint64_t now_ms);

/* The next LiteLLM, or the end. */
static void read_next(struct reconciler *reconciler, uint64_t now_ms)
{
	const struct keeper_config *config = reconciler->charter->config;
	struct keeper *keeper = reconciler->keeper;
	struct spend_log_query query = {
		.upstream = &reconciler->upstream,
		.since_s = reconciler->since_s,
		.until_s = reconciler->until_s,
		.on_row = on_row,
		.on_done = on_log_done,
		.owner = reconciler,
	};
	size_t i = reconciler->llm;

	while (i < config->llm_count &&
	       (!config->llms[i].provider->is_litellm || spend_log_is_known(config, i)))
		i++;
	reconciler->llm = i + 1;
	reconciler->has_log_failed = reconciler->has_nameless = false;
	if (i >= config->llm_count) {
		finish_round(reconciler, now_ms);
		return;
	}
	reconciler->rows = reconcile_new();
	upstream_init_llm(&reconciler->upstream, config, &config->llms[i],
			  reconciler->charter->llm_keys[i]);
	reconciler->log = spend_log_start(keeper->net, &keeper->loop, reconciler->charter->tls,
					  &query, now_ms);
}

/* It was read whole: what it does not have was no call. */
static void add_log(struct reconciler *reconciler)
{
	size_t len = strlen(reconciler->logs);

	if (len + STORE_LOG_LEN < sizeof(reconciler->logs))
		spend_log_name(reconciler->upstream.llm, reconciler->logs + len);
}

static void fail_log(struct reconciler *reconciler, const struct err *err, uint64_t now_ms)
{
	struct keeper *keeper = reconciler->keeper;

	reconciler->has_failed = reconciler->has_log_failed = true;
	/* As far back as that there is too much: less of it, the next time. */
	if (reconciler->done_s == 0 && err->code == E2BIG)
		reconciler->far_back_s /= 2;
	keeper->metrics.reconciled[METRICS_RECONCILED_FAILED]++;
	keeper_notice(keeper, NOTICE_RECONCILE_DIFFERS, now_ms,
		      &(struct notice){ .code = "failed", .text = err->text });
}

static void on_log_done(void *owner, const struct err *err, uint64_t now_ms)
{
	struct reconciler *reconciler = owner;
	struct err nameless;

	reconciler->log = NULL;
	if (!err && reconciler->has_nameless) {
		err_say(&nameless, EPROTO,
			"%s has calls without litellm_call_id in its spend log: what they cost is "
			"not counted, and nothing is given back; use a LiteLLM that records it",
			reconciler->upstream.label);
		err = &nameless;
	}
	if (err)
		fail_log(reconciler, err, now_ms);
	else
		add_log(reconciler);
	reconciler->row_count = reconcile_gather(reconciler->rows);
	reconciler->next_row = 0;
	tell_some(reconciler, now_ms);
}

static void on_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct reconciler *reconciler = OWNER_OF(timer, struct reconciler, timer);
	struct keeper *keeper = reconciler->keeper;

	if (reconciler->charter)
		return; /* a round is under way, and sets the timer at its end */
	reconciler->charter = charter_ref(keeper->charter);
	reconciler->until_s = clock_ms(CLOCK_REALTIME) / 1000;
	reconciler->next_early_s = earlier(reconciler->next_early_s, keeper->early_call_s);
	keeper->early_call_s = 0;
	reconciler->since_s = find_since(reconciler);
	reconciler->llm = reconciler->call_count = 0;
	reconciler->has_failed = reconciler->has_store_failed = false;
	reconciler->logs[0] = '\0';
	read_next(reconciler, now_ms);
}

/* ---- opening and closing ---- */

struct reconciler *reconciler_new(struct keeper *keeper, uint64_t every_ms, uint64_t grace_ms)
{
	struct reconciler *reconciler = calloc(1, sizeof(*reconciler));

	if (!reconciler)
		die_no_memory();
	reconciler->keeper = keeper;
	reconciler->timer.on_due = on_due;
	reconciler->tell_timer.on_due = on_tell_due;
	reconciler->far_back_s = FAR_S;
	reconciler_set_times(reconciler, every_ms, grace_ms);
	return reconciler;
}

void reconciler_set_times(struct reconciler *reconciler, uint64_t every_ms, uint64_t grace_ms)
{
	bool has_changed = reconciler->every_ms != every_ms;

	reconciler->every_ms = every_ms;
	reconciler->grace_ms = grace_ms;
	if (!has_changed)
		return;
	loop_cancel(&reconciler->keeper->loop, &reconciler->timer);
	if (!reconciler->charter)
		set_timer(reconciler, clock_now_ms());
}

void reconciler_free(struct reconciler *reconciler)
{
	if (!reconciler)
		return;
	reconciler->is_over = true;
	loop_cancel(&reconciler->keeper->loop, &reconciler->timer);
	loop_cancel(&reconciler->keeper->loop, &reconciler->tell_timer);
	if (reconciler->log)
		spend_log_cancel(reconciler->log);
	if (reconciler->rows)
		reconcile_free(reconciler->rows);
	charter_unref(reconciler->charter);
	free_if_over(reconciler);
}
