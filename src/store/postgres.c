/* SPDX-License-Identifier: MIT */
/*
 * One connection, in libpq's pipeline mode, and rounds over it.
 *
 * A round is all that was asked since the last one: a statement for each kind, each a transaction
 * of its own. The next one goes out when all of it is answered. A round that is not answered in
 * time, or any error that trying again cannot mend, is the end of the connection. What was under
 * way then may have been done or not. Reservations are answered UNREACHABLE, and once there is a
 * connection again their holds are settled with nothing used, which changes nothing where there
 * are none; likewise for links. That this comes after whatever the old connection may still be
 * doing, the database sees to (warder.hello, warder.fence in postgres.sql).
 */
#include "store/postgres.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/die.h"
#include "postgres_sql.h"
#include "store/pgask.h"
#include "store/pgtext.h"

#define COMMON_PARAMS    3    /* keeper, epoch, how long a keeper lives */
#define ROUND_ITEMS      1000 /* of a kind */
#define PARAM_SIZE       ((size_t)64 << 20)
#define DIAL_MS          5000 /* until it can be used */
#define FIRST_BACKOFF_MS 100
#define LAST_BACKOFF_MS  5000
#define TICK_MS          500 /* between two questions for news: told within a second */
#define TIDY_MS          60000
#define TRIES_MAX        5
#define LAST_MS          500 /* for the last words of a keeper that ends */
#define SECRETS_MAX      4
#define NUMBER_SIZE      24

enum state {
	STATE_DOWN,       /* no connection; the timer makes one */
	STATE_DIALLING,   /* libpq is connecting */
	STATE_SETTING_UP, /* the schema's script is under way */
	STATE_GREETING,   /* statements are prepared, and the epoch is asked for */
	STATE_UP,
	STATE_CLOSED, /* given up by the owner; freed at the end of the turn */
};

struct postgres {
	struct store store;
	enum state state;
	char *url;
	char *secrets[SECRETS_MAX]; /* parts of the URL that no message may show */
	PGconn *connection;
	struct loop_source source;
	struct loop_timer deadline; /* of what is under way, or of being down */
	struct loop_timer tick;
	struct loop_timer sender; /* at the end of the turn in which a round has ended */
	struct loop_deferred deferred;
	uint64_t answer_ms, alive_ms;
	uint64_t backoff_ms;
	uint64_t beat_due_ms, tidy_due_ms;
	char epoch[NUMBER_SIZE];
	struct pgask_book book;
	/* The round: kinds in the order of their answers, and what was asked. */
	enum pgask round[PGASK_COUNT];
	size_t round_count, round_answered;
	struct pglist sent[PGASK_COUNT];
	unsigned int tries[PGASK_COUNT]; /* of what was sent, because it ran into others */
};

static struct postgres *of(struct store *store)
{
	return OWNER_OF(store, struct postgres, store);
}

/* ---- what may be said ---- */

static void cross_out(char *text, const char *secret)
{
	size_t len = strlen(secret);

	for (char *at = strstr(text, secret); len > 0 && at; at = strstr(at, secret)) {
		memset(at, '*', len);
		at += len;
	}
}

/* One line, and nothing of the URL that is secret. */
static void set_fault(struct postgres *postgres, const char *what, const char *why)
{
	char *fault = postgres->store.fault;

	/* Crossed out before it is cut, or half a secret would be left. */
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "PostgreSQL: %s: %s", what, why) < 0)
		die_no_memory();
	for (size_t i = 0; i < SECRETS_MAX && postgres->secrets[i]; i++)
		cross_out(text, postgres->secrets[i]);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = c[1] ? ' ' : '\0';
	snprintf(fault, sizeof(postgres->store.fault), "%s", text);
	for (size_t len = strlen(fault); len > 0 && fault[len - 1] == ' ';)
		fault[--len] = '\0';
}

/* ---- a connection ends ---- */

