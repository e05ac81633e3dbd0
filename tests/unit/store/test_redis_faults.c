/* SPDX-License-Identifier: MIT */
/* A Redis that is stopped, killed, full, read-only or locked: refusals, and then recovery. */
#include "unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "redis_scripts.h"
#include "store/logs.h"
#include "store/redis.h"
#include "store/redis_ask.h"

#define PASSWORD "hunter2-%s-hunter2" /* which would do harm to a careless format */
#define CROWD    100
#define MANY     50

static const struct limits none;

static void tell_server(const char *const *words)
{
	char text[256];

	redis_server_ask(&server, words, text, sizeof(text));
	if (strcmp(text, "OK") != 0 && strncmp(text, "Background", 10) != 0)
		fail_msg("%s: %s", words[0], text);
}

/* The answer does not matter: it may be the end of the connection. */
static void push_server(const char *const *words)
{
	char text[256];

	redis_server_ask(&server, words, text, sizeof(text));
}

static void expect_down(const char *why)
{
	struct ask ask;

	/* The first may be what finds out. */
	take(&ask, "m", none, 0, 1);
	assert_int_equal(take(&ask, "m", none, 0, 1), STORE_UNREACHABLE);
	assert_false(store->is_reachable);
	if (!strstr(store->fault, why))
		fail_msg("the fault is '%s', not '%s'", store->fault, why);
	assert_null(strstr(store->fault, "hunter2"));
}

static void expect_up(void)
{
	struct ask ask;

	turn_until(&store->is_reachable, PATIENCE_MS);
	assert_string_equal(store->fault, "");
	assert_int_equal(take(&ask, "up", none, 0, 1), STORE_GRANTED);
	settle(&ask, 0, true, 0);
}

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	redis_server_init(&server);
	redis_server_start(&server, NULL);
	store = connect_store(0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (store)
		store->ops->close(store);
	loop_fini(&loop);
	redis_server_fini(&server);
	return 0;
}

/* ---- not there ---- */

static void without_redis_the_answer_comes_at_once(void **state)
{
	uint64_t before;
	struct ask ask;

	(void)state;
	redis_server_signal(&server, SIGKILL);
	take(&ask, "m", none, 0, 1);
	before = store->failure_count;
	prepare(&ask, "m", none, 0, 1);
	ask_store(&ask);
	assert_true(ask.is_done); /* in no turn of the loop */
	assert_int_equal(ask.reservation.verdict, STORE_UNREACHABLE);
	assert_int_equal(open_run("r"), STORE_UNREACHABLE);
	assert_int_equal(store->failure_count, before + 2);
	turn_until(NULL, 500);
	expect_down(server.path);
	redis_server_start(&server, NULL);
	expect_up();
}

static void what_is_settled_meanwhile_waits(void **state)
{
	struct ask ask, other;

	(void)state;
	assert_int_equal(open_run("r"), STORE_GRANTED);
	assert_int_equal(take(&ask, "m", none, 10, 7), STORE_GRANTED);
	assert_int_equal(take(&other, "m", none, 10, 7), STORE_GRANTED);
	redis_server_signal(&server, SIGKILL);
	settle(&ask, 3, true, 5);
	turn_until(NULL, 50);
	settle(&other, 4, false, 0);
	store->ops->close_run(store, "r", clock_now_ms());
	redis_server_start(&server, NULL);
	turn_until(&store->is_reachable, PATIENCE_MS);
	assert_int_equal(read_meter("m").spent, 5);
	assert_int_equal(read_meter("m").reserved, 7);
	assert_int_equal(read_meter("m").bytes, 7);
	assert_int_equal(read_meter("m").concurrent, 0);
	assert_int_equal(open_run("r"), STORE_GRANTED);
}

/* ---- stopped: there, and silent ---- */

static uint64_t count_scripts(void)
{
	const char *at;
	char text[16384];

	redis_server_ask(&server, WORDS("INFO", "commandstats"), text, sizeof(text));
	at = strstr(text, "cmdstat_evalsha:calls=");
	return at ? strtoull(strchr(at, '=') + 1, NULL, 10) : 0;
}

