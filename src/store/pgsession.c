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
#include "store/pgsession.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/die.h"
#include "postgres_sql.h"
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
#define NUMBER_SIZE      PGSESSION_NUMBER_SIZE

/* One line, and nothing of the URL that is secret. */
static void set_fault(struct pgsession *session, const char *what, const char *why)
{
	char *fault = session->store->fault;

	/* Crossed out before it is cut, or half a secret would be left. */
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "PostgreSQL: %s: %s", what, why) < 0)
		die_no_memory();
	pgurl_cross_out(&session->url, text);
	snprintf(fault, sizeof(session->store->fault), "%s", text);
	for (size_t len = strlen(fault); len > 0 && fault[len - 1] == ' ';)
		fault[--len] = '\0';
}

/* ---- a connection ends ---- */

static uint64_t next_backoff(struct pgsession *session)
{
	uint64_t most = session->backoff_ms;
	uint32_t random = 0;

	session->backoff_ms = most * 2 < LAST_BACKOFF_MS ? most * 2 : LAST_BACKOFF_MS;
	/* Keepers that lost one server at once do not come back at once. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = 0;
	return most / 2 + random % (most / 2 + 1);
}

static void refuse_list(struct pgsession *session, enum pgask kind, struct pglist *list,
			bool was_sent, uint64_t now_ms)
{
	struct pglist taken = *list;

	*list = (struct pglist){ 0 };
	for (size_t i = 0; i < taken.count; i++)
		pgask_kinds[kind].refuse(&session->book, taken.items[i], was_sent, now_ms);
	pglist_drop(&taken);
}

/* Answers what cannot wait, and keeps what can. */
static void give_up_asks(struct pgsession *session, uint64_t now_ms)
{
	session->round_count = 0;
	for (size_t i = 0; i < PGASK_COUNT; i++)
		if (pgask_kinds[i].may_wait)
			pglist_return(&session->book.waiting[i], &session->sent[i]);
	for (enum pgask i = 0; i < PGASK_COUNT; i++)
		if (!pgask_kinds[i].may_wait) {
			refuse_list(session, i, &session->sent[i], true, now_ms);
			refuse_list(session, i, &session->book.waiting[i], false, now_ms);
		}
}

static void disconnect(struct pgsession *session)
{
	struct loop *loop = session->store->loop;

	loop_remove(loop, &session->source);
	loop_cancel(loop, &session->deadline);
	loop_cancel(loop, &session->tick);
	loop_cancel(loop, &session->sender);
	PQfinish(session->connection);
	session->connection = NULL;
}

static void lose(struct pgsession *session, const char *what, const char *why, uint64_t now_ms)
{
	set_fault(session, what, why);
	session->store->is_reachable = false;
	disconnect(session);
	session->state = PGSESSION_DOWN;
	loop_set_timer(session->store->loop, &session->deadline, now_ms + next_backoff(session));
	give_up_asks(session, now_ms);
}

static void lose_connection(struct pgsession *session, uint64_t now_ms)
{
	/* PQfinish frees what this points to; set_fault comes before. */
	lose(session, "the connection is lost", PQerrorMessage(session->connection), now_ms);
}

/* ---- writing ---- */

/* False when the connection was lost. */
static bool push_out(struct pgsession *session, uint64_t now_ms)
{
	int left = PQflush(session->connection);

	if (left < 0 || loop_change(session->store->loop, &session->source,
				    left ? LOOP_READ | LOOP_WRITE : LOOP_READ) < 0) {
		lose_connection(session, now_ms);
		return false;
	}
	return true;
}

/* False when libpq does not take it. PQpipelineSync ends its transaction. */
static bool send_statement(struct pgsession *session, enum pgask kind, const struct pglist *list)
{
	const char *values[COMMON_PARAMS + PGASK_PARAMS_MAX];
	char alive_ms[NUMBER_SIZE];
	struct buf params[PGASK_PARAMS_MAX];
	size_t count = pgask_kinds[kind].param_count;
	bool is_sent;

	snprintf(alive_ms, sizeof(alive_ms), "%llu", (unsigned long long)session->alive_ms);
	values[0] = session->store->keeper_id;
	values[1] = session->epoch;
	values[2] = alive_ms;
	for (size_t i = 0; i < count; i++)
		buf_init(&params[i], PARAM_SIZE);
	pgask_kinds[kind].write(&session->book, list, params);
	for (size_t i = 0; i < count; i++) {
		pgtext_end(&params[i]);
		values[COMMON_PARAMS + i] = params[i].data;
	}
	is_sent = PQsendQueryPrepared(session->connection, pgask_kinds[kind].name,
				      (int)(COMMON_PARAMS + count), values, NULL, NULL, 0);
	for (size_t i = 0; i < count; i++)
		buf_fini(&params[i]);
	return is_sent;
}

void pgsession_flush(struct pgsession *session, uint64_t now_ms)
{
	if (session->state != PGSESSION_UP || session->round_count > 0)
		return;
	session->round_answered = 0;
	for (enum pgask kind = 0; kind < PGASK_COUNT; kind++) {
		if (session->book.waiting[kind].count == 0)
			continue;
		pglist_move(&session->book.waiting[kind], &session->sent[kind], ROUND_ITEMS);
		session->round[session->round_count++] = kind;
		if (!send_statement(session, kind, &session->sent[kind]) ||
		    !PQpipelineSync(session->connection)) {
			lose_connection(session, now_ms);
			return;
		}
	}
	if (session->round_count == 0)
		return;
	loop_set_timer(session->store->loop, &session->deadline, now_ms + session->answer_ms);
	(void)push_out(session, now_ms);
}

static void on_sender_due(struct loop_timer *timer, uint64_t now_ms)
{
	pgsession_flush(OWNER_OF(timer, struct pgsession, sender), now_ms);
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
static void answer_items(struct pgsession *session, enum pgask number, const PGresult *result,
			 uint64_t now_ms)
{
	const struct pgask_kind *kind = &pgask_kinds[number];
	struct pglist list = session->sent[number];
	size_t count = kind->rows == PGASK_ROWS_OF_THEM ? (size_t)PQntuples(result) : list.count;
	char *values[PGASK_COLUMNS_MAX];

	session->sent[number] = (struct pglist){ 0 };
	session->tries[number] = 0;
	for (size_t i = 0; i < count; i++) {
		if (kind->rows != PGASK_NO_ROWS)
			get_row(result, (int)i, kind->column_count, values);
		kind->answer(&session->book,
			     kind->rows == PGASK_ROWS_OF_THEM ? NULL : list.items[i], values,
			     now_ms);
	}
	pglist_drop(&list);
}

static bool is_as_expected(const struct pgsession *session, enum pgask number,
			   const PGresult *result)
{
	const struct pgask_kind *kind = &pgask_kinds[number];

	return PQnfields(result) == kind->column_count &&
	       (kind->rows != PGASK_ROW_EACH ||
		(size_t)PQntuples(result) == session->sent[number].count);
}

static void end_round(struct pgsession *session, uint64_t now_ms)
{
	session->round_count = 0;
	session->backoff_ms = FIRST_BACKOFF_MS;
	loop_cancel(session->store->loop, &session->deadline);
	/* What the others of this turn ask for goes with it. */
	loop_set_timer(session->store->loop, &session->sender, now_ms);
}

static void on_result_up(struct pgsession *session, const PGresult *result, uint64_t now_ms)
{
	enum pgask kind = session->round[session->round_answered];
	ExecStatusType status = PQresultStatus(result);

	if (status == PGRES_PIPELINE_SYNC) {
		if (++session->round_answered == session->round_count)
			end_round(session, now_ms);
	} else if (status == PGRES_TUPLES_OK && is_as_expected(session, kind, result)) {
		answer_items(session, kind, result, now_ms);
	} else if (is_worth_another_try(result) && ++session->tries[kind] < TRIES_MAX) {
		pglist_return(&session->book.waiting[kind], &session->sent[kind]);
	} else {
		lose(session, pgask_kinds[kind].name,
		     status == PGRES_TUPLES_OK ? "an answer of another form"
					       : PQresultErrorMessage(result),
		     now_ms);
	}
}

static void on_result_greeting(struct pgsession *session, const PGresult *result, uint64_t now_ms)
{
	switch (PQresultStatus(result)) {
	case PGRES_COMMAND_OK:
		break;
	case PGRES_TUPLES_OK:
		snprintf(session->epoch, sizeof(session->epoch), "%s", PQgetvalue(result, 0, 0));
		break;
	case PGRES_PIPELINE_SYNC:
		session->state = PGSESSION_UP;
		session->store->is_reachable = true;
		session->store->fault[0] = '\0';
		session->beat_due_ms = now_ms + session->alive_ms / 3;
		loop_cancel(session->store->loop, &session->deadline);
		loop_set_timer(session->store->loop, &session->tick, now_ms + TICK_MS);
		loop_set_timer(session->store->loop, &session->sender, now_ms);
		break;
	default:
		lose(session, "set-up", PQresultErrorMessage(result), now_ms);
	}
}

/* ---- a connection begins ---- */

static void greet(struct pgsession *session, uint64_t now_ms)
{
	PGconn *connection = session->connection;
	char answer_ms[NUMBER_SIZE], alive_ms[NUMBER_SIZE];
	const char *const values[] = { session->store->keeper_id, answer_ms, alive_ms };
	bool is_sent = PQenterPipelineMode(connection);

	snprintf(answer_ms, sizeof(answer_ms), "%llu", (unsigned long long)session->answer_ms);
	snprintf(alive_ms, sizeof(alive_ms), "%llu", (unsigned long long)session->alive_ms);
	for (size_t i = 0; is_sent && i < PGASK_COUNT; i++)
		is_sent = PQsendPrepare(connection, pgask_kinds[i].name, pgask_kinds[i].sql, 0,
					NULL);
	session->state = PGSESSION_GREETING;
	if (!is_sent ||
	    !PQsendQueryParams(connection, "SELECT warder.hello($1, $2, $3)", 3, NULL, values, NULL,
			       NULL, 0) ||
	    !PQpipelineSync(connection))
		lose_connection(session, now_ms);
	else
		(void)push_out(session, now_ms);
}

static void set_up(struct pgsession *session, uint64_t now_ms)
{
	session->state = PGSESSION_SETTING_UP;
	if (PQsetnonblocking(session->connection, 1) < 0 ||
	    !PQsendQuery(session->connection, sql_postgres))
		lose_connection(session, now_ms);
	else
		(void)push_out(session, now_ms);
}

/* Puts the connection's descriptor into the loop: while it is made it may be another each time. */
static void poll_dial(struct pgsession *session, uint64_t now_ms)
{
	PostgresPollingStatusType status;

	loop_remove(session->store->loop, &session->source);
	status = PQconnectPoll(session->connection);
	if (status == PGRES_POLLING_FAILED ||
	    loop_add(session->store->loop, &session->source, PQsocket(session->connection),
		     status == PGRES_POLLING_WRITING ? LOOP_WRITE : LOOP_READ) < 0) {
		lose(session, "no connection", PQerrorMessage(session->connection), now_ms);
		return;
	}
	if (status == PGRES_POLLING_OK)
		set_up(session, now_ms);
}

static void ignore_notice(void *owner, const PGresult *result)
{
	(void)owner;
	(void)result;
}

static void dial(struct pgsession *session, uint64_t now_ms)
{
	/* What comes before the URL can be said otherwise there. */
	static const char *const keywords[] = { "application_name", "gssencmode",
						"target_session_attrs", "dbname", NULL };
	const char *const values[] = { "warder", "disable", "read-write", session->url.text, NULL };

	session->state = PGSESSION_DIALLING;
	loop_set_timer(session->store->loop, &session->deadline, now_ms + DIAL_MS);
	session->connection = PQconnectStartParams(keywords, values, 1);
	if (!session->connection)
		die_no_memory();
	PQsetNoticeReceiver(session->connection, ignore_notice, NULL);
	if (PQstatus(session->connection) == CONNECTION_BAD ||
	    loop_add(session->store->loop, &session->source, PQsocket(session->connection),
		     LOOP_WRITE) < 0)
		lose(session, "no connection", PQerrorMessage(session->connection), now_ms);
}

/* ---- events ---- */

/* The script has one result for each of its statements, and then none. */
static void on_result_setting_up(struct pgsession *session, const PGresult *result, uint64_t now_ms)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		lose(session, "set-up", PQresultErrorMessage(result), now_ms);
}

static bool awaits_results(const struct pgsession *session)
{
	return session->state == PGSESSION_SETTING_UP || session->state == PGSESSION_GREETING ||
	       (session->state == PGSESSION_UP && session->round_count > 0);
}

static void read_results(struct pgsession *session, uint64_t now_ms)
{
	/* A callback may turn the loop, so nothing is remembered across one. */
	while (awaits_results(session) && !PQisBusy(session->connection)) {
		PGresult *result = PQgetResult(session->connection);

		if (PQstatus(session->connection) == CONNECTION_BAD)
			lose(session, "the connection is lost",
			     result ? PQresultErrorMessage(result)
				    : PQerrorMessage(session->connection),
			     now_ms);
		else if (!result && session->state == PGSESSION_SETTING_UP)
			greet(session, now_ms);
		else if (result && session->state == PGSESSION_SETTING_UP)
			on_result_setting_up(session, result, now_ms);
		else if (result && session->state == PGSESSION_GREETING)
			on_result_greeting(session, result, now_ms);
		else if (result)
			on_result_up(session, result, now_ms);
		PQclear(result);
	}
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct pgsession *session = OWNER_OF(source, struct pgsession, source);

	if (session->state == PGSESSION_DIALLING) {
		poll_dial(session, now_ms);
		return;
	}
	if ((ready & LOOP_READ) && !PQconsumeInput(session->connection)) {
		lose_connection(session, now_ms);
		return;
	}
	if ((ready & LOOP_WRITE) && !push_out(session, now_ms))
		return;
	read_results(session, now_ms);
}

static void on_deadline_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct pgsession *session = OWNER_OF(timer, struct pgsession, deadline);

	if (session->state == PGSESSION_DOWN)
		dial(session, now_ms);
	else if (session->state == PGSESSION_UP)
		lose(session, "no answer", "it took too long", now_ms);
	else
		lose(session, "no connection", "it took too long", now_ms);
}