static uint64_t next_backoff(struct postgres *postgres)
{
	uint64_t most = postgres->backoff_ms;
	uint32_t random = 0;

	postgres->backoff_ms = most * 2 < LAST_BACKOFF_MS ? most * 2 : LAST_BACKOFF_MS;
	/* Keepers that lost one server at once do not come back at once. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = 0;
	return most / 2 + random % (most / 2 + 1);
}

static void refuse_list(struct postgres *postgres, enum pgask kind, struct pglist *list,
			bool was_sent, uint64_t now_ms)
{
	struct pglist taken = *list;

	*list = (struct pglist){ 0 };
	for (size_t i = 0; i < taken.count; i++)
		pgask_kinds[kind].refuse(&postgres->book, taken.items[i], was_sent, now_ms);
	pglist_drop(&taken);
}

/* Answers what cannot wait, and keeps what can. */
static void give_up_asks(struct postgres *postgres, uint64_t now_ms)
{
	postgres->round_count = 0;
	for (size_t i = 0; i < PGASK_COUNT; i++)
		if (pgask_kinds[i].may_wait)
			pglist_return(&postgres->book.waiting[i], &postgres->sent[i]);
	for (enum pgask i = 0; i < PGASK_COUNT; i++)
		if (!pgask_kinds[i].may_wait) {
			refuse_list(postgres, i, &postgres->sent[i], true, now_ms);
			refuse_list(postgres, i, &postgres->book.waiting[i], false, now_ms);
		}
}

static void disconnect(struct postgres *postgres)
{
	struct loop *loop = postgres->store.loop;

	loop_remove(loop, &postgres->source);
	loop_cancel(loop, &postgres->deadline);
	loop_cancel(loop, &postgres->tick);
	loop_cancel(loop, &postgres->sender);
	PQfinish(postgres->connection);
	postgres->connection = NULL;
}

static void lose(struct postgres *postgres, const char *what, const char *why, uint64_t now_ms)
{
	set_fault(postgres, what, why);
	postgres->store.is_reachable = false;
	disconnect(postgres);
	postgres->state = STATE_DOWN;
	loop_set_timer(postgres->store.loop, &postgres->deadline, now_ms + next_backoff(postgres));
	give_up_asks(postgres, now_ms);
}

static void lose_connection(struct postgres *postgres, uint64_t now_ms)
{
	/* PQfinish frees what this points to; set_fault comes before. */
	lose(postgres, "the connection is lost", PQerrorMessage(postgres->connection), now_ms);
}

/* ---- writing ---- */

/* False when the connection was lost. */
static bool push_out(struct postgres *postgres, uint64_t now_ms)
{
	int left = PQflush(postgres->connection);

	if (left < 0 || loop_change(postgres->store.loop, &postgres->source,
				    left ? LOOP_READ | LOOP_WRITE : LOOP_READ) < 0) {
		lose_connection(postgres, now_ms);
		return false;
	}
	return true;
}

/* False when libpq does not take it. PQpipelineSync ends its transaction. */
static bool send_statement(struct postgres *postgres, enum pgask kind, const struct pglist *list)
{
	const char *values[COMMON_PARAMS + PGASK_PARAMS_MAX];
	char alive_ms[NUMBER_SIZE];
	struct buf params[PGASK_PARAMS_MAX];
	size_t count = pgask_kinds[kind].param_count;
	bool is_sent;

	snprintf(alive_ms, sizeof(alive_ms), "%llu", (unsigned long long)postgres->alive_ms);
	values[0] = postgres->store.keeper_id;
	values[1] = postgres->epoch;
	values[2] = alive_ms;
	for (size_t i = 0; i < count; i++)
		buf_init(&params[i], PARAM_SIZE);
	pgask_kinds[kind].write(&postgres->book, list, params);
	for (size_t i = 0; i < count; i++) {
		pgtext_end(&params[i]);
		values[COMMON_PARAMS + i] = params[i].data;
	}
	is_sent = PQsendQueryPrepared(postgres->connection, pgask_kinds[kind].name,
				      (int)(COMMON_PARAMS + count), values, NULL, NULL, 0);
	for (size_t i = 0; i < count; i++)
		buf_fini(&params[i]);
	return is_sent;
}

static void send_round(struct postgres *postgres, uint64_t now_ms)
{
	if (postgres->state != STATE_UP || postgres->round_count > 0)
		return;
	postgres->round_answered = 0;
	for (enum pgask kind = 0; kind < PGASK_COUNT; kind++) {
		if (postgres->book.waiting[kind].count == 0)
			continue;
		pglist_move(&postgres->book.waiting[kind], &postgres->sent[kind], ROUND_ITEMS);
		postgres->round[postgres->round_count++] = kind;
		if (!send_statement(postgres, kind, &postgres->sent[kind]) ||
		    !PQpipelineSync(postgres->connection)) {
			lose_connection(postgres, now_ms);
			return;
		}
	}
	if (postgres->round_count == 0)
		return;
	loop_set_timer(postgres->store.loop, &postgres->deadline, now_ms + postgres->answer_ms);
	(void)push_out(postgres, now_ms);
}

static void on_sender_due(struct loop_timer *timer, uint64_t now_ms)
{
	send_round(OWNER_OF(timer, struct postgres, sender), now_ms);
}

/* ---- answers ---- */

/* A transaction that met others in the wrong order has done nothing, and is made again. */
static bool is_worth_another_try(const PGresult *result)
{
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return code && (strcmp(code, "40001") == 0 || strcmp(code, "40P01") == 0);
}

static void get_row(const PGresult *result, int row, int columns, char **ret_values)
{
	for (int i = 0; i < columns; i++)
		ret_values[i] = PQgetvalue(result, row, i);
}

/* Whatever is called here may ask for more, or close the store. */
static void answer_items(struct postgres *postgres, enum pgask number, const PGresult *result,
			 uint64_t now_ms)
{
	const struct pgask_kind *kind = &pgask_kinds[number];
	struct pglist list = postgres->sent[number];
	size_t count = kind->rows == PGASK_ROWS_OF_THEM ? (size_t)PQntuples(result) : list.count;
	char *values[PGASK_COLUMNS_MAX];

	postgres->sent[number] = (struct pglist){ 0 };
	postgres->tries[number] = 0;
	for (size_t i = 0; i < count; i++) {
		if (kind->rows != PGASK_NO_ROWS)
			get_row(result, (int)i, kind->column_count, values);
		kind->answer(&postgres->book,
			     kind->rows == PGASK_ROWS_OF_THEM ? NULL : list.items[i], values,
			     now_ms);
	}
	pglist_drop(&list);
}

static bool is_as_expected(const struct postgres *postgres, enum pgask number,
			   const PGresult *result)
{
	const struct pgask_kind *kind = &pgask_kinds[number];

	return PQnfields(result) == kind->column_count &&
	       (kind->rows != PGASK_ROW_EACH ||
		(size_t)PQntuples(result) == postgres->sent[number].count);
}

static void end_round(struct postgres *postgres, uint64_t now_ms)
{
	postgres->round_count = 0;
	postgres->backoff_ms = FIRST_BACKOFF_MS;
	loop_cancel(postgres->store.loop, &postgres->deadline);
	/* What the others of this turn ask for goes with it. */
	loop_set_timer(postgres->store.loop, &postgres->sender, now_ms);
}

static void on_result_up(struct postgres *postgres, const PGresult *result, uint64_t now_ms)
{
	enum pgask kind = postgres->round[postgres->round_answered];
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_PIPELINE_SYNC) {
		if (++postgres->round_answered == postgres->round_count)
			end_round(postgres, now_ms);
	} else if (status == PGRES_TUPLES_OK && is_as_expected(postgres, kind, result)) {
		answer_items(postgres, kind, result, now_ms);
	} else if (is_worth_another_try(result) && ++postgres->tries[kind] < TRIES_MAX) {
		pglist_return(&postgres->book.waiting[kind], &postgres->sent[kind]);
	} else {
		lose(postgres, pgask_kinds[kind].name,
		     status == PGRES_TUPLES_OK ? "an answer of another form"
					       : PQresultErrorMessage(result),
		     now_ms);
	}
}