static void what_is_not_answered_in_time_is_given_back(void **state)
{
	struct ask asks[20];
	uint64_t begin_ms;

	(void)state;
	redis_server_signal(&server, SIGSTOP);
	begin_ms = clock_now_ms();
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		prepare(&asks[i], "m", none, 10, 7);
		ask_store(&asks[i]);
		assert_false(asks[i].is_done);
	}
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		turn_until(&asks[i].is_done, STORE_ANSWER_MS + 1000);
		assert_int_equal(asks[i].reservation.verdict, STORE_UNREACHABLE);
	}
	assert_in_range(clock_now_ms() - begin_ms, STORE_ANSWER_MS, STORE_ANSWER_MS + 500);
	assert_string_equal(store->fault, "Redis did not answer within 2000 ms");
	assert_int_equal(open_run("r"), STORE_UNREACHABLE);
	redis_server_signal(&server, SIGCONT);
	expect_up();
	/* The control: it did read what it was sent before. */
	assert_true(count_scripts() >= 2 * ARRAY_LEN(asks));
	assert_int_equal(read_meter("m").reserved, 0);
	assert_int_equal(read_meter("m").bytes, 0);
	assert_int_equal(read_meter("m").concurrent, 0);
}

/* Whoever has it still uses it: it is not given back with what it was to get. */
static void a_hold_that_was_to_become_larger_stays(void **state)
{
	const struct limits limits = { .bytes = 1000 };
	struct ask ask, more;

	(void)state;
	assert_int_equal(take(&ask, "m", limits, 100, 7), STORE_GRANTED);
	prepare(&more, "m", limits, 0, 0);
	memcpy(more.reservation.id, ask.reservation.id, sizeof(ask.reservation.id));
	more.reservation.more = 50;
	more.reservation.is_more = true;
	redis_server_signal(&server, SIGSTOP);
	ask_store(&more);
	turn_until(&more.is_done, STORE_ANSWER_MS + 1000);
	assert_int_equal(more.reservation.verdict, STORE_UNREACHABLE);
	redis_server_signal(&server, SIGCONT);
	expect_up();
	assert_int_equal(read_meter("m").concurrent, 1);
	assert_int_equal(read_meter("m").reserved, 7);
	assert_in_range(read_meter("m").bytes, 100, 150);
	settle(&ask, 120, true, 5);
	assert_int_equal(read_meter("m").bytes, 120);
	assert_int_equal(read_meter("m").spent, 5);
	assert_int_equal(read_meter("m").concurrent + read_meter("m").reserved, 0);
}

static void a_link_that_nobody_knows_of_is_given_up(void **state)
{
	(void)state;
	redis_server_signal(&server, SIGSTOP);
	assert_int_equal(open_run("r"), STORE_UNREACHABLE);
	redis_server_signal(&server, SIGCONT);
	turn_until(&store->is_reachable, PATIENCE_MS);
	assert_int_equal(open_run("r"), STORE_GRANTED);
}

static void a_link_that_was_not_asked_for_stays(void **state)
{
	(void)state;
	assert_int_equal(open_run("r"), STORE_GRANTED);
	redis_server_signal(&server, SIGSTOP);
	assert_int_equal(begin_run("r"), STORE_UNREACHABLE);
	redis_server_signal(&server, SIGCONT);
	turn_until(&store->is_reachable, PATIENCE_MS);
	assert_int_equal(begin_run("r"), STORE_GRANTED);
	assert_int_equal(open_run("r"), STORE_HAS_LINK);
}

/* As Redis would find it in a connection that was given up, after the next one was greeted. */
static void ask_as(const char *number, char *ret_text, size_t size)
{
	char script[32768];

	snprintf(script, sizeof(script), "%s%s", lua_common, lua_reserve);
	redis_server_ask(&server,
			 WORDS("EVAL", script, "0", store->keeper_id, number, "late", "run", "10",
			       "7", "0", "0", "m", "0", "0", "0", "0", "0"),
			 ret_text, size);
}

