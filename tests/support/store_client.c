/* SPDX-License-Identifier: MIT */
/*
 * A keeper that is nothing but its store, led by lines on its input; each is answered by one line.
 * What it asks for counts for the run "RUN" and the account "shared".
 *
 *   store_client URL RUN [ALIVE_MS [ANSWER_MS]]
 *
 *   answer MS             ANSWER_MS from now on; a connection keeps what it was told of it
 *   wait                  until the store can be reached
 *   down                  until it cannot
 *   fault                 why not
 *   reserve COUNT PLACES LIMIT SPEND [RATE]
 *                         all at once, for the account; what is granted is held
 *   settle COST           all that is held
 *   load                  reserves and settles until another line comes, and says then what must
 *                         have been counted
 *   open RUN | close RUN | revoke RUN
 *   news MS               what the store tells unasked, if it does within that time
 *   read METER
 *   bench COUNT BATCH     how long a reservation and its settlement take
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "event/loop.h"
#include "store/postgres.h"

#define LINE_SIZE   256
#define PATIENCE_MS 60000
#define CROWD       50 /* under way at a time */
#define PRICE       5  /* reserved, and what it costs then */
#define COST        3

struct request {
	struct store_reservation reservation;
	char meters[2][96];
	bool is_free;
};

struct load {
	uint64_t granted, unreachable, spent, held, open, outages;
};

static struct loop loop;
static struct store *store;
static const char *run_id;
static char line[LINE_SIZE];
static size_t line_len;
static bool has_line, has_ended;
static char (*held)[STORE_ID_MAX];
static size_t held_count, held_size;
static size_t done, counts[STORE_UNREACHABLE + 1];
static char news[LINE_SIZE];
static struct load load;
static uint64_t alive_ms = STORE_ALIVE_MS;

/* ---- turning ---- */

static void turn(int wait_ms)
{
	store->ops->flush(store, clock_now_ms());
	if (loop_turn(&loop, wait_ms) < 0)
		abort();
}

static bool turn_until(const size_t *count, size_t wanted)
{
	uint64_t end = clock_now_ms() + PATIENCE_MS;

	while (*count < wanted && clock_now_ms() < end)
		turn(50);
	return *count >= wanted;
}

static void on_input(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	char c;

	(void)ready;
	(void)now_ms;
	while (!has_line && !has_ended) {
		if (read(source->fd, &c, 1) != 1)
			has_ended = true;
		else if (c == '\n')
			has_line = true;
		else if (line_len < sizeof(line) - 1)
			line[line_len++] = c;
		line[line_len] = '\0';
	}
}

static void on_news(struct store *from, enum store_news kind, const char *about, uint64_t now_ms)
{
	(void)from;
	(void)now_ms;
	snprintf(news, sizeof(news), "%s %s", kind == STORE_NEWS_REVOKED ? "revoked" : "no-money",
		 about);
}

/* ---- asking ---- */

static void prepare(struct request *request, struct limits limits, uint64_t spend,
		    void (*on_done)(struct store_reservation *, uint64_t))
{
	static unsigned int serial;

	*request = (struct request){ .reservation = { .run_id = run_id,
						      .account = "shared",
						      .attempt = 1,
						      .claim_count = 2,
						      .is_of_money = true,
						      .spend = spend,
						      .on_done = on_done } };
	snprintf(request->reservation.id, STORE_ID_MAX, "%.40s-%u", store->keeper_id, ++serial);
	snprintf(request->meters[0], sizeof(request->meters[0]), "run:%.64s", run_id);
	snprintf(request->meters[1], sizeof(request->meters[1]), "account:shared");
	request->reservation.claims[0].meter = request->meters[0];
	request->reservation.claims[1] = (struct store_claim){ request->meters[1], limits };
}

static void settle(const char *id, uint64_t cost)
{
	store->ops->settle(
		store,
		&(struct store_settlement){
			.id = id, .bytes = 10, .is_cost_known = true, .cost = cost, .call_id = "" },
		clock_now_ms());
}

static void hold(const char *id)
{
	if (held_count == held_size) {
		held_size = held_size ? held_size * 2 : 64;
		held = realloc(held, held_size * sizeof(*held));
		if (!held)
			abort();
	}
	memcpy(held[held_count++], id, STORE_ID_MAX);
}

static void on_reserved(struct store_reservation *reservation, uint64_t now_ms)
{
	(void)now_ms;
	counts[reservation->verdict]++;
	if (reservation->verdict == STORE_GRANTED)
		hold(reservation->id);
	done++;
}

