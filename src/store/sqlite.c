/* SPDX-License-Identifier: MIT */
/*
 * The journal in a file, by SQLite: the only place that knows it.
 *
 * One process has the file to itself, for as long as it is open, because what is in its memory is
 * the truth. Writes go to SQLite's own log (WAL) without waiting for the disk: a process that is
 * killed loses nothing, a machine that loses its power may lose the last moments, but never
 * half a transaction.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "store/journal.h"

#define SCHEMA_VERSION 1
#define CALL_DAYS      30 /* calls are remembered; no log is reconciled later than that */
#define DAY_S          UINT64_C(86400)

static const char schema[] =
	"CREATE TABLE meter (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL,"
	" spent INTEGER NOT NULL, used_day INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX meter_of_run ON meter (used_day) WHERE name GLOB 'run:*';"
	"CREATE TABLE hold (id TEXT PRIMARY KEY, meter_1 TEXT, meter_2 TEXT, meter_3 TEXT,"
	" bytes INTEGER NOT NULL, spend INTEGER NOT NULL, made_at INTEGER NOT NULL,"
	" call_id TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE run (id TEXT PRIMARY KEY, begun_ms INTEGER NOT NULL, ended_day INTEGER)"
	" STRICT, WITHOUT ROWID;" /* NULL: it has a link */
	"CREATE INDEX run_ended_day ON run (ended_day);"
	"CREATE TABLE revocation (run_id TEXT PRIMARY KEY, revoked_at INTEGER NOT NULL)"
	" STRICT, WITHOUT ROWID;"
	"CREATE TABLE call (id TEXT PRIMARY KEY, cost INTEGER NOT NULL, is_truth INTEGER NOT NULL,"
	" counted_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX call_counted_at ON call (counted_at);"
	"CREATE TABLE probe (id INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;"
	"INSERT INTO probe VALUES (1, 0);"
	"PRAGMA user_version = 1;";

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	PROBE,
	PUT_HOLD,
	REMOVE_HOLD,
	PUT_METER,
	PUT_CALL,
	PUT_RUN,
	END_RUN,
	END_RUNS,
	PUT_REVOCATION,
	PRUNE_CALLS,
	PRUNE_METERS,
	PRUNE_RUNS,
	LOAD_METER,
	LOAD_RUN,
	LOAD_CALL,
	LOAD_HOLDS,
	LOAD_REVOCATIONS,
	STATEMENT_COUNT,
};

static const char *const statements[STATEMENT_COUNT] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[PROBE] = "UPDATE probe SET count = count + 1",
	[PUT_HOLD] = "INSERT OR REPLACE INTO hold VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	[REMOVE_HOLD] = "DELETE FROM hold WHERE id = ?1",
	[PUT_METER] = "INSERT OR REPLACE INTO meter VALUES (?1, ?2, ?3, ?4)",
	[PUT_CALL] = "INSERT OR REPLACE INTO call VALUES (?1, ?2, ?3, ?4)",
	[PRUNE_CALLS] = ("DELETE FROM call WHERE id IN (SELECT id FROM call"
			 " WHERE counted_at < ?1 ORDER BY counted_at LIMIT ?2)"),
	[PRUNE_METERS] = ("DELETE FROM meter WHERE name IN (SELECT name FROM meter AS m"
			  " WHERE name GLOB 'run:*' AND used_day < ?1"
			  " AND NOT EXISTS (SELECT 1 FROM run WHERE id = substr(m.name, 5)"
			  "  AND (ended_day IS NULL OR ended_day >= ?1))"
			  " AND NOT EXISTS (SELECT 1 FROM hold"
			  "  WHERE m.name IN (meter_1, meter_2, meter_3))"
			  " ORDER BY used_day LIMIT ?2)"),
	[PRUNE_RUNS] = ("DELETE FROM run WHERE id IN (SELECT id FROM run AS r"
			" WHERE ended_day < ?1"
			" AND NOT EXISTS (SELECT 1 FROM meter WHERE name = 'run:' || r.id)"
			" ORDER BY ended_day LIMIT ?2)"),
	[PUT_RUN] = "INSERT OR REPLACE INTO run VALUES (?1, ?2, NULL)",
	[END_RUN] = "UPDATE run SET ended_day = ?2 WHERE id = ?1",
	[END_RUNS] = "UPDATE run SET ended_day = ?1 WHERE ended_day IS NULL",
	[PUT_REVOCATION] = "INSERT OR REPLACE INTO revocation VALUES (?1, ?2)",
	[LOAD_METER] = "SELECT bytes, spent FROM meter WHERE name = ?1",
	[LOAD_RUN] = "SELECT begun_ms, ended_day FROM run WHERE id = ?1",
	[LOAD_CALL] = "SELECT cost, is_truth FROM call WHERE id = ?1",
	[LOAD_HOLDS] = ("SELECT id, meter_1, meter_2, meter_3, bytes, spend, made_at, call_id"
			" FROM hold"),
	[LOAD_REVOCATIONS] = "SELECT run_id FROM revocation",
};

