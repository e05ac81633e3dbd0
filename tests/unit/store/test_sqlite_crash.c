/* SPDX-License-Identifier: MIT */
/*
 * Killed at any moment: what was granted or settled is there afterwards, and there is no more than
 * that and what was under way.
 */
#include "store/desk.h"
#include "store/logs.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define KILLS       100
#define UNDER_WAY   4      /* holds that the child has at once */
#define AT_ONCE_MAX 100000 /* bytes or money of one */

static struct loop loop;
static const struct limits limits = { .bytes = INT64_MAX, .spend = 1000 * MONEY_UNIT };

/* What the child tells when a hold is granted, and when its settlement is written. */
struct word {
	bool is_settled;
	uint32_t bytes, spend; /* what was held */
	uint32_t used, cost;   /* and what is going to be used of it */
};

static void tell(int fd, const struct word *word)
{
	if (write(fd, word, sizeof(*word)) != sizeof(*word))
		_exit(3);
}

/* Reserves and settles until it is killed. */
static void work(struct store *store, int fd, unsigned int round)
{
	struct word held[UNDER_WAY] = { 0 };
	char id[STORE_ID_MAX];

	srand(round);
	for (unsigned int i = 0;; i++) {
		struct word *word = &held[i % UNDER_WAY];

		if (i >= UNDER_WAY) {
			snprintf(id, sizeof(id), "hold-%u-%u" LOG, round, i - UNDER_WAY);
			desk_settle(store, id, word->used, word->cost, i % 3 ? id : "");
			desk_flush(store);
			word->is_settled = true;
			tell(fd, word);
		}
		*word = (struct word){ .bytes = (uint32_t)rand() % AT_ONCE_MAX + 1,
				       .spend = (uint32_t)rand() % AT_ONCE_MAX + 1 };
		word->used = (uint32_t)rand() % word->bytes;
		word->cost = (uint32_t)rand() % word->spend;
		snprintf(id, sizeof(id), "hold-%u-%u" LOG, round, i);
		if (desk_reserve(store, id, "run:x", limits, word->bytes, word->spend) !=
		    STORE_GRANTED)
			_exit(4);
		tell(fd, word);
	}
}

/* What may be there at least and at most, by what the child has told. */
struct bounds {
	uint64_t least, most;
};

static unsigned int hear(int fd, struct bounds *bytes, struct bounds *spend)
{
	unsigned int count = 0;
	struct word word;

	for (; read(fd, &word, sizeof(word)) == sizeof(word); count++) {
		if (word.is_settled) {
			bytes->most -= word.bytes - word.used;
			spend->most -= word.spend - word.cost;
			continue;
		}
		/* It is held, or settled without a word of that. */
		bytes->least += word.used;
		spend->least += word.cost;
		bytes->most += word.bytes;
		spend->most += word.spend;
	}
	/* One more may have been granted of which it could not tell. */
	bytes->most += AT_ONCE_MAX;
	spend->most += AT_ONCE_MAX;
	return count;
}

static unsigned int kill_one(unsigned int round, bool has_journal, struct bounds *bytes,
			     struct bounds *spend)
{
	struct timespec wait = { .tv_nsec = 2000000 + rand() % 12000000 };
	unsigned int count;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *store = has_journal ? desk_open(&loop) : store_local_new(&loop, NULL);

		close(fds[0]);
		if (store)
			work(store, fds[1], round);
		_exit(2);
	}
	close(fds[1]);
	nanosleep(&wait, NULL);
	kill(pid, SIGKILL);
	count = hear(fds[0], bytes, spend);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return count;
}

static struct store_meter read_after(void)
{
	struct store *store = desk_open(&loop);
	struct store_meter meter;

	assert_non_null(store);
	meter = desk_read(store, "run:x");
	store->ops->close(store);
	return meter;
}

static bool is_within(uint64_t number, struct bounds bounds)
{
	return number >= bounds.least && number <= bounds.most;
}

static void nothing_that_was_granted_or_settled_is_lost(void **state)
{
	struct store_meter meter = { 0 };
	unsigned int told = 0;

	(void)state;
	srand((unsigned int)getpid());
	for (unsigned int round = 1; round <= KILLS; round++) {
		uint64_t money = meter.spent + meter.reserved;
		struct bounds bytes = { meter.bytes, meter.bytes }, spend = { money, money };

		told += kill_one(round, true, &bytes, &spend);
		meter = read_after();
		assert_int_equal(meter.concurrent, 0); /* places die with who had them */
		assert_true(is_within(meter.bytes, bytes));
		assert_true(is_within(meter.spent + meter.reserved, spend));
	}
	print_message("%u answers before %u kills\n", told, KILLS);
	assert_true(told > KILLS); /* it was killed at work */
}

/* The control: what is only in memory is lost, and that is seen. */
static void without_a_journal_it_is_lost(void **state)
{
	struct store_meter before = read_after(), after;
	uint64_t money = before.spent + before.reserved;
	struct bounds bytes = { before.bytes, before.bytes }, spend = { money, money };

	(void)state;
	while (kill_one(0, false, &bytes, &spend) == 0)
		;
	after = read_after();
	assert_false(is_within(after.bytes, bytes));
	assert_false(is_within(after.spent + after.reserved, spend));
}

static void what_was_left_is_released(void **state)
{
	struct store_meter before = read_after(), after;
	struct store *store = desk_open(&loop);

	(void)state;
	assert_non_null(store);
	assert_true(before.reserved > 0);
	all_is_read(store);
	store->ops->close(store);
	after = read_after();
	assert_int_equal(after.spent, before.spent);
	assert_int_equal(after.reserved, 0);
}

static int set_up(void **state)
{
	return desk_make_dir(state) < 0 ? -1 : loop_init(&loop);
}

static int tear_down(void **state)
{
	loop_fini(&loop);
	return desk_remove_dir(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_that_was_granted_or_settled_is_lost),
		TEST(without_a_journal_it_is_lost),
		TEST(what_was_left_is_released),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