static void on_result_greeting(struct postgres *postgres, const PGresult *result, uint64_t now_ms)
{
	switch (PQresultStatus(result)) {
	case PGRES_COMMAND_OK:
		break;
	case PGRES_TUPLES_OK:
		snprintf(postgres->epoch, sizeof(postgres->epoch), "%s", PQgetvalue(result, 0, 0));
		break;
	case PGRES_PIPELINE_SYNC:
		postgres->state = STATE_UP;
		postgres->store.is_reachable = true;
		postgres->store.fault[0] = '\0';
		postgres->beat_due_ms = now_ms + postgres->alive_ms / 3;
		loop_cancel(postgres->store.loop, &postgres->deadline);
		loop_set_timer(postgres->store.loop, &postgres->tick, now_ms + TICK_MS);
		loop_set_timer(postgres->store.loop, &postgres->sender, now_ms);
		break;
	default:
		lose(postgres, "set-up", PQresultErrorMessage(result), now_ms);
	}
}

/* ---- a connection begins ---- */

static void greet(struct postgres *postgres, uint64_t now_ms)
{
	PGconn *connection = postgres->connection;
	char answer_ms[NUMBER_SIZE], alive_ms[NUMBER_SIZE];
	const char *const values[] = { postgres->store.keeper_id, answer_ms, alive_ms };
	bool is_sent = PQenterPipelineMode(connection);

	snprintf(answer_ms, sizeof(answer_ms), "%llu", (unsigned long long)postgres->answer_ms);
	snprintf(alive_ms, sizeof(alive_ms), "%llu", (unsigned long long)postgres->alive_ms);
	for (size_t i = 0; is_sent && i < PGASK_COUNT; i++)
		is_sent = PQsendPrepare(connection, pgask_kinds[i].name, pgask_kinds[i].sql, 0,
					NULL);
	postgres->state = STATE_GREETING;
	if (!is_sent ||
	    !PQsendQueryParams(connection, "SELECT warder.hello($1, $2, $3)", 3, NULL, values, NULL,
			       NULL, 0) ||
	    !PQpipelineSync(connection))
		lose_connection(postgres, now_ms);
	else
		(void)push_out(postgres, now_ms);
}

