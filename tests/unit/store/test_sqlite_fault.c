/* SPDX-License-Identifier: MIT */
/* A journal that cannot be written: nothing is granted that needs it, and it comes back by itself.
 */
#include "store/desk.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const struct limits limits = { .concurrent = 100, .bytes = 1000000, .spend = MONEY_UNIT };
static const struct limits places = { .rate = 1000 * LIMITS_PER_SECOND,
				      .burst = 1000,
				      .concurrent = 100 };
static struct loop loop;

static int set_up(void **state)
{
	return desk_make_dir(state) < 0 ? -1 : loop_init(&loop);
}

static int tear_down(void **state)
{
	loop_fini(&loop);
	return desk_remove_dir(state);
}

/* ---- no room ---- */

static rlim_t room;

/* Files may not become longer than SQLite's log is now. */
static void take_the_room(void)
{
	char path[sizeof(desk_path) + 16];
	struct rlimit limit;
	struct stat st;

	snprintf(path, sizeof(path), "%s-wal", desk_path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	room = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)st.st_size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void give_room(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = room;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void without_room_nothing_is_granted_and_nothing_changes(struct store *store)
{
	struct store_meter before = desk_read(store, "run:x"), after;

	for (int i = 0; i < 3; i++)
		assert_int_equal(desk_reserve(store, "b", "run:x", limits, 10, CENT),
				 STORE_UNREACHABLE);
	assert_int_equal(desk_extend(store, "a", "run:x", limits, 50), STORE_UNREACHABLE);
	after = desk_read(store, "run:x");
	assert_int_equal(after.concurrent, before.concurrent);
	assert_int_equal(after.reserved, before.reserved);
	assert_int_equal(after.bytes, before.bytes);
	assert_false(store->is_reachable);
	assert_non_null(strstr(store->fault, desk_path));
	assert_int_equal(store->failure_count, 4);
	assert_int_equal(desk_open_run(store, "new"), STORE_UNREACHABLE);
	assert_int_equal(desk_revoke(store, "run"), STORE_UNREACHABLE);
	assert_int_equal(desk_reconcile(store, "call", "y", CENT).verdict, STORE_UNREACHABLE);
	assert_int_equal(desk_read(store, "run:y").spent, 0);
	assert_int_equal(store->failure_count, 7);
	/* What does not need it goes on: also, the run was not revoked. */
	assert_int_equal(desk_reserve(store, "fast", "run:z", places, 10, 0), STORE_GRANTED);
	desk_settle(store, "fast", 5, 0, "");
}

static void wait_for_recovery(struct store *store)
{
	uint64_t end = clock_now_ms() + 5000;

	while (!store->is_reachable && clock_now_ms() < end)
		assert_int_equal(loop_turn(&loop, 50), 0);
	assert_true(store->is_reachable);
	assert_string_equal(store->fault, "");
}

static void a_full_disk_refuses_and_then_recovers(void **state)
{
	struct store_meter meter;
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	assert_int_equal(desk_reserve(store, "a", "run:x", limits, 100, 3 * CENT), STORE_GRANTED);
	assert_int_equal(desk_reserve(store, "b", "run:x", limits, 10, CENT), STORE_GRANTED);
	assert_int_equal(desk_extend(store, "b", "run:x", limits, 50), STORE_GRANTED);
	desk_settle(store, "b", 10, CENT, ""); /* the control: there is room */
	desk_flush(store);
	assert_true(store->is_reachable);
	take_the_room();
	without_room_nothing_is_granted_and_nothing_changes(store);
	desk_settle(store, "a", 70, 2 * CENT, "call"); /* has happened, and counts */
	desk_flush(store);
	assert_int_equal(desk_read(store, "run:x").spent, 3 * CENT);
	assert_int_equal(loop_turn(&loop, 1200), 0);
	assert_false(store->is_reachable); /* tried again, in vain */
	give_room();
	wait_for_recovery(store); /* nobody has asked */
	assert_int_equal(desk_reserve(store, "c", "run:x", limits, 10, CENT), STORE_GRANTED);
	store->ops->close(store);
	store = desk_open(&loop);
	assert_non_null(store);
	meter = desk_read(store, "run:x");
	assert_int_equal(meter.spent, 3 * CENT);
	assert_int_equal(meter.reserved, CENT);
	assert_int_equal(meter.bytes, 90);
	assert_int_equal(desk_read(store, "run:z").bytes, 5);
	assert_true(desk_reconcile(store, "call", "x", 2 * CENT).was_known);
	store->ops->close(store);
}

/* With nothing that waits to be written, too, it is found out that it works again. */
static void it_recovers_without_being_asked(void **state)
{
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	assert_int_equal(desk_open_run(store, "first"), STORE_GRANTED);
	take_the_room();
	assert_int_equal(desk_open_run(store, "second"), STORE_UNREACHABLE);
	assert_int_equal(loop_turn(&loop, 1200), 0);
	assert_false(store->is_reachable);
	give_room();
	wait_for_recovery(store);
	assert_int_equal(desk_open_run(store, "second"), STORE_GRANTED);
	store->ops->close(store);
}

/* ---- each call of the journal fails once ---- */

static const struct journal_ops *real;
static unsigned int calls, failing;
static struct journal_ops wrapped;

static bool fails(struct journal *journal)
{
	if (++calls != failing)
		return false;
	snprintf(journal->fault, sizeof(journal->fault), "made to fail");
	return true;
}

#define WRAP(name, parameters, arguments)                                                          \
	static int name parameters                                                                 \
	{                                                                                          \
		return fails(journal) ? -EIO : real->name arguments;                               \
	}

WRAP(begin, (struct journal * journal), (journal))
WRAP(commit, (struct journal * journal), (journal))
WRAP(probe, (struct journal * journal), (journal))
WRAP(put_hold, (struct journal * journal, const struct journal_hold *hold), (journal, hold))
WRAP(remove_hold, (struct journal * journal, const char *id), (journal, id))
WRAP(put_meter, (struct journal * journal, const char *name, uint64_t bytes, uint64_t spent),
     (journal, name, bytes, spent))
WRAP(put_call, (struct journal * journal, const struct journal_call *call), (journal, call))
WRAP(put_run, (struct journal * journal, const char *run_id, uint64_t at), (journal, run_id, at))
WRAP(end_run, (struct journal * journal, const char *run_id), (journal, run_id))
WRAP(put_revocation, (struct journal * journal, const char *run_id), (journal, run_id))
WRAP(load_meter, (struct journal * journal, const char *name, uint64_t *bytes, uint64_t *spent),
     (journal, name, bytes, spent))
WRAP(load_run, (struct journal * journal, const char *run_id, uint64_t *at, bool *is_of_today),
     (journal, run_id, at, is_of_today))
WRAP(load_call, (struct journal * journal, const char *id, struct journal_call *call),
     (journal, id, call))
WRAP(load_holds,
     (struct journal * journal, void (*on_hold)(void *, const struct journal_hold *), void *owner),
     (journal, on_hold, owner))
WRAP(load_revocations,
     (struct journal * journal, void (*on_revoked)(void *, const char *), void *owner),
     (journal, on_revoked, owner))

static struct store *open_wrapped(void)
{
	struct err err = { 0 };
	struct journal *journal = journal_open_sqlite(desk_path, &err);

	assert_non_null(journal);
	real = journal->ops;
	wrapped = (struct journal_ops){ .begin = begin,
					.commit = commit,
					.rollback = real->rollback,
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
					.close = real->close };
	journal->ops = &wrapped;
	return store_local_new(&loop, journal);
}

/* A day in the life of a store; how many answers were UNREACHABLE. */
static unsigned int live(struct store *store, const char *run, const char *meter)
{
	unsigned int refused = 0;
	char ids[4][STORE_ID_MAX], call[STORE_CALL_ID_MAX], revoked[RUNID_MAX], by_token[RUNID_MAX];

	refused += desk_open_run(store, run) == STORE_UNREACHABLE;
	snprintf(by_token, sizeof(by_token), "%s-by-token", run);
	refused += desk_begin_run(store, by_token) == STORE_UNREACHABLE;
	for (int i = 0; i < 4; i++) {
		snprintf(ids[i], sizeof(ids[i]), "%s-%d", run, i);
		refused += desk_reserve(store, ids[i], meter, limits, 100, 2 * CENT) ==
			   STORE_UNREACHABLE;
	}
	snprintf(call, sizeof(call), "%s-call", run);
	desk_settle(store, ids[0], 50, CENT, "");
	desk_settle(store, ids[1], 50, CENT, call);
	desk_flush(store);
	desk_settle_without_cost(store, ids[2], 50, ids[2]);
	desk_flush(store);
	refused += desk_reconcile(store, ids[2], run, CENT).verdict == STORE_UNREACHABLE;
	refused += desk_reconcile(store, call, run, 3 * CENT).verdict == STORE_UNREACHABLE;
	snprintf(revoked, sizeof(revoked), "%s-no", run);
	refused += desk_revoke(store, revoked) == STORE_UNREACHABLE;
	desk_flush(store);
	return refused; /* the last hold is left */
}

/* With the call that is made to fail; how the meter stands afterwards, in memory and in the file.
 */
static void live_through_a_failure(unsigned int which, struct store_meter *ret_memory,
				   struct store_meter *ret_file)
{
	unsigned int refused;
	struct store *store;
	char run[32], meter[64];

	snprintf(run, sizeof(run), "r%u", which);
	snprintf(meter, sizeof(meter), "run:%s", run);
	calls = 0;
	failing = which;
	store = open_wrapped();
	refused = live(store, run, meter);
	failing = 0;
	assert_int_equal(refused, store->failure_count);
	*ret_memory = desk_read(store, meter);
	store->ops->close(store);
	store = open_wrapped();
	*ret_file = desk_read(store, meter);
	store->ops->close(store);
}

static void whatever_fails_memory_and_file_agree(void **state)
{
	struct store_meter memory, file;
	unsigned int most;

	(void)state;
	live_through_a_failure(0, &memory, &file); /* the control: nothing fails */
	most = calls;
	assert_int_equal(file.spent, 5 * CENT);
	assert_int_equal(file.reserved, 2 * CENT);
	assert_int_equal(file.bytes, 3 * 50 + 100);
	assert_true(most > 30);
	for (unsigned int which = 1; which <= most; which++) {
		live_through_a_failure(which, &memory, &file);
		assert_int_equal(file.spent, memory.spent);
		assert_int_equal(file.reserved, memory.reserved);
		assert_int_equal(file.bytes, memory.bytes);
		/* One hold less, one correction less, or one that is kept for longer. */
		assert_in_range(file.spent, 2 * CENT, 5 * CENT);
		assert_in_range(file.spent + file.reserved, 4 * CENT, 8 * CENT);
	}
	print_message("%u calls of the journal failed in turn\n", most);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	signal(SIGXFSZ, SIG_IGN); /* as an error, please */
	RUN_TESTS(FRESH(a_full_disk_refuses_and_then_recovers),
		  FRESH(it_recovers_without_being_asked),
		  FRESH(whatever_fails_memory_and_file_agree));
}