static void what_comes_late_changes_nothing(void **state)
{
	char text[200];

	(void)state;
	push_server(WORDS("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
	turn_until(NULL, 50);
	assert_false(store->is_reachable);
	turn_until(&store->is_reachable, PATIENCE_MS);
	ask_as("1", text, sizeof(text));
	assert_memory_equal(text, "STALE", 5);
	assert_int_equal(read_meter("m").reserved, 0);
	ask_as("2", text, sizeof(text)); /* the control: it is only late */
	assert_string_equal(text, "");   /* no error, but a list */
	assert_int_equal(read_meter("m").reserved, 7);
}

/* Redis was away for so long that nobody counts as living; one is quicker to come back. */
static void who_comes_back_first_does_not_bury_the_others(void **state)
{
	const struct limits limits = { .concurrent = 1 };
	struct keeper keeper;
	struct ask ask;

	(void)state;
	store->ops->close(store);
	store = connect_store(ALIVE_MS);
	keeper = start_keeper("r", "m", limits, 1, 0);
	let_it_take(&keeper);
	assert_int_equal(read_count(&keeper), 1);
	redis_server_signal(&server, SIGKILL);
	assert_int_equal(kill(keeper.pid, SIGSTOP), 0);
	turn_until(NULL, 2 * ALIVE_MS);
	redis_server_start(&server, NULL);
	turn_until(&store->is_reachable, PATIENCE_MS);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_NO_PLACE);
	assert_int_equal(open_run("r"), STORE_HAS_LINK);
	assert_int_equal(kill(keeper.pid, SIGCONT), 0);
	turn_until(NULL, 2 * ALIVE_MS);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_NO_PLACE);
	assert_int_equal(open_run("r"), STORE_HAS_LINK);
	/* The control: one that does not come back is not waited for. */
	kill_keeper(&keeper);
	turn_until(NULL, ALIVE_MS + 100);
	assert_int_equal(take(&ask, "m", limits, 0, 0), STORE_GRANTED);
	assert_int_equal(open_run("r"), STORE_GRANTED);
}

/* Somebody has removed keys by hand: what is left of a hold must not stop those who tidy up. */
static void a_hold_that_was_removed_by_hand_is_passed_over(void **state)
{
	char dead[] = "warder:keepers", kept[] = "warder:kept";

	(void)state;
	redis_server_ask_number(&server, WORDS("SADD", dead, "dead"));
	redis_server_ask_number(&server, WORDS("ZADD", "warder:holds:dead", "1", "nowhere"));
	redis_server_ask_number(&server, WORDS("ZADD", kept, "1", "nothing" LOG));
	all_is_read(store);
	assert_int_equal(read_meter("m").bytes, 0);
	store->ops->close(store);
	store = connect_store(0);
	expect_up();
	assert_int_equal(redis_server_ask_number(&server, WORDS("SISMEMBER", dead, "dead")), 0);
	assert_int_equal(redis_server_ask_number(&server, WORDS("EXISTS", "warder:holds:dead")), 0);
	assert_int_equal(redis_server_ask_number(&server, WORDS("EXISTS", kept)), 0);
	assert_int_equal(store->failure_count, 0);
}

/* ---- under load ---- */

/* Written by a client in another process. */
struct load {
	atomic_uint granted, unreachable, should_end;
};

/* Reserves as fast as it can, and settles nothing. */
static void run_client(struct load *load)
{
	struct ask ask;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (loop_init(&loop) < 0)
		_exit(1);
	store = connect_store(0);
	while (!load->should_end) {
		enum store_verdict verdict = take(&ask, "load", none, 0, 1);

		if (verdict == STORE_GRANTED) {
			load->granted++;
		} else {
			load->unreachable++;
			turn_until(NULL, 10);
		}
	}
	turn_until(&store->is_reachable, PATIENCE_MS);
	read_meter("load"); /* what it owed was sent before */
	_exit(0);
}