void pgsession_ask_once(struct pgsession *session, enum pgask kind)
{
	if (session->book.waiting[kind].count == 0)
		pglist_add(&session->book.waiting[kind], session);
}

static void on_tick_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct pgsession *session = OWNER_OF(timer, struct pgsession, tick);

	loop_set_timer(session->store->loop, &session->tick, now_ms + TICK_MS);
	if (now_ms >= session->beat_due_ms) {
		session->beat_due_ms = now_ms + session->alive_ms / 3;
		pgsession_ask_once(session, PGASK_BEAT);
	}
	if (now_ms >= session->tidy_due_ms) {
		session->tidy_due_ms = now_ms + TIDY_MS;
		pgsession_ask_once(session, PGASK_TIDY);
	}
	if (watch_has_runs(&session->book.watch))
		pgsession_ask_once(session, PGASK_NEWS);
	pgsession_flush(session, now_ms);
}

/* ---- the end ---- */

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
static void say_the_last(struct pgsession *session, size_t syncs)
{
	static const enum pgask last[] = { PGASK_SETTLE, PGASK_CLOSE, PGASK_LEAVE };
	bool is_sent = true;

	pgsession_ask_once(session, PGASK_LEAVE);
	for (size_t i = 0; i < ARRAY_LEN(last); i++)
		if (session->book.waiting[last[i]].count > 0) {
			is_sent = is_sent &&
				  send_statement(session, last[i],
						 &session->book.waiting[last[i]]) &&
				  PQpipelineSync(session->connection);
			syncs++;
		}
	if (is_sent)
		drain(session->connection, syncs, clock_now_ms() + LAST_MS);
}

void pgsession_stop(struct pgsession *session)
{
	size_t syncs = session->round_count ? session->round_count - session->round_answered : 0;
	bool was_up = session->state == PGSESSION_UP;

	session->state = PGSESSION_CLOSED;
	session->store->is_reachable = false;
	give_up_asks(session, clock_now_ms());
	if (was_up)
		say_the_last(session, syncs);
	disconnect(session);
}

void pgsession_fini(struct pgsession *session)
{
	pgask_fini(&session->book);
	for (size_t i = 0; i < PGASK_COUNT; i++)
		pglist_drop(&session->sent[i]);
	pgurl_fini(&session->url);
}

void pgsession_start(struct pgsession *session)
{
	session->book.store = session->store;
	session->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	session->deadline.on_due = on_deadline_due;
	session->tick.on_due = on_tick_due;
	session->sender.on_due = on_sender_due;
	session->backoff_ms = FIRST_BACKOFF_MS;
	set_fault(session, "no connection", "none was made yet");
	loop_set_timer(session->store->loop, &session->deadline, 0);
}