struct sqlite {
	struct journal journal;
	sqlite3 *db;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
	char *path;
	int64_t come; /* rows that were put since the last commit */
};

static struct sqlite *sqlite_of(struct journal *journal)
{
	return OWNER_OF(journal, struct sqlite, journal);
}

static uint64_t now_s(void)
{
	return clock_ms(CLOCK_REALTIME) / 1000;
}

static uint64_t today(void)
{
	return now_s() / DAY_S;
}

/* A clock that has lost its date makes nothing old. */
static uint64_t before(uint64_t now, uint64_t age)
{
	return now > age ? now - age : 0;
}

/* ---- statements ---- */

static int fail(struct sqlite *sqlite)
{
	struct journal *journal = &sqlite->journal;

	snprintf(journal->fault, sizeof(journal->fault), "the state in '%.150s': %s", sqlite->path,
		 sqlite3_errmsg(sqlite->db));
	return -EIO;
}

static void bind_text(sqlite3_stmt *statement, int place, const char *text)
{
	/* Borrowed until the statement is reset; a failure shows when it is run. */
	sqlite3_bind_text(statement, place, text, -1, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *statement, int place, uint64_t number)
{
	sqlite3_bind_int64(statement, place,
			   number > INT64_MAX ? INT64_MAX : (sqlite3_int64)number);
}

/* What is no text is none: somebody else has written there. */
static const char *text_of(sqlite3_stmt *statement, int column)
{
	const unsigned char *text = sqlite3_column_text(statement, column);

	return text ? (const char *)text : "";
}

static uint64_t number_of(sqlite3_stmt *statement, int column)
{
	sqlite3_int64 number = sqlite3_column_int64(statement, column);

	return number < 0 ? 0 : (uint64_t)number;
}

static void finish(sqlite3_stmt *statement)
{
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
}

/* Runs one that returns no rows. */
static int run(struct sqlite *sqlite, enum statement which)
{
	sqlite3_stmt *statement = sqlite->prepared[which];
	int r = sqlite3_step(statement) == SQLITE_DONE ? 0 : fail(sqlite);

	finish(statement);
	return r;
}

/* 1 when there is a row, else 0; in both cases, finish is owed. */
static int step(struct sqlite *sqlite, enum statement which)
{
	switch (sqlite3_step(sqlite->prepared[which])) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return fail(sqlite);
	}
}

/* ---- what is too old ---- */

static int prune(struct sqlite *sqlite, enum statement which, uint64_t limit, int64_t most)
{
	bind_number(sqlite->prepared[which], 1, limit);
	sqlite3_bind_int64(sqlite->prepared[which], 2, most);
	return run(sqlite, which);
}

/* So many of each kind; -1: all. A run goes after its meter, in the same transaction. */
static int prune_all(struct sqlite *sqlite, int64_t most)
{
	uint64_t run_day = before(today(), STORE_RUN_DAYS);
	int r = prune(sqlite, PRUNE_CALLS, before(now_s(), CALL_DAYS * DAY_S), most);

	if (r == 0)
		r = prune(sqlite, PRUNE_METERS, run_day, most);
	return r == 0 ? prune(sqlite, PRUNE_RUNS, run_day, most) : r;
}

/* ---- writing ---- */

