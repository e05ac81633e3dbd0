/* SPDX-License-Identifier: MIT */
/* For the tests of the store in Redis: one server, one loop, and one store that is asked. */
#ifndef STORE_REDIS_ASK_H
#define STORE_REDIS_ASK_H

#include <stdbool.h>

#include "store/redis_server.h"
#include "store/store.h"

#define PATIENCE_MS 10000
#define ALIVE_MS    1500 /* of keepers in a hurry */

extern struct redis_server server;
extern struct loop loop;
extern struct store *store;

/* Turns the loop until it is done, which it has to be in time; or, with NULL, for that time. */
void turn_until(const bool *is_done, uint64_t wait_ms);

/* A new store that is connected to the server. 0: the time of a real keeper. */
struct store *connect_store(uint64_t alive_ms);

struct ask {
	struct store_reservation reservation;
	bool is_done;
};

/* For run "run", with one claim. */
void prepare(struct ask *ask, const char *meter, struct limits limits, uint64_t bytes,
	     uint64_t spend);
void ask_store(struct ask *ask); /* without waiting */
enum store_verdict take(struct ask *ask, const char *meter, struct limits limits, uint64_t bytes,
			uint64_t spend);
void settle(const struct ask *ask, uint64_t bytes, bool is_cost_known, uint64_t cost);
struct store_meter read_meter(const char *name);
enum store_verdict open_run(const char *run_id);
enum store_verdict begin_run(const char *run_id); /* which comes by tokens */

/*
 * A keeper in a process of its own: it opens a run, takes when it is told to, tells how often it
 * was granted, and then only lives.
 */
struct keeper {
	pid_t pid;
	int fd;
};

/* Returns when the run is open. */
struct keeper start_keeper(const char *run_id, const char *meter, struct limits limits,
			   unsigned int asked, uint64_t spend);
void let_it_take(const struct keeper *keeper);
unsigned int read_count(const struct keeper *keeper);
void kill_keeper(const struct keeper *keeper);

#endif