static void wait_for_more(atomic_uint *count)
{
	unsigned int before = *count;
	uint64_t end_ms = clock_now_ms() + PATIENCE_MS;

	while (*count < before + MANY && clock_now_ms() < end_ms)
		usleep(1000);
	assert_true(*count >= before + MANY);
}

static void kill_it(void)
{
	redis_server_signal(&server, SIGKILL);
}

static void stop_it(void)
{
	redis_server_signal(&server, SIGSTOP);
}

static void shut_it_down(void)
{
	push_server(WORDS("SHUTDOWN", "NOSAVE"));
	assert_int_equal(waitpid(server.pid, NULL, 0), server.pid);
	server.pid = 0;
}

static void what_was_acknowledged_outlives_redis(void **state)
{
	static void (*const ends[])(void) = { kill_it, stop_it, shut_it_down, kill_it };
	struct load *load = mmap(NULL, sizeof(*load), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int status;

	(void)state;
	assert_true(load != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		run_client(load);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		wait_for_more(&load->granted);
		ends[i]();
		wait_for_more(&load->unreachable);
		if (server.pid)
			redis_server_signal(&server, SIGCONT);
		else
			redis_server_start(&server, NULL);
	}
	wait_for_more(&load->granted);
	load->should_end = true;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	turn_until(NULL, 100); /* nobody has turned this loop meanwhile */
	turn_until(&store->is_reachable, PATIENCE_MS);
	print_message("%u granted, %u unreachable\n", load->granted, load->unreachable);
	assert_int_equal(read_meter("load").reserved, load->granted);
	munmap(load, sizeof(*load));
}

/* ---- there, and not able ---- */

static void a_redis_that_answers_errors_is_not_reachable(void **state)
{
	const struct {
		const char *const *breaks, *const *mends;
		const char *why;
	} rows[] = {
		{ WORDS("CONFIG", "SET", "maxmemory", "1"),
		  WORDS("CONFIG", "SET", "maxmemory", "0"), "(OOM)" },
		{ WORDS("REPLICAOF", "127.0.0.1", "1"), WORDS("REPLICAOF", "NO", "ONE"),
		  "(READONLY)" },
		{ WORDS("CONFIG", "SET", "min-replicas-to-write", "1"),
		  WORDS("CONFIG", "SET", "min-replicas-to-write", "0"), "NOREPLICAS" },
	};
	struct ask ask;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(take(&ask, "m", none, 10, 7), STORE_GRANTED);
		tell_server(rows[i].breaks);
		settle(&ask, 1, true, 2); /* which Redis does not take */
		turn_until(NULL, 50);
		expect_down(rows[i].why);
		tell_server(rows[i].mends);
		expect_up();
		assert_int_equal(read_meter("m").spent, 2 * (i + 1));
		assert_int_equal(read_meter("m").reserved, 0);
	}
}

static void wait_for_info(const char *line)
{
	char text[16384];

	for (int i = 0; i < 500; i++) {
		redis_server_ask(&server, WORDS("INFO"), text, sizeof(text));
		if (strstr(text, line))
			return;
		usleep(10000);
	}
	fail_msg("no %s", line);
}

static void a_redis_that_cannot_save_is_not_reachable(void **state)
{
	(void)state;
	tell_server(WORDS("CONFIG", "SET", "save", "3600 1"));
	tell_server(WORDS("CONFIG", "SET", "dbfilename", "appendonlydir")); /* a directory */
	tell_server(WORDS("BGSAVE"));
	wait_for_info("rdb_last_bgsave_status:err");
	expect_down("(MISCONF)");
	tell_server(WORDS("CONFIG", "SET", "dbfilename", "dump.rdb"));
	tell_server(WORDS("BGSAVE"));
	wait_for_info("rdb_last_bgsave_status:ok");
	expect_up();
}

