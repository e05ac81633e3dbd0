/* SPDX-License-Identifier: MIT */
/* The store with a file: what all have to do, whose the file is, and what is not in it. */
#include "store/desk.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "store/conformance.h"
#include "store/local.h"

static struct loop loop;
static time_t days_ahead; /* of the clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int r = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += clock == CLOCK_REALTIME ? days_ahead * 86400 : 0;
	return r;
}

static int set_up(void **state)
{
	return desk_make_dir(state) < 0 ? -1 : loop_init(&loop);
}

static int tear_down(void **state)
{
	days_ahead = 0;
	loop_fini(&loop);
	return desk_remove_dir(state);
}

/* What another program does to the file. */
static void execute(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(desk_path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* What is in it, while nobody has it open: texts, each with a comma. */
static void expect_rows(const char *sql, const char *wanted)
{
	sqlite3 *db;
	sqlite3_stmt *rows;
	char found[512] = "";

	assert_int_equal(sqlite3_open(desk_path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &rows, NULL), SQLITE_OK);
	while (sqlite3_step(rows) == SQLITE_ROW) {
		size_t len = strlen(found);

		snprintf(found + len, sizeof(found) - len, "%s,", sqlite3_column_text(rows, 0));
	}
	sqlite3_finalize(rows);
	sqlite3_close(db);
	assert_string_equal(found, wanted);
}

static void expect_refusal(const char *why)
{
	struct err err = { 0 };

	assert_null(journal_open_sqlite(desk_path, &err));
	if (!strstr(err.text, why))
		print_error("%s\n", err.text);
	assert_non_null(strstr(err.text, why));
}

static off_t size_of(const char *suffix)
{
	char path[sizeof(desk_path) + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s%s", desk_path, suffix);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	return st.st_size;
}

/* ---- the file ---- */

static void nobody_else_can_read_it(void **state)
{
	mode_t before = umask(0);
	struct store *store = desk_open(&loop);

	(void)state;
	umask(before);
	assert_non_null(store);
	desk_reserve(store, "a", "run:x", (struct limits){ .spend = CENT }, 0, CENT);
	assert_true(size_of("") > 0);
	assert_true(size_of("-wal") > 0);
	store->ops->close(store);
	assert_int_equal(chmod(desk_path, 0640), 0);
	expect_refusal("chmod 600");
	assert_int_equal(chmod(desk_path, 0600), 0); /* the control */
	store = desk_open(&loop);
	assert_non_null(store);
	store->ops->close(store);
}

/* In a process that has nothing of this one. */
static void expect_refusal_elsewhere(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", "second-keeper", desk_path, NULL);
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int be_refused(const char *path)
{
	struct err err = { 0 };
	struct journal *journal = journal_open_sqlite(path, &err);

	if (journal)
		journal->ops->close(journal);
	return !journal && strstr(err.text, "PostgreSQL or Redis") ? 0 : 1;
}

static void a_second_keeper_is_told_what_to_use_instead(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	expect_refusal_elsewhere(); /* nothing has been asked for yet */
	desk_reserve(store, "a", "run:x", (struct limits){ .spend = CENT }, 0, CENT);
	expect_refusal_elsewhere();
	expect_refusal("PostgreSQL or Redis"); /* in this process */
	expect_refusal_elsewhere();            /* that has not cost the lock */
	desk_settle(store, "a", 0, CENT, "");
	desk_flush(store);
	assert_true(store->is_reachable);
	store->ops->close(store);
	store = desk_open(&loop); /* the control: when the first is gone */
	assert_non_null(store);
	assert_int_equal(desk_read(store, "run:x").spent, CENT);
	store->ops->close(store);
}

static void what_is_not_ours_is_refused(void **state)
{
	struct store *store = desk_open(&loop);
	FILE *file;

	(void)state;
	assert_non_null(store);
	store->ops->close(store);
	execute("PRAGMA user_version = 2");
	expect_refusal("newer warder");
	execute("PRAGMA user_version = 0");
	expect_refusal("another program");
	execute("PRAGMA user_version = 1"); /* the control */
	store = desk_open(&loop);
	assert_non_null(store);
	store->ops->close(store);
	file = fopen(desk_path, "w");
	assert_non_null(file);
	for (int i = 0; i < 1000; i++)
		fputs("this is no database\n", file);
	fclose(file);
	expect_refusal("not a database");
	unlink(desk_path);
	assert_int_equal(mkdir(desk_path, 0700), 0);
	expect_refusal("not a regular file");
	assert_int_equal(rmdir(desk_path), 0);
	snprintf(desk_path, sizeof(desk_path), "%s/no/db", desk_dir);
	expect_refusal("No such file");
	snprintf(desk_path, sizeof(desk_path), "%s/state.db", desk_dir);
}

/* ---- what is in it ---- */

static void rates_and_places_alone_are_not_written(void **state)
{
	const struct limits limits = { .rate = 100000 * LIMITS_PER_SECOND,
				       .burst = 100000,
				       .concurrent = 5 };
	struct store *store = desk_open(&loop);
	char id[STORE_ID_MAX];
	off_t before;

	(void)state;
	assert_non_null(store);
	assert_int_equal(desk_open_run(store, "r"), STORE_GRANTED);
	before = size_of("-wal");
	for (int i = 0; i < 1000; i++) {
		snprintf(id, sizeof(id), "hold-%d", i);
		assert_int_equal(desk_reserve(store, id, "run:r", limits, 100, 0), STORE_GRANTED);
		desk_settle(store, id, 50, 0, "");
		desk_flush(store);
	}
	assert_int_equal(size_of("-wal"), before);
	/* What was counted is, a second later, at once. */
	assert_int_equal(loop_turn(&loop, 1200), 0);
	assert_in_range(size_of("-wal"), before + 1, before + 5 * 4200);
	/* The control: one with money is. */
	before = size_of("-wal");
	assert_int_equal(desk_reserve(store, "m", "run:r", limits, 0, 1), STORE_GRANTED);
	assert_true(size_of("-wal") > before);
	store->ops->close(store);
	store = desk_open(&loop);
	assert_int_equal(desk_read(store, "run:r").bytes, 50000);
	store->ops->close(store);
}

static void meters_at_rest_are_read_again(void **state)
{
	const struct limits limits = { .bytes = 100 };
	struct store *store = desk_open(&loop);
	char id[STORE_ID_MAX], meter[64];

	(void)state;
	assert_non_null(store);
	for (int i = 0; i < 3000; i++) {
		snprintf(meter, sizeof(meter), "host:h%d.test", i);
		snprintf(id, sizeof(id), "hold-%d", i);
		assert_int_equal(desk_reserve(store, id, meter, limits, 60, 0), STORE_GRANTED);
		desk_settle(store, id, 60, 0, "");
		desk_flush(store);
	}
	assert_true(OWNER_OF(store, struct local, store)->tallies.count < 100);
	for (int i = 0; i < 3000; i++) {
		snprintf(meter, sizeof(meter), "host:h%d.test", i);
		assert_int_equal(desk_reserve(store, "next", meter, limits, 50, 0), STORE_NO_BYTES);
	}
	store->ops->close(store);
}

/* Without a limit it is not read from the file; what it has there is not lost by that. */
static void what_was_used_before_is_added_to(void **state)
{
	struct store *store;

	(void)state;
	for (uint64_t i = 1; i <= 3; i++) {
		store = desk_open(&loop);
		assert_non_null(store);
		desk_reserve(store, "a", "run:x", (struct limits){ .concurrent = 1 }, 0, 0);
		desk_settle(store, "a", 10, CENT, "");
		store->ops->close(store);
		store = desk_open(&loop);
		assert_non_null(store);
		assert_int_equal(desk_read(store, "run:x").bytes, 10 * i);
		assert_int_equal(desk_read(store, "run:x").spent, CENT * i);
		store->ops->close(store);
	}
}

/* Its meters are at rest while it is read, and room for the last may be made of the first. */
static void what_holds_nothing_is_read_when_there_is_no_room(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	store->ops->close(store);
	execute("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15)"
		"INSERT INTO hold SELECT 'a' || i, 'host:' || i, NULL, NULL, 1, 0, 1, '' FROM n;"
		"INSERT INTO hold VALUES ('b', 'run:x', 'account:x', 'host:x', 0, 0, 1, '')");
	store = desk_open(&loop);
	assert_non_null(store);
	assert_int_equal(OWNER_OF(store, struct local, store)->holds.count, 16);
	assert_int_equal(OWNER_OF(store, struct local, store)->tallies.count, 18);
	desk_settle(store, "b", 7, 0, "");
	assert_int_equal(desk_read(store, "run:x").bytes, 7);
	assert_int_equal(desk_read(store, "host:x").bytes, 7);
	store->ops->close(store);
}

/* Nobody reconciles what has no money; and who borrows the store has asked for what is its. */
static void what_was_left_without_money_is_buried(void **state)
{
	const struct limits limits = { .bytes = 100 };
	struct store *store = desk_open(&loop);
	struct local *local;

	(void)state;
	assert_non_null(store);
	desk_reserve(store, "left", "run:left", limits, 60, 0);
	desk_reserve(store, "money", "run:money", limits, 60, CENT);
	desk_reserve(store, "lent", "run:lent", limits, 60, 0);
	store->ops->close(store);
	store = desk_open(&loop);
	local = OWNER_OF(store, struct local, store);
	assert_int_equal(local->holds.count, 3);
	assert_int_equal(desk_reserve(store, "lent", "run:lent", limits, 0, 0), STORE_GRANTED);
	assert_in_range(local->burial.due_ms, clock_now_ms() + 1, clock_now_ms() + STORE_ALIVE_MS);
	local_on_burial(&local->burial, clock_now_ms());
	assert_int_equal(local->holds.count, 2);
	assert_non_null(local_find_hold(local, "money"));
	assert_non_null(local_find_hold(local, "lent"));
	store->ops->close(store);
	store = desk_open(&loop);
	assert_int_equal(OWNER_OF(store, struct local, store)->holds.count, 2);
	assert_int_equal(desk_read(store, "run:left").bytes, 60); /* it may have been used */
	desk_settle(store, "lent", 10, 0, "");
	assert_int_equal(desk_read(store, "run:lent").bytes, 10);
	store->ops->close(store);
}

static void calls_are_forgotten_after_a_month(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	assert_int_equal(desk_reconcile(store, "old", "x", CENT).verdict, STORE_GRANTED);
	assert_int_equal(desk_reconcile(store, "new", "x", CENT).verdict, STORE_GRANTED);
	store->ops->close(store);
	execute("UPDATE call SET counted_at = counted_at - 31 * 86400 WHERE id = 'old';"
		"UPDATE call SET counted_at = counted_at - 29 * 86400 WHERE id = 'new'");
	store = desk_open(&loop);
	assert_non_null(store);
	assert_false(desk_reconcile(store, "old", "x", CENT).was_known);
	assert_true(desk_reconcile(store, "new", "x", CENT).was_known);
	store->ops->close(store);
}

/* Something of each is used, and its link is closed. */
static void use_runs(struct store *store, const char *const *ids)
{
	char meter[64];

	for (; *ids; ids++) {
		snprintf(meter, sizeof(meter), "run:%s", *ids);
		assert_int_equal(desk_open_run(store, *ids), STORE_GRANTED);
		desk_reserve(store, *ids, meter, (struct limits){ 0 }, 0, CENT);
		desk_settle(store, *ids, 7, CENT, "");
		desk_flush(store);
		store->ops->close_run(store, *ids, clock_now_ms());
	}
}

static void expect_runs(const char *runs, const char *meters)
{
	expect_rows("SELECT id FROM run ORDER BY 1", runs);
	expect_rows("SELECT name FROM meter ORDER BY 1", meters);
}

static const char *const some_runs[] = {
	"held", "linked", "old-1", "old-2", "old-3", "young", NULL
};

/* As time goes on, and things are written. */
static void runs_that_are_over_are_forgotten(void **state)
{
	const struct limits limits = { .spend = 5 * CENT };
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	use_runs(store, some_runs);
	desk_reserve(store, "a", "account:a", limits, 0, CENT);
	desk_settle(store, "a", 0, CENT, "");
	desk_reserve(store, "kept", "run:held", limits, 0, CENT);
	desk_settle_without_cost(store, "kept", 0, "");
	assert_int_equal(desk_open_run(store, "linked"), STORE_GRANTED);
	assert_int_equal(desk_revoke(store, "old-1"), STORE_GRANTED);
	days_ahead = STORE_RUN_DAYS;
	use_runs(store, (const char *const[]){ "young", NULL });
	store->ops->close(store); /* the control: not a day too early */
	expect_runs("held,linked,old-1,old-2,old-3,young,",
		    "account:a,run:held,run:linked,run:old-1,run:old-2,run:old-3,run:young,");
	days_ahead = 0;
	store = desk_open(&loop);
	assert_int_equal(desk_open_run(store, "linked"), STORE_GRANTED);
	days_ahead = STORE_RUN_DAYS + 1;
	use_runs(store, (const char *const[]){ "young", NULL });
	store->ops->close(store);
	expect_runs("held,linked,young,", "account:a,run:held,run:linked,run:young,");
	expect_rows("SELECT run_id FROM revocation", "old-1,");
	store = desk_open(&loop);
	assert_int_equal(desk_open_run(store, "old-1"), STORE_IS_REVOKED);
	assert_int_equal(desk_read(store, "run:old-2").spent, 0);
	assert_int_equal(desk_read(store, "run:linked").spent, CENT);
	store->ops->close(store);
}

/* Each time that somebody asks for it, it is young again. */
static void runs_without_links_are_forgotten_as_well(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	assert_int_equal(desk_begin_run(store, "once"), STORE_GRANTED);
	assert_int_equal(desk_begin_run(store, "twice"), STORE_GRANTED);
	days_ahead = STORE_RUN_DAYS;
	assert_int_equal(desk_begin_run(store, "twice"), STORE_GRANTED);
	store->ops->close(store); /* the control: not a day too early */
	expect_runs("once,twice,", "");
	store = desk_open(&loop);
	days_ahead = 2 * STORE_RUN_DAYS;
	assert_int_equal(desk_begin_run(store, "other"), STORE_GRANTED);
	store->ops->close(store);
	expect_runs("other,twice,", "");
}

/* While nobody had the file open. */
static void runs_that_were_over_long_ago_are_gone_at_once(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	use_runs(store, some_runs);
	assert_int_equal(desk_open_run(store, "linked"), STORE_GRANTED);
	desk_reserve(store, "kept", "run:held", (struct limits){ .spend = 5 * CENT }, 0, CENT);
	store->ops->close(store);
	execute("UPDATE meter SET used_day = used_day - 367 WHERE name <> 'run:young';"
		"UPDATE run SET ended_day = ended_day - 367");
	store = desk_open(&loop);
	assert_non_null(store);
	store->ops->close(store);
	expect_runs("held,linked,young,", "run:held,run:linked,run:young,");
}

static void a_clock_without_a_date_makes_nothing_old(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	use_runs(store, some_runs);
	store->ops->close(store);
	days_ahead = -(time_t)(clock_ms(CLOCK_REALTIME) / 86400000);
	store = desk_open(&loop);
	assert_non_null(store);
	store->ops->close(store);
	expect_rows("SELECT count(*) FROM run", "6,");
	expect_rows("SELECT count(*) FROM meter", "6,");
}

static uint64_t ask_begun_ms(struct store *store, uint64_t age_ms)
{
	struct store_run run = { .run_id = "r",
				 .account = "",
				 .has_no_link = true,
				 .age_ms = age_ms,
				 .on_done = desk_on_opened };

	store->ops->open_run(store, &run, clock_now_ms());
	assert_int_equal(run.verdict, STORE_GRANTED);
	return run.begun_ms;
}

static void a_clock_that_was_put_back_makes_no_run_older(void **state)
{
	struct store *store = desk_open(&loop);
	uint64_t begun_ms = ask_begun_ms(store, 0);

	(void)state;
	days_ahead = -1;
	assert_int_equal(ask_begun_ms(store, 0), begun_ms);
	assert_int_equal(ask_begun_ms(store, 1000), begun_ms);
	days_ahead = 1;
	assert_int_equal(ask_begun_ms(store, 0), begun_ms);
	assert_true(ask_begun_ms(store, 3 * 86400000) < begun_ms); /* the control */
	store->ops->close(store);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FRESH(nobody_else_can_read_it),
		FRESH(a_second_keeper_is_told_what_to_use_instead),
		FRESH(what_is_not_ours_is_refused),
		FRESH(rates_and_places_alone_are_not_written),
		FRESH(meters_at_rest_are_read_again),
		FRESH(what_was_used_before_is_added_to),
		FRESH(what_holds_nothing_is_read_when_there_is_no_room),
		FRESH(what_was_left_without_money_is_buried),
		FRESH(calls_are_forgotten_after_a_month),
		FRESH(runs_that_are_over_are_forgotten),
		FRESH(runs_without_links_are_forgotten_as_well),
		FRESH(runs_that_were_over_long_ago_are_gone_at_once),
		FRESH(a_clock_without_a_date_makes_nothing_old),
		FRESH(a_clock_that_was_put_back_makes_no_run_older),
	};
	int failed;

	if (argc == 2)
		return be_refused(argv[1]);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (desk_make_dir(NULL) < 0)
		return 1;
	failed += conformance_run(
		&(struct backend){ .name = "sqlite", .open = desk_open, .is_lasting = true });
	return failed + (desk_remove_dir(NULL) < 0);
}