static void set_up(struct postgres *postgres, uint64_t now_ms)
{
	postgres->state = STATE_SETTING_UP;
	if (PQsetnonblocking(postgres->connection, 1) < 0 ||
	    !PQsendQuery(postgres->connection, sql_postgres))
		lose_connection(postgres, now_ms);
	else
		(void)push_out(postgres, now_ms);
}

/* Puts the connection's descriptor into the loop: while it is made it may be another each time. */
static void poll_dial(struct postgres *postgres, uint64_t now_ms)
{
	PostgresPollingStatusType status;

	loop_remove(postgres->store.loop, &postgres->source);
	status = PQconnectPoll(postgres->connection);
	if (status == PGRES_POLLING_FAILED ||
	    loop_add(postgres->store.loop, &postgres->source, PQsocket(postgres->connection),
		     status == PGRES_POLLING_WRITING ? LOOP_WRITE : LOOP_READ) < 0) {
		lose(postgres, "no connection", PQerrorMessage(postgres->connection), now_ms);
		return;
	}
	if (status == PGRES_POLLING_OK)
		set_up(postgres, now_ms);
}

static void ignore_notice(void *owner, const PGresult *result)
{
	(void)owner;
	(void)result;
}

static void dial(struct postgres *postgres, uint64_t now_ms)
{
	/* What comes before the URL can be said otherwise there. */
	static const char *const keywords[] = { "application_name", "gssencmode",
						"target_session_attrs", "dbname", NULL };
	const char *const values[] = { "warder", "disable", "read-write", postgres->url, NULL };

	postgres->state = STATE_DIALLING;
	loop_set_timer(postgres->store.loop, &postgres->deadline, now_ms + DIAL_MS);
	postgres->connection = PQconnectStartParams(keywords, values, 1);
	if (!postgres->connection)
		die_no_memory();
	PQsetNoticeReceiver(postgres->connection, ignore_notice, NULL);
	if (PQstatus(postgres->connection) == CONNECTION_BAD ||
	    loop_add(postgres->store.loop, &postgres->source, PQsocket(postgres->connection),
		     LOOP_WRITE) < 0)
		lose(postgres, "no connection", PQerrorMessage(postgres->connection), now_ms);
}

/* ---- events ---- */

