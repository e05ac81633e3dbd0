/* SPDX-License-Identifier: MIT */
/* Commands that print, fail, do not end, and leave somebody behind. */
#include "fds.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "keeper/command.h"
#include "keeper/secret.h"

#define LONG_MS 60000

static struct loop loop;
static size_t done_count;
static int other_turns, turned_fds[2], fds_before;

static void on_done(struct command *command, uint64_t now_ms)
{
	(void)now_ms;
	assert_true(command_owner(command) == &done_count);
	done_count++;
}

static struct command *start(const char *text, uint64_t most_ms)
{
	const struct command_config config = {
		.text = text,
		.most_ms = most_ms,
		.on_done = on_done,
		.owner = &done_count,
		.is_apart = true,
	};
	struct command *command = NULL;
	struct err err;

	assert_true(command_start(&loop, &config, &command, &err) == 0);
	return command;
}

static void turn_until(size_t count)
{
	while (done_count < count)
		if (loop_turn(&loop, 1000) < 0)
			abort();
}

/* Runs it to its end; its output, or NULL and what is said about it. */
static const char *run(const char *text, uint64_t most_ms, struct err *err)
{
	static char output[256];
	struct command *command = start(text, most_ms);
	struct bytes bytes;
	const char *result = NULL;

	done_count = 0;
	turn_until(1);
	if (command_output(command, &bytes, err) == 0) {
		snprintf(output, sizeof(output), "%.*s", (int)bytes.len, bytes.data);
		result = output;
	}
	command_free(command);
	return result;
}

/* Nobody is left, not even as a zombie. */
static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

static void test_output(void **state)
{
	struct err err;

	(void)state;
	assert_string_equal(run("echo one; echo two", LONG_MS, &err), "one\ntwo\n");
	assert_string_equal(run("exec 1>&2; true", LONG_MS, &err), "");
	assert_string_equal(run("cat", LONG_MS, &err), ""); /* there is nothing to be read */
	assert_false(has_children());
}

static void test_failures(void **state)
{
	struct err err;

	(void)state;
	assert_null(run("echo half; exit 3", LONG_MS, &err));
	assert_string_equal(err.text,
			    "secret exec:echo half; exit 3: the command failed (status 3)");
	assert_null(run("kill -9 $$", LONG_MS, &err));
	assert_true(strstr(err.text, "status 137"));
	assert_null(run("head -c 70000 /dev/zero; sleep 100", LONG_MS, &err));
	assert_true(strstr(err.text, "longer than 65536 bytes"));
	assert_false(has_children());
}

static void test_time(void **state)
{
	uint64_t start_ms = clock_now_ms();
	struct err err;

	(void)state;
	assert_null(run("sleep 100", 1000, &err));
	assert_string_equal(
		err.text,
		"secret exec:sleep 100: the command has not ended within 1 s, and was ended");
	/* The output has an end, and the command has none; or the other way round. */
	assert_null(run("echo key; exec >&-; sleep 100; true", 100, &err));
	assert_true(strstr(err.text, "has not ended"));
	assert_null(run("sleep 100 & echo key", 100, &err));
	assert_true(strstr(err.text, "has not ended"));
	assert_true(clock_now_ms() - start_ms < LONG_MS);
	assert_false(has_children());
}

/* What it has started is ended as well; left behind, it is ours to wait for. */
static void test_group(void **state)
{
	struct command *command;
	int status, fds[2];
	char text[128], byte;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	snprintf(text, sizeof(text), "sh -c 'echo >/proc/%d/fd/%d; exec sleep 100'; true", getpid(),
		 fds[1]);
	command = start(text, LONG_MS);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	command_free(command);
	assert_true(waitpid(-1, &status, 0) > 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_false(has_children());
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	close_fd(&fds[0]);
	close_fd(&fds[1]);
}

static void on_other(struct loop_timer *timer, uint64_t now_ms)
{
	if (++other_turns < 10)
		loop_set_timer(&loop, timer, now_ms + 1);
	else
		assert_int_equal(write(turned_fds[1], "123", 3), 3);
}

/* Three at once, which all wait for something else that is done meanwhile. */
static void test_beside(void **state)
{
	struct loop_timer other = { .on_due = on_other };
	struct command *commands[3];
	struct bytes bytes;
	struct err err;
	char text[128];

	(void)state;
	done_count = 0;
	assert_int_equal(pipe2(turned_fds, O_CLOEXEC), 0);
	snprintf(text, sizeof(text),
		 "dd bs=1 count=1 status=none of=/dev/null if=/proc/%d/fd/%d && echo here",
		 getpid(), turned_fds[0]);
	loop_set_timer(&loop, &other, clock_now_ms());
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		commands[i] = start(text, LONG_MS);
	turn_until(ARRAY_LEN(commands));
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		assert_true(command_output(commands[i], &bytes, &err) == 0);
		assert_true(bytes_equal(bytes, BYTES("here\n")));
		command_free(commands[i]);
	}
	close_fd(&turned_fds[0]);
	close_fd(&turned_fds[1]);
	loop_cancel(&loop, &other);
}

/* Signals that we have blocked or ignored are none of its business. */
static void test_signals(void **state)
{
	sigset_t blocked, before;
	struct err err;

	(void)state;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGHUP);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	signal(SIGPIPE, SIG_IGN);
	assert_null(run("kill -TERM $$; echo alive", LONG_MS, &err));
	assert_non_null(strstr(err.text, "status 143"));
	assert_null(run("kill -PIPE $$; echo alive", LONG_MS, &err));
	assert_non_null(strstr(err.text, "status 141"));
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void test_cancel(void **state)
{
	struct command *command = start("sleep 100", LONG_MS);

	(void)state;
	command_free(command);
	assert_false(has_children());
}

/* A secret takes what was run before, and runs what was not. */
static void test_lend(void **state)
{
	struct command *command;
	struct secret *secret;
	struct bytes value;
	struct err err;

	(void)state;
	done_count = 0;
	command = start("echo $$", LONG_MS);
	turn_until(1);
	assert_true(command_output(command, &value, &err) == 0);
	secret_lend_output(command);
	assert_true(secret_open("exec:echo $$", &secret, &err) == 0);
	value.len--; /* the line end */
	assert_true(bytes_equal(secret_get(secret), value));
	secret_free(secret);
	secret_forget_outputs();
	assert_true(secret_open("exec:echo $$", &secret, &err) == 0);
	assert_true(!bytes_equal(secret_get(secret), value));
	secret_free(secret);
	command_free(command);
	assert_true(secret_open("exec:false", &secret, &err) < 0);
	assert_false(has_children());
}

static void test_descriptors(void **state)
{
	(void)state;
	assert_int_equal(count_fds(), fds_before);
}

int main(void)
{
	if (loop_init(&loop) < 0)
		return 1;
	fds_before = count_fds();
	RUN_TESTS(TEST(test_output), TEST(test_failures), TEST(test_time), TEST(test_group),
		  TEST(test_beside), TEST(test_signals), TEST(test_cancel), TEST(test_lend),
		  TEST(test_descriptors));
}
