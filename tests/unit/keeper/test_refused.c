/* SPDX-License-Identifier: MIT */
/* Links that are refused: on record first, then told, and never more than a log can take. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"

#define MANY 300

static struct keeper keeper;
static struct keeper_config config;
static struct charter *charter;
static char path[64], text[1 << 18];

static struct loop_timer first, last;
static void (*happen)(void);
static int told, told_before_record;
static struct refused_caller callers[MANY];

static void on_first(struct loop_timer *timer, uint64_t now_ms)
{
	(void)timer;
	(void)now_ms;
	happen();
	loop_set_timer(&keeper.loop, &last, 0); /* in the next turn */
}

static void on_last(struct loop_timer *timer, uint64_t now_ms)
{
	(void)timer;
	(void)now_ms;
	loop_end(&keeper.loop);
}

static int set_up(void **state)
{
	struct err err;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/warder-refused-XXXXXX");
	fd = mkstemp(path);
	close(fd);
	keeper = (struct keeper){ .peers = NULL };
	told = told_before_record = 0;
	memset(callers, 0, sizeof(callers));
	keeper_config_init(&config);
	if (fd < 0 || charter_new(&config, &charter, &err) < 0 ||
	    keeper_open(&keeper, charter, &err) < 0 || keeper_open_audit(&keeper, path, &err) < 0)
		return -1;
	first = (struct loop_timer){ .on_due = on_first };
	last = (struct loop_timer){ .on_due = on_last };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	keeper_close(&keeper);
	charter_unref(charter);
	keeper_config_fini(&config);
	return unlink(path);
}

static const char *read_log(void)
{
	FILE *file = fopen(path, "r");
	size_t len = fread(text, 1, sizeof(text) - 1, file);

	fclose(file);
	text[len] = '\0';
	return text;
}

static int count(const char *what)
{
	int found = 0;

	for (const char *at = read_log(); (at = strstr(at, what)); at++)
		found++;
	return found;
}

static void on_told(struct refused_caller *caller, uint64_t now_ms)
{
	(void)caller;
	(void)now_ms;
	told++;
	told_before_record += !strstr(read_log(), "\"method\":\"LINK\"");
}

static void refuse(int i, const char *run_id, enum refusal refusal)
{
	refused_record(&keeper, &(struct refused_link){ .run_id = run_id,
							.from = "192.0.2.1:1",
							.refusal = refusal });
	callers[i].tell = on_told;
	refused_tell_later(&keeper, &callers[i]);
}

static void serve(void (*what)(void))
{
	happen = what;
	loop_set_timer(&keeper.loop, &first, 0);
	assert_int_equal(keeper_serve(&keeper), 0);
}

static void come_one(void)
{
	refuse(0, "r-1", REFUSAL_REVOKED);
	assert_int_equal(told, 0);
}

static void who_is_refused_hears_of_it_when_it_is_written(void **state)
{
	(void)state;
	serve(come_one);
	assert_int_equal(told, 1);
	assert_int_equal(told_before_record, 0);
	assert_int_equal(count("\"event\":\"decision\",\"runId\":\"r-1\""), 1);
	assert_int_equal(count("turned_away"), 0);
}

static void leave_before(void)
{
	refuse(0, "r-1", REFUSAL_REVOKED);
	refuse(1, "r-2", REFUSAL_REVOKED);
	refused_forget(&callers[0]);
	refused_forget(&callers[0]); /* twice does no harm */
}

static void who_leaves_before_is_not_told(void **state)
{
	(void)state;
	serve(leave_before);
	assert_int_equal(told, 1);
	assert_int_equal(count("\"method\":\"LINK\""), 2);
}

static uint64_t flushes(void)
{
	uint64_t found = 0;

	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		found += keeper.metrics.audit_flush_seconds.buckets[i];
	return found;
}

static void come_many(void)
{
	uint64_t before = flushes();

	for (int i = 0; i < MANY - 1; i++)
		refuse(i, NULL, REFUSAL_TOKEN_INVALID);
	refuse(MANY - 1, "r-1", REFUSAL_REVOKED); /* of another reason, and somebody */
	assert_int_equal(flushes(), before);
}

static void many_strangers_are_recorded_by_their_number(void **state)
{
	char number[64];

	(void)state;
	snprintf(number, sizeof(number), "\"reason\":\"token_invalid\",\"count\":%d,",
		 MANY - 1 - REFUSED_STRANGERS_MAX);
	serve(come_many);
	assert_int_equal(told, MANY);
	assert_int_equal(told_before_record, 0);
	assert_int_equal(count("\"reason\":\"token_invalid\""), REFUSED_STRANGERS_MAX + 1);
	assert_int_equal(count(number), 1);
	assert_int_equal(count("\"runId\":\"r-1\""), 1);
	assert_int_equal(keeper.metrics.runs_refused, MANY);
	assert_true(flushes() <= 3); /* of the turn, of the end, and what a timer may have added */
}

static void come_many_runs(void)
{
	char run_id[16];

	for (int i = 0; i < MANY; i++) {
		snprintf(run_id, sizeof(run_id), "r-%d", i);
		refuse(i, run_id, REFUSAL_STORE);
	}
}

static void more_is_recorded_of_those_who_are_somebody(void **state)
{
	(void)state;
	serve(come_many_runs);
	assert_int_equal(count("\"method\":\"LINK\""), REFUSED_RUNS_MAX);
	assert_int_equal(count("\"event\":\"turned_away\",\"reason\":\"store_unreachable\","), 1);
}

/* ---- seconds ---- */

static int turns;

static void on_next_second(struct loop_timer *timer, uint64_t now_ms)
{
	if (turns++ == 0) {
		for (int i = 0; i < REFUSED_STRANGERS_MAX + 5; i++)
			refuse(i, NULL, REFUSAL_TOKEN_INVALID);
		loop_set_timer(&keeper.loop, timer, now_ms + 1100);
	} else if (turns == 2) {
		/* The one before is over: its number is on its way, and this one begins anew. */
		assert_false(keeper.refused.second.place);
		refuse(0, NULL, REFUSAL_TOKEN_INVALID);
		loop_set_timer(&keeper.loop, timer, now_ms + 100);
	} else {
		loop_end(&keeper.loop);
	}
}

static void every_second_counts_for_itself(void **state)
{
	(void)state;
	turns = 0;
	first.on_due = on_next_second;
	loop_set_timer(&keeper.loop, &first, 0);
	assert_int_equal(keeper_serve(&keeper), 0);
	assert_int_equal(count("\"method\":\"LINK\""), REFUSED_STRANGERS_MAX + 1);
	assert_int_equal(count("\"reason\":\"token_invalid\",\"count\":5,"), 1);
}

#define REFUSED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(REFUSED_TEST(who_is_refused_hears_of_it_when_it_is_written),
		  REFUSED_TEST(who_leaves_before_is_not_told),
		  REFUSED_TEST(many_strangers_are_recorded_by_their_number),
		  REFUSED_TEST(more_is_recorded_of_those_who_are_somebody),
		  REFUSED_TEST(every_second_counts_for_itself));
}