/* The script has one result for each of its statements, and then none. */
static void on_result_setting_up(struct postgres *postgres, const PGresult *result, uint64_t now_ms)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		lose(postgres, "set-up", PQresultErrorMessage(result), now_ms);
}

static bool awaits_results(const struct postgres *postgres)
{
	return postgres->state == STATE_SETTING_UP || postgres->state == STATE_GREETING ||
	       (postgres->state == STATE_UP && postgres->round_count > 0);
}

static void read_results(struct postgres *postgres, uint64_t now_ms)
{
	/* A callback may turn the loop, so nothing is remembered across one. */
	while (awaits_results(postgres) && !PQisBusy(postgres->connection)) {
		PGresult *result = PQgetResult(postgres->connection);

		if (PQstatus(postgres->connection) == CONNECTION_BAD)
			lose(postgres, "the connection is lost",
			     result ? PQresultErrorMessage(result)
				    : PQerrorMessage(postgres->connection),
			     now_ms);
		else if (!result && postgres->state == STATE_SETTING_UP)
			greet(postgres, now_ms);
		else if (result && postgres->state == STATE_SETTING_UP)
			on_result_setting_up(postgres, result, now_ms);
		else if (result && postgres->state == STATE_GREETING)
			on_result_greeting(postgres, result, now_ms);
		else if (result)
			on_result_up(postgres, result, now_ms);
		PQclear(result);
	}
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct postgres *postgres = OWNER_OF(source, struct postgres, source);

	if (postgres->state == STATE_DIALLING) {
		poll_dial(postgres, now_ms);
		return;
	}
	if ((ready & LOOP_READ) && !PQconsumeInput(postgres->connection)) {
		lose_connection(postgres, now_ms);
		return;
	}
	if ((ready & LOOP_WRITE) && !push_out(postgres, now_ms))
		return;
	read_results(postgres, now_ms);
}

static void on_deadline_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct postgres *postgres = OWNER_OF(timer, struct postgres, deadline);

	if (postgres->state == STATE_DOWN)
		dial(postgres, now_ms);
	else if (postgres->state == STATE_UP)
		lose(postgres, "no answer", "it took too long", now_ms);
	else
		lose(postgres, "no connection", "it took too long", now_ms);
}

static void ask_once(struct postgres *postgres, enum pgask kind)
{
	if (postgres->book.waiting[kind].count == 0)
		pglist_add(&postgres->book.waiting[kind], postgres);
}

static void on_tick_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct postgres *postgres = OWNER_OF(timer, struct postgres, tick);

	loop_set_timer(postgres->store.loop, &postgres->tick, now_ms + TICK_MS);
	if (now_ms >= postgres->beat_due_ms) {
		postgres->beat_due_ms = now_ms + postgres->alive_ms / 3;
		ask_once(postgres, PGASK_BEAT);
	}
	if (now_ms >= postgres->tidy_due_ms) {
		postgres->tidy_due_ms = now_ms + TIDY_MS;
		ask_once(postgres, PGASK_TIDY);
	}
	if (watch_has_runs(&postgres->book.watch))
		ask_once(postgres, PGASK_NEWS);
	send_round(postgres, now_ms);
}

/* ---- the store's functions ---- */

static void ask(struct store *store, enum pgask kind, void *item, uint64_t now_ms)
{
	struct postgres *postgres = of(store);

	if (postgres->state == STATE_UP)
		pglist_add(&postgres->book.waiting[kind], item);
	else
		pgask_kinds[kind].refuse(&postgres->book, item, false, now_ms);
}

static void reserve(struct store *store, struct store_reservation *first, uint64_t now_ms)
{
	struct store_reservation *next;

	for (struct store_reservation *one = first; one; one = next) {
		next = one->next; /* the answer may come at once, and free it */
		watch_claims(&of(store)->book.watch, one);
		ask(store, PGASK_RESERVE, one, now_ms);
	}
}

static void settle(struct store *store, const struct store_settlement *settlement, uint64_t now_ms)
{
	(void)now_ms;
	pgask_settle(&of(store)->book, settlement);
}

static void open_run(struct store *store, struct store_run *run, uint64_t now_ms)
{
	ask(store, PGASK_OPEN, run, now_ms);
}