static void a_redis_that_throws_data_away_is_refused(void **state)
{
	(void)state;
	tell_server(WORDS("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"));
	push_server(WORDS("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
	turn_until(NULL, 50);
	expect_up(); /* there is no end to its memory */
	tell_server(WORDS("CONFIG", "SET", "maxmemory", "100mb"));
	push_server(WORDS("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
	turn_until(NULL, 300);
	expect_down("noeviction");
	tell_server(WORDS("CONFIG", "SET", "maxmemory-policy", "noeviction"));
	expect_up();
}

static void a_redis_that_is_still_loading_is_waited_for(void **state)
{
	struct ask ask;

	(void)state;
	for (int i = 0; i < 400; i++)
		assert_int_equal(take(&ask, "m", none, 0, 1), STORE_GRANTED);
	redis_server_signal(&server, SIGKILL);
	/* A millisecond for each command; it looks at its clients after a thousand of them. */
	redis_server_start(&server, WORDS("--key-load-delay", "1000"));
	for (int i = 0; i < 1000 && !strstr(store->fault, "(LOADING)"); i++)
		turn_until(NULL, 5);
	expect_down("(LOADING)");
	expect_up();
	assert_int_equal(read_meter("m").reserved, 400);
}

static void forgotten_scripts_are_loaded_again(void **state)
{
	struct ask asks[CROWD];

	(void)state;
	for (int round = 0; round < 3; round++) {
		tell_server(WORDS("SCRIPT", "FLUSH"));
		for (size_t i = 0; i < CROWD; i++) {
			prepare(&asks[i], "m", none, 0, 1);
			ask_store(&asks[i]);
		}
		for (size_t i = 0; i < CROWD; i++) {
			turn_until(&asks[i].is_done, PATIENCE_MS);
			assert_int_equal(asks[i].reservation.verdict, STORE_GRANTED);
		}
		tell_server(WORDS("SCRIPT", "FLUSH"));
		for (size_t i = 0; i < CROWD; i++)
			settle(&asks[i], 0, true, 1);
		assert_int_equal(read_meter("m").spent, CROWD * (uint64_t)(round + 1));
		assert_int_equal(read_meter("m").reserved, 0);
	}
	assert_int_equal(store->failure_count, 0);
}

/* ---- passwords, users, addresses ---- */

/* The front of a URL; the rest is the server's. Connected, or why not. */
static void expect_url(const char *front, const char *why)
{
	char url[256];

	if (strncmp(front, "redis://", 8) == 0)
		snprintf(url, sizeof(url), "%s:%u/3", front, server.port);
	else
		snprintf(url, sizeof(url), "%s%s", front, server.path);
	store->ops->close(store);
	store = store_redis_new(&loop, url, NULL);
	assert_non_null(store);
	if (!why) {
		expect_up();
		return;
	}
	turn_until(NULL, 300);
	expect_down(why);
}

static void only_the_right_password_is_taken(void **state)
{
	(void)state;
	redis_server_signal(&server, SIGKILL);
	redis_server_start(&server, WORDS("--requirepass", PASSWORD, "--user", "me", "on",
					  ">my-" PASSWORD, "~warder:*", "+@all", "-@dangerous",
					  "--user", "other", "on", ">other", "allkeys", "+get"));
	expect_url("unix://:hunter2-%25s-hunter2@", NULL);
	expect_url("unix://me:my-hunter2-%25s-hunter2@", NULL);
	expect_url("unix://", "(NOAUTH)");
	expect_url("unix://:hunter2@", "(WRONGPASS)");
	expect_url("unix://me:hunter2@", "(WRONGPASS)");
	expect_url("unix://other:other@", "(NOPERM)");
	expect_url("unix://me:my-hunter2-%25s-hunter2@", NULL);
}

/* Where AUTH has another name Redis repeats what it was sent. */
static void a_password_that_redis_repeats_is_not_told(void **state)
{
	char text[200];

	(void)state;
	redis_server_signal(&server, SIGKILL);
	redis_server_start(&server, WORDS("--rename-command", "AUTH", ""));
	redis_server_ask(&server, WORDS("AUTH", "hunter2"), text, sizeof(text));
	assert_non_null(strstr(text, "hunter2")); /* the control */
	expect_url("unix://:hunter2@", "user and password");
}

static uint16_t find_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	close(fd);
	return ntohs(address.sin_port);
}

static void a_host_and_a_database_are_found(void **state)
{
	struct ask ask;

	(void)state;
	redis_server_signal(&server, SIGKILL);
	server.port = find_port();
	redis_server_start(&server, NULL);
	expect_url("redis://127.0.0.1", NULL);
	assert_int_equal(take(&ask, "m", none, 0, 1), STORE_GRANTED);
	expect_url("redis://localhost", NULL);
	assert_int_equal(read_meter("m").reserved, 1);
	expect_url("unix://", NULL); /* another database */
	assert_int_equal(read_meter("m").reserved, 0);
	redis_server_signal(&server, SIGKILL);
	store->ops->close(store);
	store = store_redis_new(&loop, "redis://localhost:1", NULL);
	turn_until(NULL, 300);
	expect_down("localhost");
}

/* ---- the end ---- */

static void what_is_open_is_answered_at_the_end(void **state)
{
	struct ask ask;

	(void)state;
	redis_server_signal(&server, SIGSTOP);
	prepare(&ask, "m", none, 0, 1);
	ask_store(&ask);
	settle(&ask, 0, true, 0);
	assert_false(ask.is_done);
	store->ops->close(store);
	store = NULL;
	assert_true(ask.is_done);
	assert_int_equal(ask.reservation.verdict, STORE_UNREACHABLE);
}

static void on_last(struct store_reservation *reservation, uint64_t now_ms)
{
	struct store *last = store;

	(void)now_ms;
	OWNER_OF(reservation, struct ask, reservation)->is_done = true;
	if (last) {
		store = NULL;
		last->ops->close(last);
	}
}

static void an_answer_may_be_the_end(void **state)
{
	struct ask asks[3];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		prepare(&asks[i], "m", none, 0, 1);
		asks[i].reservation.on_done = on_last;
		ask_store(&asks[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(asks); i++)
		turn_until(&asks[i].is_done, PATIENCE_MS);
	assert_null(store);
}

/* One that closes its store has left: its runs are free before STORE_ALIVE_MS are over. */
static void who_leaves_is_gone_at_once(void **state)
{
	(void)state;
	assert_int_equal(open_run("r"), STORE_GRANTED);
	store->ops->close(store);
	store = connect_store(0);
	assert_int_equal(open_run("r"), STORE_GRANTED);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(
		FRESH(without_redis_the_answer_comes_at_once),
		FRESH(what_is_settled_meanwhile_waits),
		FRESH(what_is_not_answered_in_time_is_given_back),
		FRESH(a_link_that_nobody_knows_of_is_given_up),
		FRESH(a_link_that_was_not_asked_for_stays),
		FRESH(a_hold_that_was_to_become_larger_stays),
		FRESH(what_comes_late_changes_nothing),
		FRESH(who_comes_back_first_does_not_bury_the_others),
		FRESH(a_hold_that_was_removed_by_hand_is_passed_over),
		FRESH(what_was_acknowledged_outlives_redis),
		FRESH(a_redis_that_answers_errors_is_not_reachable),
		FRESH(a_redis_that_cannot_save_is_not_reachable),
		FRESH(a_redis_that_throws_data_away_is_refused),
		FRESH(a_redis_that_is_still_loading_is_waited_for),
		FRESH(forgotten_scripts_are_loaded_again), FRESH(only_the_right_password_is_taken),
		FRESH(a_password_that_redis_repeats_is_not_told),
		FRESH(a_host_and_a_database_are_found), FRESH(what_is_open_is_answered_at_the_end),
		FRESH(an_answer_may_be_the_end), FRESH(who_leaves_is_gone_at_once));
}