static void do_reserve(const char *arguments)
{
	unsigned int count = 0;
	struct limits limits = { 0 };
	uint64_t spend = 0;
	struct request *requests;

	if (sscanf(arguments, "%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &count,
		   &limits.concurrent, &limits.spend, &spend, &limits.rate) < 4)
		abort();
	requests = calloc(count, sizeof(*requests));
	if (!requests)
		abort();
	done = 0;
	memset(counts, 0, sizeof(counts));
	for (unsigned int i = 0; i < count; i++) {
		prepare(&requests[i], limits, spend, on_reserved);
		store->ops->reserve(store, &requests[i].reservation, clock_now_ms());
	}
	turn_until(&done, count);
	printf("done=%zu granted=%zu no_rate=%zu no_place=%zu no_money=%zu revoked=%zu "
	       "unreachable=%zu\n",
	       done, counts[STORE_GRANTED], counts[STORE_NO_RATE], counts[STORE_NO_PLACE],
	       counts[STORE_NO_MONEY], counts[STORE_IS_REVOKED], counts[STORE_UNREACHABLE]);
	if (done == count)
		free(requests);
}

static void do_settle(const char *arguments)
{
	uint64_t cost = strtoull(arguments, NULL, 10);

	for (size_t i = 0; i < held_count; i++)
		settle(held[i], cost);
	printf("settled=%zu\n", held_count);
	held_count = 0;
}

static void on_read(struct store_meter *meter, uint64_t now_ms)
{
	(void)meter;
	(void)now_ms;
	done++;
}

static struct store_meter read_meter(const char *name)
{
	struct store_meter meter = { .meter = name, .on_done = on_read };

	done = 0;
	store->ops->read_meter(store, &meter, clock_now_ms());
	if (!turn_until(&done, 1))
		abort();
	return meter;
}

static void do_read(const char *arguments)
{
	struct store_meter meter = read_meter(arguments);

	printf("verdict=%d bytes=%" PRIu64 " spent=%" PRIu64 " reserved=%" PRIu64
	       " concurrent=%" PRIu64 "\n",
	       meter.verdict, meter.bytes, meter.spent, meter.reserved, meter.concurrent);
}

/* ---- load ---- */

/* One in ten is held to the end. */
static void on_loaded(struct store_reservation *reservation, uint64_t now_ms)
{
	struct request *request = OWNER_OF(reservation, struct request, reservation);

	(void)now_ms;
	load.open--;
	request->is_free = true;
	if (reservation->verdict != STORE_GRANTED) {
		load.unreachable++;
	} else if (load.granted++ % 10 == 0) {
		load.held += PRICE;
		hold(reservation->id);
	} else {
		load.spent += COST;
		settle(reservation->id, COST);
	}
}

static void ask_more(struct request *requests)
{
	for (size_t i = 0; i < CROWD && store->is_reachable; i++)
		if (requests[i].is_free) {
			prepare(&requests[i], (struct limits){ 0 }, PRICE, on_loaded);
			load.open++;
			store->ops->reserve(store, &requests[i].reservation, clock_now_ms());
		}
}

static void do_load(const char *arguments)
{
	static struct request requests[CROWD];
	bool was_reachable = true;
	struct store_meter meter;
	uint64_t end;

	(void)arguments;
	load = (struct load){ 0 };
	for (size_t i = 0; i < CROWD; i++)
		requests[i].is_free = true;
	while (!has_line || load.open > 0) {
		if (!has_line)
			ask_more(requests);
		turn(5);
		load.outages += was_reachable && !store->is_reachable;
		was_reachable = store->is_reachable;
	}
	line_len = 0;
	has_line = false;
	/* What waited to be settled is, by and by. */
	end = clock_now_ms() + PATIENCE_MS;
	do {
		meter = read_meter(requests[0].meters[0]);
	} while ((meter.verdict != STORE_GRANTED || meter.reserved != load.held) &&
		 clock_now_ms() < end);
	printf("granted=%" PRIu64 " unreachable=%" PRIu64 " spent=%" PRIu64 " held=%" PRIu64
	       " outages=%" PRIu64 "\n",
	       load.granted, load.unreachable, load.spent, load.held, load.outages);
}

/* ---- runs ---- */

static void on_opened(struct store_run *run, uint64_t now_ms)
{
	(void)run;
	(void)now_ms;
	done++;
}

static void ask_for_run(const char *arguments, bool has_no_link)
{
	struct store_run run = { .run_id = arguments,
				 .account = "shared",
				 .attempt = 1,
				 .has_no_link = has_no_link,
				 .on_done = on_opened };

	done = 0;
	store->ops->open_run(store, &run, clock_now_ms());
	if (!turn_until(&done, 1))
		abort();
	printf("verdict=%d\n", run.verdict);
}