static void close_run(struct store *store, const char *run_id, uint64_t now_ms)
{
	(void)now_ms;
	watch_close(&of(store)->book.watch, run_id);
	pgask_close_run(&of(store)->book, run_id);
}

static void revoke_run(struct store *store, struct store_revocation *revocation, uint64_t now_ms)
{
	ask(store, PGASK_REVOKE, revocation, now_ms);
}

static void read_meter(struct store *store, struct store_meter *meter, uint64_t now_ms)
{
	ask(store, PGASK_READ, meter, now_ms);
}

static void reconcile(struct store *store, struct store_call *call, uint64_t now_ms)
{
	ask(store, PGASK_RECONCILE, call, now_ms);
}

/* One that has not gone out yet is replaced: there will be another. */
static void release(struct store *store, const struct store_release *read, uint64_t now_ms)
{
	struct postgres *postgres = of(store);

	(void)now_ms;
	postgres->book.release = *read;
	ask_once(postgres, PGASK_RELEASE);
}

static void flush(struct store *store, uint64_t now_ms)
{
	send_round(of(store), now_ms);
}

static void free_postgres(struct loop_deferred *deferred)
{
	struct postgres *postgres = OWNER_OF(deferred, struct postgres, deferred);

	pgask_fini(&postgres->book);
	for (size_t i = 0; i < PGASK_COUNT; i++)
		pglist_drop(&postgres->sent[i]);
	for (size_t i = 0; i < SECRETS_MAX && postgres->secrets[i]; i++) {
		explicit_bzero(postgres->secrets[i], strlen(postgres->secrets[i]));
		free(postgres->secrets[i]);
	}
	explicit_bzero(postgres->url, strlen(postgres->url));
	free(postgres->url);
	free(postgres);
}

/* Takes what has arrived; how many ends of statements were in it. */
static size_t skip_results(PGconn *connection, size_t most)
{
	size_t syncs = 0, gaps = 0;

	/* Between a statement's answer and its end there is one gap; two are the end of all. */
	while (syncs < most && gaps < 2 && !PQisBusy(connection)) {
		PGresult *result = PQgetResult(connection);

		gaps = result ? 0 : gaps + 1;
		syncs += PQresultStatus(result) == PGRES_PIPELINE_SYNC;
		PQclear(result);
	}
	return syncs;
}

/* Waits until so many statements are answered; not beyond `end_ms`. */
static void drain(PGconn *connection, size_t syncs, uint64_t end_ms)
{
	while ((syncs -= skip_results(connection, syncs)) > 0) {
		int left = PQflush(connection);
		struct pollfd ready = { .fd = PQsocket(connection),
					.events = left ? POLLIN | POLLOUT : POLLIN };
		uint64_t now_ms = clock_now_ms();

		if (left < 0 || now_ms >= end_ms || poll(&ready, 1, (int)(end_ms - now_ms)) <= 0 ||
		    !PQconsumeInput(connection))
			return;
	}
}

/*
 * What is settled and closed by now still goes out, behind what is under way, and that the keeper
 * leaves: else one that ends in order would be missed for a while, and its holds stay. A server
 * that cannot send an answer stops there, so they are waited for; not for long, and only here,
 * where a keeper ends.
 */
static void say_the_last(struct postgres *postgres, size_t syncs)
{
	static const enum pgask last[] = { PGASK_SETTLE, PGASK_CLOSE, PGASK_LEAVE };
	bool is_sent = true;

	ask_once(postgres, PGASK_LEAVE);
	for (size_t i = 0; i < ARRAY_LEN(last); i++)
		if (postgres->book.waiting[last[i]].count > 0) {
			is_sent = is_sent &&
				  send_statement(postgres, last[i],
						 &postgres->book.waiting[last[i]]) &&
				  PQpipelineSync(postgres->connection);
			syncs++;
		}
	if (is_sent)
		drain(postgres->connection, syncs, clock_now_ms() + LAST_MS);
}

