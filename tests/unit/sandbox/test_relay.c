/* SPDX-License-Identifier: MIT */
/* Relays: every byte in order, within the budget, cut between characters (INV-BOUNDED). */
#include "unit.h"

#include "sandbox/relay.h"

static void feed(struct relay *relay, const char *bytes, size_t len)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], bytes, len), len);
	close(fds[1]);
	relay->from = fds[0];
	relay->owns_from = true;
	while (relay->from >= 0)
		relay_move(relay);
}

static void a_budget_is_shared_and_cut_between_characters(void **state)
{
	static const char text[] = "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"; /* 9 bytes */

	(void)state;
	for (uint64_t limit = 0; limit <= 20; limit++) {
		struct budget budget = { .is_limited = true, .left = limit };
		struct buf out, err;
		struct relay first = { .to = -1, .into = &out, .budget = &budget };
		struct relay second = { .to = -1, .into = &err, .budget = &budget };

		buf_init(&out, 100);
		buf_init(&err, 100);
		feed(&first, text, 9);
		feed(&second, text, 9);
		assert_true(out.len + err.len <= limit);
		assert_int_equal(out.len % 3, 0);
		assert_int_equal(err.len % 3, 0);
		assert_int_equal(budget.is_exceeded, limit < 18);
		if (limit >= 9 && limit < 18)
			assert_int_equal(out.len, 9);
		buf_fini(&out);
		buf_fini(&err);
	}
}

static void bytes_pass_in_order(void **state)
{
	char sent[10000], got[10000];
	size_t len = 0;
	int fds[2];
	struct relay relay = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 7);
	assert_int_equal(pipe(fds), 0);
	relay.to = fds[1];
	relay.closes_to = true;
	feed(&relay, sent, sizeof(sent));
	assert_int_equal(relay.to, -1);
	while (len < sizeof(got)) {
		ssize_t n = read(fds[0], got + len, sizeof(got) - len);

		assert_true(n > 0);
		len += (size_t)n;
	}
	assert_memory_equal(sent, got, sizeof(sent));
	close(fds[0]);
}

static void a_terminal_gets_its_end_of_file(void **state)
{
	static const struct {
		const char *typed, *expected;
	} rows[] = {
		{ "hi\n", "hi\n\4" },
		{ "hi", "hi\4\4" }, /* the first one only ends the line */
		{ "", "\4" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct relay relay = { .sends_eof = true };
		char got[8] = { 0 };
		int fds[2];

		assert_int_equal(pipe(fds), 0);
		relay.to = fds[1];
		feed(&relay, rows[i].typed, strlen(rows[i].typed));
		assert_true(read(fds[0], got, sizeof(got) - 1) > 0);
		assert_string_equal(got, rows[i].expected);
		close(fds[0]);
		close(fds[1]);
	}
}

static int open_file(const char *text)
{
	char path[] = "/tmp/warder-relay-XXXXXX";
	int file = mkstemp(path);

	assert_true(file >= 0);
	unlink(path);
	assert_int_equal(write(file, text, strlen(text)), strlen(text));
	lseek(file, 0, SEEK_SET);
	return file;
}

/* What the agent did not read, the caller can: also after the relay has seen the end. */
static void a_file_gets_its_position_back(void **state)
{
	char got[4];
	struct relay relay = { .closes_to = true };
	int file = open_file("0123456789"), fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	relay.from = file;
	relay.to = fds[1];
	relay_keep_position(&relay, fds[0]);
	while (relay.from >= 0)
		relay_move(&relay);
	assert_int_equal(read(fds[0], got, 4), 4);
	relay_give_back(&relay);
	assert_int_equal(lseek(file, 0, SEEK_CUR), 4);
	close(fds[0]);
	close(file);
}

/* Bytes that the agent writes into its own standard input do not move the file. */
static void a_position_never_goes_back_beyond_its_start(void **state)
{
	struct relay relay = { .closes_to = true };
	int file = open_file("0123456789"), fds[2];

	(void)state;
	lseek(file, 6, SEEK_SET);
	assert_int_equal(pipe(fds), 0);
	relay.from = file;
	relay.to = fds[1];
	relay_keep_position(&relay, fds[0]);
	relay_move(&relay);
	relay_move(&relay);
	assert_int_equal(write(fds[1], "forged", 6), 6);
	relay_give_back(&relay);
	relay_end(&relay);
	assert_int_equal(lseek(file, 0, SEEK_CUR), 6);
	close(fds[0]);
	close(file);
}

/* What is in the pipe when the run ends is the last of it, whoever holds the other end. */
static void a_bounded_relay_does_not_wait_for_the_end(void **state)
{
	struct buf out;
	struct relay relay = { .to = -1, .into = &out, .owns_from = true };
	int fds[2];

	(void)state;
	buf_init(&out, 100);
	assert_int_equal(pipe(fds), 0);
	relay.from = fds[0];
	assert_int_equal(write(fds[1], "ours", 4), 4);
	relay_bound(&relay);
	assert_int_equal(write(fds[1], "forged", 6), 6);
	while (relay.from >= 0)
		relay_move(&relay);
	assert_string_equal(out.data, "ours");
	close(fds[1]);
	buf_fini(&out);
}

int main(void)
{
	RUN_TESTS(TEST(a_budget_is_shared_and_cut_between_characters), TEST(bytes_pass_in_order),
		  TEST(a_terminal_gets_its_end_of_file), TEST(a_file_gets_its_position_back),
		  TEST(a_position_never_goes_back_beyond_its_start),
		  TEST(a_bounded_relay_does_not_wait_for_the_end));
}