static void do_open(const char *arguments)
{
	ask_for_run(arguments, false);
}

static void do_begin(const char *arguments)
{
	ask_for_run(arguments, true);
}

static void do_close(const char *arguments)
{
	store->ops->close_run(store, arguments, clock_now_ms());
	printf("closed\n");
}

static void on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	(void)revocation;
	(void)now_ms;
	done++;
}

static void do_revoke(const char *arguments)
{
	struct store_revocation revocation = { .run_id = arguments, .on_done = on_revoked };

	done = 0;
	store->ops->revoke(store, &revocation, clock_now_ms());
	if (!turn_until(&done, 1))
		abort();
	printf("verdict=%d\n", revocation.verdict);
}

static void do_news(const char *arguments)
{
	uint64_t begin = clock_now_ms(), most = strtoull(arguments, NULL, 10);

	while (!news[0] && clock_now_ms() < begin + most)
		turn(20);
	printf("%s\n", news[0] ? news : "none");
	news[0] = '\0';
}

/* ---- the connection ---- */

static void wait_until(bool is_reachable)
{
	uint64_t begin = clock_now_ms();

	while (store->is_reachable != is_reachable && clock_now_ms() < begin + PATIENCE_MS)
		turn(20);
	printf("reachable=%d after_ms=%" PRIu64 "\n", store->is_reachable, clock_now_ms() - begin);
}

static void do_answer(const char *arguments)
{
	store_postgres_set_times(store, strtoull(arguments, NULL, 10), alive_ms);
	printf("answer\n");
}

static void do_wait(const char *arguments)
{
	(void)arguments;
	wait_until(true);
}

static void do_down(const char *arguments)
{
	(void)arguments;
	wait_until(false);
}

static void do_fault(const char *arguments)
{
	(void)arguments;
	printf("%s\n", store->fault);
}

/* ---- bench ---- */

static void do_bench(const char *arguments)
{
	unsigned int count = 0, batch = 0;
	const struct limits limits = { .rate = 1000000 * LIMITS_PER_SECOND,
				       .concurrent = 1000000,
				       .bytes = UINT64_C(1) << 60,
				       .spend = UINT64_C(1) << 59 };
	struct request *requests;
	uint64_t begin;

	if (sscanf(arguments, "%u %u", &count, &batch) != 2)
		abort();
	requests = calloc(batch, sizeof(*requests));
	if (!requests)
		abort();
	begin = clock_now_ms();
	for (unsigned int i = 0; i < count; i += batch) {
		done = 0;
		held_count = 0;
		for (unsigned int j = 0; j < batch; j++) {
			prepare(&requests[j], limits, 1, on_reserved);
			store->ops->reserve(store, &requests[j].reservation, clock_now_ms());
		}
		if (!turn_until(&done, batch))
			abort();
		for (size_t j = 0; j < held_count; j++)
			settle(held[j], 1);
		read_meter("account:shared"); /* answered after what was settled before */
	}
	printf("us_each=%" PRIu64 " batch=%u\n", (clock_now_ms() - begin) * 1000 / count, batch);
	free(requests);
}

static const struct {
	const char *name;
	void (*run)(const char *arguments);
} commands[] = {
	{ "wait", do_wait },       { "down", do_down },     { "fault", do_fault },
	{ "reserve", do_reserve }, { "settle", do_settle }, { "load", do_load },
	{ "open", do_open },       { "close", do_close },   { "revoke", do_revoke },
	{ "news", do_news },       { "read", do_read },     { "bench", do_bench },
	{ "answer", do_answer },   { "begin", do_begin },
};

static void obey(void)
{
	char command[LINE_SIZE], *arguments = command;

	memcpy(command, line, sizeof(command));
	line_len = 0;
	has_line = false;
	strsep(&arguments, " ");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, command) == 0)
			commands[i].run(arguments ? arguments : "");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct loop_source input = { .fd = -1, .on_ready = on_input };
	struct err err = { 0 };

	if (argc < 3 || loop_init(&loop) < 0 || loop_add(&loop, &input, 0, LOOP_READ) < 0)
		return 2;
	run_id = argv[2];
	store = store_postgres_new(&loop, argv[1], &err);
	if (!store) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	store->on_news = on_news;
	if (argc > 3)
		alive_ms = strtoull(argv[3], NULL, 10);
	store_postgres_set_times(store, argc > 4 ? strtoull(argv[4], NULL, 10) : STORE_ANSWER_MS,
				 alive_ms);
	while (!has_ended) {
		turn(-1);
		if (has_line)
			obey();
	}
	store->ops->close(store);
	loop_fini(&loop);
	free(held);
	return 0;
}