static void close_store(struct store *store)
{
	struct postgres *postgres = of(store);
	size_t syncs = postgres->round_count ? postgres->round_count - postgres->round_answered : 0;
	bool was_up = postgres->state == STATE_UP;

	postgres->state = STATE_CLOSED;
	store->is_reachable = false;
	give_up_asks(postgres, clock_now_ms());
	if (was_up)
		say_the_last(postgres, syncs);
	disconnect(postgres);
	postgres->deferred.free = free_postgres;
	loop_defer(store->loop, &postgres->deferred);
}

static void watch_run(struct store *store, const char *run_id, bool is_on)
{
	if (is_on)
		watch_open(&of(store)->book.watch, run_id);
	else
		watch_close(&of(store)->book.watch, run_id);
}

static const struct store_ops ops = {
	.name = "postgresql",
	.reserve = reserve,
	.settle = settle,
	.open_run = open_run,
	.watch = watch_run,
	.close_run = close_run,
	.revoke = revoke_run,
	.read_meter = read_meter,
	.reconcile = reconcile,
	.release = release,
	.flush = flush,
	.close = close_store,
};

/* ---- the URL ---- */

/*
 * Whether it is clear where a password ends. libpq would read "user:a/b@host" as a host and a port
 * and repeat them in its messages; so an '@' may only stand where it ends one.
 */
static bool is_clear(const char *url)
{
	static const char *const schemes[] = { "postgresql://", "postgres://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t len = strlen(schemes[i]);
		const char *at = strchr(url, '@');

		if (strncmp(url, schemes[i], len) == 0)
			return !at ||
			       (at < url + len + strcspn(url + len, "/?") && !strchr(at + 1, '@'));
	}
	return false;
}

/* Keeps what is secret in it. False when a port is no number: it may be a password without '@'. */
static bool take_options(struct postgres *postgres, const PQconninfoOption *options)
{
	size_t count = 0;

	for (const PQconninfoOption *option = options; option->keyword; option++) {
		if (!option->val)
			continue;
		if (strcmp(option->keyword, "port") == 0 &&
		    option->val[strspn(option->val, "0123456789,")])
			return false;
		if (option->dispchar[0] != '*' || count == SECRETS_MAX)
			continue;
		postgres->secrets[count] = strdup(option->val);
		if (!postgres->secrets[count++])
			die_no_memory();
	}
	return true;
}

static bool take_url(struct postgres *postgres, const char *url)
{
	PQconninfoOption *options = is_clear(url) ? PQconninfoParse(url, NULL) : NULL;
	bool is_taken = options && take_options(postgres, options);

	PQconninfoFree(options);
	postgres->url = strdup(url);
	if (!postgres->url)
		die_no_memory();
	return is_taken;
}

struct store *store_postgres_new(struct loop *loop, const char *url, struct err *err)
{
	struct postgres *postgres = calloc(1, sizeof(*postgres));
	int r;

	if (!postgres)
		die_no_memory();
	postgres->store = (struct store){ .ops = &ops, .loop = loop };
	postgres->book.store = &postgres->store;
	postgres->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	postgres->deadline.on_due = on_deadline_due;
	postgres->tick.on_due = on_tick_due;
	postgres->sender.on_due = on_sender_due;
	postgres->backoff_ms = FIRST_BACKOFF_MS;
	store_postgres_set_times(&postgres->store, STORE_ANSWER_MS, STORE_ALIVE_MS);
	if (!take_url(postgres, url)) {
		err_say(err, EINVAL,
			"the URL of the PostgreSQL store cannot be read; write "
			"postgresql://user:password@host:port/database, and what is not a letter "
			"or "
			"digit in the user or password as %%XX");
		free_postgres(&postgres->deferred);
		return NULL;
	}
	r = runid_new(postgres->store.keeper_id);
	if (r < 0) {
		err_set(err, -r, "mint the keeper's id");
		free_postgres(&postgres->deferred);
		return NULL;
	}
	set_fault(postgres, "no connection", "none was made yet");
	loop_set_timer(loop, &postgres->deadline, 0);
	return &postgres->store;
}

void store_postgres_set_times(struct store *store, uint64_t answer_ms, uint64_t alive_ms)
{
	of(store)->answer_ms = answer_ms;
	of(store)->alive_ms = alive_ms;
}