static int begin(struct journal *journal)
{
	sqlite_of(journal)->come = 0;
	return run(sqlite_of(journal), BEGIN);
}

static int commit(struct journal *journal)
{
	struct sqlite *sqlite = sqlite_of(journal);
	int r = 0;

	/* Two go for each that comes: what is old becomes less, and none waits for long. */
	if (sqlite->come > 0)
		r = prune_all(sqlite, 2 * sqlite->come);
	return r == 0 ? run(sqlite, COMMIT) : r;
}

static void rollback(struct journal *journal)
{
	struct sqlite *sqlite = sqlite_of(journal);

	/* Some failures have done it already. */
	if (!sqlite3_get_autocommit(sqlite->db)) {
		sqlite3_step(sqlite->prepared[ROLLBACK]);
		finish(sqlite->prepared[ROLLBACK]);
	}
}

static int probe(struct journal *journal)
{
	return run(sqlite_of(journal), PROBE);
}

static int put_hold(struct journal *journal, const struct journal_hold *hold)
{
	struct sqlite *sqlite = sqlite_of(journal);
	sqlite3_stmt *statement = sqlite->prepared[PUT_HOLD];

	bind_text(statement, 1, hold->id);
	for (int i = 0; i < STORE_CLAIMS_MAX; i++)
		bind_text(statement, 2 + i, hold->meters[i]); /* NULL is NULL */
	bind_number(statement, 5, hold->bytes);
	bind_number(statement, 6, hold->spend);
	bind_number(statement, 7, hold->made_at);
	bind_text(statement, 8, hold->call_id);
	return run(sqlite, PUT_HOLD);
}

static int remove_hold(struct journal *journal, const char *id)
{
	struct sqlite *sqlite = sqlite_of(journal);

	bind_text(sqlite->prepared[REMOVE_HOLD], 1, id);
	return run(sqlite, REMOVE_HOLD);
}

static int put_meter(struct journal *journal, const char *name, uint64_t bytes, uint64_t spent)
{
	struct sqlite *sqlite = sqlite_of(journal);

	bind_text(sqlite->prepared[PUT_METER], 1, name);
	bind_number(sqlite->prepared[PUT_METER], 2, bytes);
	bind_number(sqlite->prepared[PUT_METER], 3, spent);
	bind_number(sqlite->prepared[PUT_METER], 4, today());
	sqlite->come++;
	return run(sqlite, PUT_METER);
}

static int put_call(struct journal *journal, const struct journal_call *call)
{
	struct sqlite *sqlite = sqlite_of(journal);
	sqlite3_stmt *statement = sqlite->prepared[PUT_CALL];

	bind_text(statement, 1, call->id);
	bind_number(statement, 2, call->cost);
	bind_number(statement, 3, call->is_truth);
	bind_number(statement, 4, now_s());
	sqlite->come++;
	return run(sqlite, PUT_CALL);
}

static int put_run(struct journal *journal, const char *run_id, uint64_t begun_ms)
{
	struct sqlite *sqlite = sqlite_of(journal);

	bind_text(sqlite->prepared[PUT_RUN], 1, run_id);
	bind_number(sqlite->prepared[PUT_RUN], 2, begun_ms);
	sqlite->come++;
	return run(sqlite, PUT_RUN);
}

static int end_run(struct journal *journal, const char *run_id)
{
	struct sqlite *sqlite = sqlite_of(journal);

	bind_text(sqlite->prepared[END_RUN], 1, run_id);
	bind_number(sqlite->prepared[END_RUN], 2, today());
	return run(sqlite, END_RUN);
}

/* Nobody has a link when the file is opened; who borrows it will say so. */
static int end_runs(struct sqlite *sqlite)
{
	bind_number(sqlite->prepared[END_RUNS], 1, today());
	return run(sqlite, END_RUNS);
}

static int put_revocation(struct journal *journal, const char *run_id)
{
	struct sqlite *sqlite = sqlite_of(journal);

	bind_text(sqlite->prepared[PUT_REVOCATION], 1, run_id);
	bind_number(sqlite->prepared[PUT_REVOCATION], 2, now_s());
	return run(sqlite, PUT_REVOCATION);
}

