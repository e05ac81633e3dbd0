/* SPDX-License-Identifier: MIT */
/* The keeper's log: whole lines, no waiting, and nothing in them but what belongs there. */
#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper/notice.h"

#define NOW 1000000

static struct notices notices;
static int fds[2]; /* where lines are read, and where they are written */
static char text[1 << 20];

static int set_up(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return pipe(fds);
}

static int tear_down(void **state)
{
	(void)state;
	notice_close(&notices);
	close_fd(&fds[0]);
	close_fd(&fds[1]);
	return 0;
}

/* Everything that has been written so far. */
static const char *read_lines(void)
{
	struct pollfd in = { .fd = fds[0], .events = POLLIN };
	size_t len = 0;

	while (poll(&in, 1, 0) > 0) {
		ssize_t n = read(fds[0], text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	return text;
}

static size_t count(const char *in, const char *word)
{
	size_t found = 0;

	for (; (in = strstr(in, word)); in++)
		found++;
	return found;
}

/* The next line as an object; the caller gives it back. */
static json_t *parse_line(const char **lines)
{
	const char *end = strchr(*lines, '\n');
	json_error_t error;
	json_t *object;

	assert_non_null(end);
	object = json_loadb(*lines, (size_t)(end - *lines), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
			    &error);
	if (!object)
		fail_msg("%s: %.*s", error.text, (int)(end - *lines), *lines);
	*lines = end + 1;
	return object;
}

static const char *string_at(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void a_line_is_an_object(void **state)
{
	const char *lines;
	json_t *line;
	regex_t time;

	(void)state;
	notice_open(&notices, fds[1], NOTICE_JSON);
	notice_write(&notices, NOTICE_RUN_BEGUN, NOW,
		     &(struct notice){ .run_id = "run-1",
				       .attempt = NOTICE_NUMBER(2),
				       .account = "acme",
				       .uid = NOTICE_NUMBER(0) });
	notice_write(&notices, NOTICE_STORE_LOST, NOW, &(struct notice){ .text = "it is away" });
	lines = read_lines();
	line = parse_line(&lines);
	assert_string_equal(string_at(line, "event"), "run_begun");
	assert_string_equal(string_at(line, "level"), "info");
	assert_string_equal(string_at(line, "runId"), "run-1");
	assert_string_equal(string_at(line, "account"), "acme");
	assert_int_equal(json_integer_value(json_object_get(line, "attempt")), 2);
	assert_true(json_is_integer(json_object_get(line, "uid"))); /* root's is a number, too */
	assert_int_equal(json_object_size(line), 7);
	assert_int_equal(regcomp(&time,
				 "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
				 "\\.[0-9]{3}Z$",
				 REG_EXTENDED | REG_NOSUB),
			 0);
	assert_int_equal(regexec(&time, string_at(line, "time"), 0, NULL, 0), 0);
	regfree(&time);
	json_decref(line);
	line = parse_line(&lines);
	assert_string_equal(string_at(line, "event"), "store_lost");
	assert_string_equal(string_at(line, "level"), "error");
	assert_string_equal(string_at(line, "text"), "it is away");
	assert_int_equal(json_object_size(line), 4);
	json_decref(line);
	assert_string_equal(lines, "");
}

static void text_is_for_people(void **state)
{
	const char *lines;

	(void)state;
	notice_open(&notices, fds[1], NOTICE_TEXT);
	notice_write(&notices, NOTICE_RUN_REFUSED, NOW,
		     &(struct notice){ .run_id = "run-1",
				       .uid = NOTICE_NUMBER(1000),
				       .code = "revoked",
				       .text = "it is \"over\"\nrunId=other" });
	lines = read_lines();
	assert_non_null(strstr(lines, "Z warn run_refused runId=run-1 uid=1000 code=revoked "
				      "text=\"it is \\\"over\\\"\\nrunId=other\"\n"));
	assert_int_equal(count(lines, "\n"), 1);
}

/* Every byte, in every field: one line, no control byte in it, and within what a pipe takes whole.
 */
static void hostile_texts_stay_in_their_place(void **state)
{
	char hostile[1024];
	const char *lines;
	json_t *line;

	(void)state;
	for (int form = NOTICE_JSON; form <= NOTICE_TEXT; form++) {
		notice_open(&notices, fds[1], (enum notice_form)form);
		for (int c = 1; c < 256; c++) {
			memset(hostile, c, sizeof(hostile) - 1);
			hostile[sizeof(hostile) - 1] = '\0';
			notice_write(&notices, NOTICE_RUN_ENDED, NOW,
				     &(struct notice){ .run_id = hostile,
						       .account = hostile,
						       .meter = hostile,
						       .code = hostile,
						       .text = hostile,
						       .attempt = NOTICE_NUMBER(INT64_MIN),
						       .uid = NOTICE_NUMBER(INT64_MIN),
						       .count = NOTICE_NUMBER(INT64_MIN),
						       .suppressed = NOTICE_NUMBER(INT64_MIN) });
			lines = read_lines();
			assert_int_equal(count(lines, "\n"), 1);
			assert_true(strlen(lines) <= NOTICE_LINE_MAX);
			assert_int_equal(lines[strlen(lines) - 1], '\n');
			for (const char *at = lines; at[1]; at++)
				assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
			if (form == NOTICE_TEXT)
				continue;
			line = parse_line(&lines);
			assert_int_equal(json_object_size(line), 12);
			json_decref(line);
		}
		notice_close(&notices);
	}
	notice_open(&notices, fds[1], NOTICE_JSON);
}

/* Nobody reads: the loop goes on, and is told later what it missed. */
static void miss_lines(bool is_borrowed)
{
	const int many = 5000;
	const char *lines;
	size_t taken = 0;
	json_t *line;

	notice_open(&notices, fds[1], NOTICE_JSON);
	assert_true(notices.is_own_fd);
	assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0); /* others have it open, too */
	if (is_borrowed) { /* as it is where it cannot be opened again */
		close(notices.fd);
		notices.fd = fds[1];
		notices.is_own_fd = false;
	}
	for (int i = 0; i < many; i++)
		notice_write(&notices, NOTICE_RUN_BEGUN, NOW, &(struct notice){ .run_id = "r" });
	assert_true(notices.dropped > 0);
	assert_int_equal(notices.dropped, notices.dropped_total);
	for (lines = read_lines(); *lines; taken++) {
		line = parse_line(&lines);
		assert_string_equal(string_at(line, "event"), "run_begun");
		json_decref(line);
	}
	assert_int_equal(taken + notices.dropped_total, many);
	notice_write(&notices, NOTICE_RUN_ENDED, NOW, &(struct notice){ .run_id = "r" });
	lines = read_lines();
	line = parse_line(&lines);
	assert_string_equal(string_at(line, "event"), "lines_dropped");
	assert_int_equal(json_integer_value(json_object_get(line, "count")), many - taken);
	json_decref(line);
	line = parse_line(&lines);
	assert_string_equal(string_at(line, "event"), "run_ended");
	json_decref(line);
	assert_string_equal(lines, "");
	assert_int_equal(notices.dropped, 0);
	assert_int_equal(notices.dropped_total, many - taken);
}

static void a_slow_reader_misses_lines_and_is_told(void **state)
{
	(void)state;
	miss_lines(false);
}

static void so_does_one_whose_pipe_is_not_ours_to_open(void **state)
{
	(void)state;
	miss_lines(true);
}

/* The control: a write as it is usually made would have waited for ever. */
static void the_same_pipe_would_have_blocked(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	notice_open(&notices, fds[1], NOTICE_JSON);
	for (int i = 0; i < 5000; i++)
		notice_write(&notices, NOTICE_RUN_BEGUN, NOW, &(struct notice){ .run_id = "r" });
	pid = fork();
	if (pid == 0) {
		static const char line[NOTICE_LINE_MAX];

		signal(SIGALRM, SIG_DFL);
		alarm(1);
		_exit(write(fds[1], line, sizeof(line)) < 0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

static void sockets_do_not_block_either(void **state)
{
	const char *lines;
	json_t *line;

	(void)state;
	close_fd(&fds[0]);
	close_fd(&fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); /* as under systemd */
	notice_open(&notices, fds[1], NOTICE_JSON);
	for (int i = 0; i < 20000; i++)
		notice_write(&notices, NOTICE_RUN_BEGUN, NOW, &(struct notice){ .run_id = "r" });
	assert_true(notices.dropped > 0);
	for (lines = read_lines(); *lines;)
		json_decref(parse_line(&lines));
	notice_close(&notices);
	lines = read_lines();
	line = parse_line(&lines);
	assert_string_equal(string_at(line, "event"), "lines_dropped");
	json_decref(line);
	notice_open(&notices, fds[1], NOTICE_JSON);
}

/* Whoever read it is gone: that ends no keeper. */
static void a_closed_pipe_is_only_lines_dropped(void **state)
{
	(void)state;
	notice_open(&notices, fds[1], NOTICE_JSON);
	close_fd(&fds[0]);
	notice_write(&notices, NOTICE_READY, NOW, &(struct notice){ .text = "x" });
	assert_int_equal(notices.dropped_total, 1);
}

/* What a file has already stays, also where others write to it. */
static void files_are_written_where_they_end(void **state)
{
	char path[] = "/tmp/warder-test-notice.XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(write(fd, "before\n", 7), 7);
	notice_open(&notices, fd, NOTICE_TEXT);
	notice_write(&notices, NOTICE_READY, NOW, &(struct notice){ .text = "now" });
	assert_int_equal(write(fd, "after\n", 6), 6);
	text[pread(fd, text, sizeof(text) - 1, 0)] = '\0';
	assert_memory_equal(text, "before\n", 7);
	assert_non_null(strstr(text, " info ready text=now\nafter\n"));
	notice_close(&notices);
	close(fd);
	notice_open(&notices, fds[1], NOTICE_JSON);
}

/* What strangers can cause does not fill the log. */
static void an_event_has_its_pace(void **state)
{
	const char *lines;
	uint64_t suppressed = 0;

	(void)state;
	notice_open(&notices, fds[1], NOTICE_JSON);
	for (int i = 0; i < 100; i++)
		notice_write(&notices, NOTICE_TOKEN_REFUSED, NOW + (uint64_t)i * 9,
			     &(struct notice){ .code = "token_invalid" });
	assert_int_equal(count(read_lines(), "\n"), 20);
	notice_write(&notices, NOTICE_LINK_BROKEN, NOW + 999, &(struct notice){ .code = "x" });
	assert_int_equal(count(read_lines(), "link_broken"), 1); /* each its own */
	notice_write(&notices, NOTICE_TOKEN_REFUSED, NOW + 999, &(struct notice){ .code = "x" });
	assert_string_equal(read_lines(), "");
	notice_write(&notices, NOTICE_TOKEN_REFUSED, NOW + 1000, &(struct notice){ .code = "x" });
	lines = read_lines();
	assert_int_equal(
		sscanf(strstr(lines, "\"suppressed\":"), "\"suppressed\":%lu", &suppressed), 1);
	assert_int_equal(suppressed, 81);
	notice_write(&notices, NOTICE_TOKEN_REFUSED, NOW + 1001, &(struct notice){ .code = "x" });
	lines = read_lines();
	assert_int_equal(count(lines, "\n"), 1);
	assert_null(strstr(lines, "suppressed"));
	for (int i = 0; i < 100; i++) /* the control: one that has no limit */
		notice_write(&notices, NOTICE_RUN_BEGUN, NOW, &(struct notice){ .run_id = "r" });
	assert_int_equal(count(read_lines(), "\n"), 100);
}

static void write_limit(const char *meter, uint64_t now_ms)
{
	notice_write_limit(&notices, NOTICE_LIMIT_REACHED, now_ms,
			   &(struct notice){ .meter = meter, .code = "no_rate" });
}

static void a_meter_speaks_once_a_second(void **state)
{
	char meter[32];

	(void)state;
	notice_open(&notices, fds[1], NOTICE_JSON);
	for (uint64_t i = 0; i < 1000; i++)
		write_limit("run:a", NOW + i);
	write_limit("run:b", NOW + 1);
	assert_int_equal(count(read_lines(), "run:a"), 1);
	write_limit("run:a", NOW + 1000);
	assert_int_equal(count(read_lines(), "run:a"), 1);
	write_limit("run:b", NOW + 1000);
	assert_string_equal(read_lines(), "");
	/* However many there are, the lines have a limit. */
	for (int i = 0; i < 100000; i++) {
		snprintf(meter, sizeof(meter), "host:%d.test", i);
		write_limit(meter, NOW + 5000);
	}
	assert_int_equal(count(read_lines(), "\n"), 100);
	assert_int_equal(notices.dropped_total, 0);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(a_line_is_an_object), FRESH(text_is_for_people),
		  FRESH(hostile_texts_stay_in_their_place),
		  FRESH(a_slow_reader_misses_lines_and_is_told),
		  FRESH(so_does_one_whose_pipe_is_not_ours_to_open),
		  FRESH(the_same_pipe_would_have_blocked), FRESH(sockets_do_not_block_either),
		  FRESH(a_closed_pipe_is_only_lines_dropped),
		  FRESH(files_are_written_where_they_end), FRESH(an_event_has_its_pace),
		  FRESH(a_meter_speaks_once_a_second));
}
