/* SPDX-License-Identifier: MIT */
/* Asking one store, and waiting for what it answers. */
#include "store/redis_ask.h"

#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/logs.h"
#include "store/redis.h"

struct redis_server server;
struct loop loop;
struct store *store;
static unsigned int serial;

void turn_until(const bool *is_done, uint64_t wait_ms)
{
	uint64_t end_ms = clock_now_ms() + wait_ms;

	while (!(is_done && *is_done) && clock_now_ms() < end_ms)
		assert_int_equal(loop_turn(&loop, 10), 0);
	if (is_done)
		assert_true(*is_done);
}

struct store *connect_store(uint64_t alive_ms)
{
	struct store *made = store_redis_new(&loop, server.url, NULL);

	assert_non_null(made);
	if (alive_ms)
		store_redis_set_alive(made, alive_ms);
	turn_until(&made->is_reachable, PATIENCE_MS);
	return made;
}

static void on_reserved(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(reservation, struct ask, reservation)->is_done = true;
}

void prepare(struct ask *ask, const char *meter, struct limits limits, uint64_t bytes,
	     uint64_t spend)
{
	*ask = (struct ask){ .reservation = { .run_id = "run",
					      .account = "",
					      .claims = { { meter, limits } },
					      .claim_count = 1,
					      .is_of_money = true,
					      .bytes = bytes,
					      .spend = spend,
					      .on_done = on_reserved } };
	snprintf(ask->reservation.id, sizeof(ask->reservation.id), "hold-%d-%u" LOG, getpid(),
		 ++serial);
}

void ask_store(struct ask *ask)
{
	store->ops->reserve(store, &ask->reservation, clock_now_ms());
	store->ops->flush(store, clock_now_ms());
}

enum store_verdict take(struct ask *ask, const char *meter, struct limits limits, uint64_t bytes,
			uint64_t spend)
{
	prepare(ask, meter, limits, bytes, spend);
	ask_store(ask);
	turn_until(&ask->is_done, PATIENCE_MS);
	return ask->reservation.verdict;
}

void settle(const struct ask *ask, uint64_t bytes, bool is_cost_known, uint64_t cost)
{
	struct store_settlement settlement = {
		.id = ask->reservation.id,
		.bytes = bytes,
		.is_cost_known = is_cost_known,
		.cost = cost,
		.call_id = "",
	};

	store->ops->settle(store, &settlement, clock_now_ms());
	store->ops->flush(store, clock_now_ms());
}

struct reading {
	struct store_meter meter;
	bool is_done;
};

static void on_read(struct store_meter *meter, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(meter, struct reading, meter)->is_done = true;
}

struct store_meter read_meter(const char *name)
{
	struct reading reading = { .meter = { .meter = name, .on_done = on_read } };

	store->ops->read_meter(store, &reading.meter, clock_now_ms());
	store->ops->flush(store, clock_now_ms());
	turn_until(&reading.is_done, PATIENCE_MS);
	assert_int_equal(reading.meter.verdict, STORE_GRANTED);
	return reading.meter;
}

struct opening {
	struct store_run run;
	bool is_done;
};

static void on_opened(struct store_run *run, uint64_t now_ms)
{
	(void)now_ms;
	OWNER_OF(run, struct opening, run)->is_done = true;
}

static enum store_verdict ask_for_run(const char *run_id, bool has_no_link)
{
	struct opening opening = { .run = { .run_id = run_id,
					    .account = "",
					    .has_no_link = has_no_link,
					    .on_done = on_opened } };

	store->ops->open_run(store, &opening.run, clock_now_ms());
	store->ops->flush(store, clock_now_ms());
	turn_until(&opening.is_done, PATIENCE_MS);
	return opening.run.verdict;
}

enum store_verdict open_run(const char *run_id)
{
	return ask_for_run(run_id, false);
}

enum store_verdict begin_run(const char *run_id)
{
	return ask_for_run(run_id, true);
}

/* ---- keepers in processes of their own ---- */

static void run_keeper(int fd, const char *run_id, const char *meter, struct limits limits,
		       unsigned int asked, uint64_t spend)
{
	unsigned char granted = 0;
	struct ask ask;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (loop_init(&loop) < 0)
		_exit(1);
	store = connect_store(ALIVE_MS);
	if (open_run(run_id) != STORE_GRANTED || write(fd, "r", 1) != 1 ||
	    read(fd, &granted, 1) != 1)
		_exit(1);
	granted = 0;
	for (unsigned int i = 0; i < asked; i++)
		if (take(&ask, meter, limits, 10, spend) == STORE_GRANTED)
			granted++;
	if (write(fd, &granted, 1) != 1)
		_exit(1);
	turn_until(NULL, 60000);
	_exit(0);
}

unsigned int read_count(const struct keeper *keeper)
{
	unsigned char count = 0;

	assert_int_equal(read(keeper->fd, &count, 1), 1);
	return count;
}

struct keeper start_keeper(const char *run_id, const char *meter, struct limits limits,
			   unsigned int asked, uint64_t spend)
{
	struct keeper keeper;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	keeper.fd = fds[0];
	keeper.pid = fork();
	assert_true(keeper.pid >= 0);
	if (keeper.pid == 0)
		run_keeper(fds[1], run_id, meter, limits, asked, spend);
	close(fds[1]);
	assert_int_equal(read_count(&keeper), 'r');
	return keeper;
}

void let_it_take(const struct keeper *keeper)
{
	assert_int_equal(write(keeper->fd, "g", 1), 1);
}

void kill_keeper(const struct keeper *keeper)
{
	assert_int_equal(kill(keeper->pid, SIGKILL), 0);
	assert_int_equal(waitpid(keeper->pid, NULL, 0), keeper->pid);
	close(keeper->fd);
}