/* ---- reading ---- */

/* The row of that name, of two numbers: 1, 0 (none: they are left alone) or -EIO. */
static int load_numbers(struct journal *journal, enum statement which, const char *name,
			uint64_t *ret_first, uint64_t *ret_second)
{
	struct sqlite *sqlite = sqlite_of(journal);
	sqlite3_stmt *statement = sqlite->prepared[which];
	int r;

	bind_text(statement, 1, name);
	r = step(sqlite, which);
	if (r > 0) {
		*ret_first = number_of(statement, 0);
		*ret_second = number_of(statement, 1);
	}
	finish(statement);
	return r;
}

static int load_meter(struct journal *journal, const char *name, uint64_t *ret_bytes,
		      uint64_t *ret_spent)
{
	int r;

	*ret_bytes = *ret_spent = 0;
	r = load_numbers(journal, LOAD_METER, name, ret_bytes, ret_spent);
	return r < 0 ? r : 0;
}

static int load_run(struct journal *journal, const char *run_id, uint64_t *ret_begun_ms,
		    bool *ret_is_of_today)
{
	uint64_t ended_day = 0; /* also while it has a link */
	int r;

	*ret_begun_ms = 0;
	r = load_numbers(journal, LOAD_RUN, run_id, ret_begun_ms, &ended_day);
	*ret_is_of_today = ended_day == today();
	return r < 0 ? r : 0;
}

static int load_call(struct journal *journal, const char *call_id, struct journal_call *ret_call)
{
	uint64_t is_truth = 0;
	int r;

	*ret_call = (struct journal_call){ .id = call_id };
	r = load_numbers(journal, LOAD_CALL, call_id, &ret_call->cost, &is_truth);
	ret_call->is_truth = is_truth;
	return r;
}

static int load_holds(struct journal *journal,
		      void (*on_hold)(void *owner, const struct journal_hold *hold), void *owner)
{
	struct sqlite *sqlite = sqlite_of(journal);
	sqlite3_stmt *row = sqlite->prepared[LOAD_HOLDS];
	int r;

	while ((r = step(sqlite, LOAD_HOLDS)) > 0) {
		struct journal_hold hold = { .id = text_of(row, 0) };

		for (int i = 0;
		     i < STORE_CLAIMS_MAX && sqlite3_column_type(row, 1 + i) == SQLITE_TEXT; i++)
			hold.meters[i] = text_of(row, 1 + i);
		hold.bytes = number_of(row, 4);
		hold.spend = number_of(row, 5);
		hold.made_at = number_of(row, 6);
		hold.call_id = text_of(row, 7);
		on_hold(owner, &hold);
	}
	finish(row);
	return r;
}

static int load_revocations(struct journal *journal,
			    void (*on_revoked)(void *owner, const char *run_id), void *owner)
{
	struct sqlite *sqlite = sqlite_of(journal);
	int r;

	while ((r = step(sqlite, LOAD_REVOCATIONS)) > 0)
		on_revoked(owner, text_of(sqlite->prepared[LOAD_REVOCATIONS], 0));
	finish(sqlite->prepared[LOAD_REVOCATIONS]);
	return r;
}

/* ---- the file ---- */

static void close_journal(struct journal *journal)
{
	struct sqlite *sqlite = sqlite_of(journal);

	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_finalize(sqlite->prepared[i]);
	sqlite3_close(sqlite->db);
	free(sqlite->path);
	free(sqlite);
}

static const struct journal_ops sqlite_ops = {
	.begin = begin,
	.commit = commit,
	.rollback = rollback,
	.probe = probe,
	.put_hold = put_hold,
	.remove_hold = remove_hold,
	.put_meter = put_meter,
	.put_call = put_call,
	.put_run = put_run,
	.end_run = end_run,
	.put_revocation = put_revocation,
	.load_meter = load_meter,
	.load_run = load_run,
	.load_call = load_call,
	.load_holds = load_holds,
	.load_revocations = load_revocations,
	.close = close_journal,
};

/*
 * SQLite makes its files readable for all, and its log as readable as the file: so the file is
 * there before. One that exists is not opened here: to close it would give up the locks that
 * SQLite has on it in this process.
 */
static int make_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;

	if (fd >= 0)
		return 0;
	if (errno != EEXIST)
		return err_set(err, errno, "make the state's file '%s'", path);
	if (stat(path, &st) < 0)
		return err_set(err, errno, "look at the state's file '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_say(err, EINVAL, "the state's file '%s' is not a regular file", path);
	if (st.st_mode & 077)
		return err_say(err, EPERM,
			       "the state's file '%s' is open to other users; make it yours alone "
			       "(chmod 600)",
			       path);
	return 0;
}

static int say_why(struct sqlite *sqlite, struct err *err)
{
	int code = sqlite3_errcode(sqlite->db) & 0xff;

	if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
		return err_say(
			err, EBUSY,
			"another keeper has the state in '%s' open; keepers that share their "
			"limits need PostgreSQL or Redis, others a file of their own",
			sqlite->path);
	if (code == SQLITE_NOTADB)
		return err_say(err, EINVAL,
			       "'%s' is not a database; name another file for the state",
			       sqlite->path);
	return err_say(err, EIO, "open the state in '%s': %s", sqlite->path,
		       sqlite3_errmsg(sqlite->db));
}

static int execute(struct sqlite *sqlite, const char *sql, struct err *err)
{
	return sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
									    : say_why(sqlite, err);
}

static int query_number(struct sqlite *sqlite, const char *sql, int64_t *ret_number,
			struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int r = 0;

	if (sqlite3_prepare_v2(sqlite->db, sql, -1, &statement, NULL) != SQLITE_OK ||
	    sqlite3_step(statement) != SQLITE_ROW)
		r = say_why(sqlite, err);
	else
		*ret_number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return r;
}

static int check_schema(struct sqlite *sqlite, struct err *err)
{
	int64_t version = 0, count = 0;
	int r = query_number(sqlite, "PRAGMA user_version", &version, err);

	if (r == 0)
		r = query_number(sqlite, "SELECT count(*) FROM sqlite_schema", &count, err);
	if (r < 0)
		return r;
	if (version == 0 && count == 0)
		return execute(sqlite, schema, err);
	if (version == 0)
		return err_say(err, EINVAL,
			       "'%s' is a database of another program; name another file for the "
			       "state",
			       sqlite->path);
	if (version != SCHEMA_VERSION)
		return err_say(
			err, EINVAL,
			"the state in '%s' was written by a newer warder (version %d, this one "
			"knows %d); use that one, or another file",
			sqlite->path, (int)version, SCHEMA_VERSION);
	return 0;
}

static int prepare_all(struct sqlite *sqlite, struct err *err)
{
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		if (sqlite3_prepare_v3(sqlite->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &sqlite->prepared[i], NULL) != SQLITE_OK)
			return say_why(sqlite, err);
	return 0;
}

/* The lock comes first, the rest within it; it stays until the file is closed. */
static int open_file(struct sqlite *sqlite, struct err *err)
{
	int r;

	if (sqlite3_open_v2(sqlite->path, &sqlite->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return say_why(sqlite, err);
	/* A file that somebody else has written must not make us run what is in its schema. */
	sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	r = execute(sqlite,
		    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
		    "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; BEGIN EXCLUSIVE;",
		    err);
	if (r == 0)
		r = check_schema(sqlite, err);
	if (r == 0)
		r = execute(sqlite, "COMMIT", err);
	if (r == 0)
		r = prepare_all(sqlite, err);
	if (r == 0 && (end_runs(sqlite) < 0 || prune_all(sqlite, -1) < 0))
		r = say_why(sqlite, err);
	return r;
}

struct journal *journal_open_sqlite(const char *path, struct err *err)
{
	struct sqlite *sqlite;

	if (make_file(path, err) < 0)
		return NULL;
	sqlite = calloc(1, sizeof(*sqlite));
	if (!sqlite || !(sqlite->path = strdup(path)))
		die_no_memory();
	sqlite->journal.ops = &sqlite_ops;
	if (open_file(sqlite, err) < 0) {
		close_journal(&sqlite->journal);
		return NULL;
	}
	return &sqlite->journal;
}
