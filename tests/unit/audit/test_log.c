/* SPDX-License-Identifier: MIT */
/* The audit log: whole records or none, and no quiet change (INV-AUDIT-FIRST). */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "audit/verify.h"

static char path[64];

static int set_up(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/warder-audit-XXXXXX");
	fd = mkstemp(path);
	close(fd);
	return fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static int write_one(struct audit_log *log, int64_t exchange)
{
	struct audit_decision decision = {
		.run_id = BYTES("r\"1"),
		.attempt = 0,
		.exchange = exchange,
		.method = BYTES("POST"),
		.host = BYTES("h:443"),
		.path = BYTES("/v1/\xff"),
		.is_allowed = true,
	};

	audit_add_decision(log, &decision);
	return audit_flush(log);
}

static void write_many(int count)
{
	struct audit_log log;
	struct err err;

	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	for (int i = 1; i <= count; i++)
		assert_int_equal(write_one(&log, i), 0);
	audit_close(&log);
}

static struct audit_fault first_fault;

static void note_fault(const struct audit_fault *fault)
{
	if (first_fault.problem == AUDIT_FINE)
		first_fault = *fault;
}

static struct audit_summary verify_text(const char *text, size_t len)
{
	struct audit_summary summary;
	FILE *file = len ? fmemopen((void *)text, len, "r") : fopen("/dev/null", "r");

	first_fault = (struct audit_fault){ .problem = AUDIT_FINE };
	assert_non_null(file);
	assert_int_equal(audit_verify(file, note_fault, &summary), 0);
	fclose(file);
	return summary;
}

static size_t read_log(char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t len = read(fd, text, size);

	close(fd);
	assert_true(len >= 0 && (size_t)len < size);
	text[len] = '\0';
	return (size_t)len;
}

static char text[65536];

static void what_was_written_verifies(void **state)
{
	size_t len;

	(void)state;
	write_many(3);
	write_many(2); /* another process, later */
	len = read_log(text, sizeof(text));
	assert_int_equal(verify_text(text, len).records, 5);
	assert_int_equal(first_fault.problem, AUDIT_FINE);
	text[len] = '\0';
	assert_non_null(strstr(text, "\"event\":\"decision\",\"runId\":\"r\\\"1\",\"attempt\":0,"));
	assert_non_null(strstr(text, "\"path\":\"/v1/\xef\xbf\xbd\",\"allowed\":true,\"hash\":\""));
	assert_null(strstr(text, "reason")); /* not set */
}

static void every_changed_byte_is_found(void **state)
{
	size_t len;

	(void)state;
	write_many(3);
	len = read_log(text, sizeof(text));
	for (size_t i = 0; i < len; i++) {
		char saved = text[i];

		text[i] ^= 1;
		if (verify_text(text, len).faults == 0)
			fail_msg("a change of byte %zu is not noticed", i);
		text[i] = saved;
	}
	assert_int_equal(verify_text(text, len).faults, 0);
}

/* The lines of the log, in another order; -1 ends it. */
static struct audit_summary verify_order(const int *order)
{
	static char shuffled[65536];
	const char *lines[8];
	size_t lens[8], count = 0, len = read_log(text, sizeof(text) - 1), used = 0;

	text[len] = '\0';
	for (char *p = text; *p; p = strchr(p, '\n') + 1) {
		lines[count] = p;
		lens[count++] = (size_t)(strchr(p, '\n') + 1 - p);
	}
	for (; *order >= 0; order++) {
		memcpy(shuffled + used, lines[*order], lens[*order]);
		used += lens[*order];
	}
	return verify_text(shuffled, used);
}

static void other_orders_are_found_and_named(void **state)
{
	static const struct {
		int order[8];
		enum audit_problem problem;
		uint64_t line;
	} rows[] = {
		{ { 0, 1, 2, 3, -1 }, AUDIT_FINE, 0 },    { { 1, 2, 3, -1 }, AUDIT_MISSING, 1 },
		{ { 0, 2, 3, -1 }, AUDIT_MISSING, 2 },    { { 0, 1, 3, -1 }, AUDIT_MISSING, 3 },
		{ { 0, 2, 1, 3, -1 }, AUDIT_MISSING, 2 }, { { 0, 1, 1, 2, 3, -1 }, AUDIT_MOVED, 3 },
		{ { 3, 2, 1, 0, -1 }, AUDIT_MISSING, 1 },
	};

	(void)state;
	write_many(4);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		verify_order(rows[i].order);
		assert_int_equal(first_fault.problem, rows[i].problem);
		assert_int_equal(first_fault.line, rows[i].line);
	}
}

/* A record of another log, rightly hashed and rightly numbered, in place of ours. */
static void a_record_of_another_log_is_found(void **state)
{
	static char ours[65536];
	size_t ours_len, len;
	char *line;

	(void)state;
	write_many(3);
	ours_len = read_log(ours, sizeof(ours) - 1);
	ours[ours_len] = '\0';
	assert_int_equal(truncate(path, 0), 0);
	usleep(2000); /* another time, another hash */
	write_many(2);
	len = read_log(text, sizeof(text) - 1);
	line = memchr(text, '\n', len);
	/* our first record, their second */
	memmove(ours + (strchr(ours, '\n') + 1 - ours), line + 1, len - (size_t)(line + 1 - text));
	verify_text(ours,
		    (size_t)(strchr(ours, '\n') + 1 - ours) + len - (size_t)(line + 1 - text));
	assert_int_equal(first_fault.problem, AUDIT_FOREIGN);
	assert_int_equal(first_fault.line, 2);
}

static void many_writers_make_one_chain(void **state)
{
	int status;

	(void)state;
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			write_many(25);
			_exit(0);
		}
	for (int i = 0; i < 4; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(verify_text(text, read_log(text, sizeof(text))).records, 100);
	assert_int_equal(first_fault.problem, AUDIT_FINE);
}

/* The file may not grow beyond `limit`; what does not fit fails as on a full disk. */
static void set_file_limit(rlim_t limit)
{
	struct rlimit value;

	getrlimit(RLIMIT_FSIZE, &value);
	value.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &value), 0);
}

static void a_record_that_does_not_fit_leaves_nothing(void **state)
{
	struct audit_log log;
	struct err err;
	struct stat st;
	off_t size;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(audit_open(&log, path, AUDIT_FSYNC, &err), 0);
	assert_int_equal(write_one(&log, 1), 0);
	assert_int_equal(stat(path, &st), 0);
	size = st.st_size;
	for (off_t room = 0; room < size; room += 7) {
		set_file_limit((rlim_t)(size + room));
		assert_true(write_one(&log, 2) < 0);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, size);
	}
	set_file_limit(RLIM_INFINITY);
	assert_int_equal(write_one(&log, 3), 0); /* and goes on when there is room again */
	audit_close(&log);
	assert_int_equal(verify_text(text, read_log(text, sizeof(text))).records, 2);
	assert_int_equal(first_fault.problem, AUDIT_FINE);
}

/* What was asked for is refused when it cannot be written; what has happened is written later. */
static void what_has_happened_survives_a_full_disk(void **state)
{
	struct audit_outcome outcome = {
		.run_id = BYTES("r"),
		.attempt = 0,
		.exchange = 7,
		.status = 200,
		.sent_bytes = AUDIT_UNSET,
		.received_bytes = AUDIT_UNSET,
		.first_byte_ms = AUDIT_UNSET,
		.duration_ms = AUDIT_UNSET,
	};
	const struct audit_start start = { .run_id = BYTES("never-begun"), .attempt = 0 };
	struct audit_log log;
	struct err err;
	struct stat st;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	assert_int_equal(write_one(&log, 1), 0);
	assert_int_equal(stat(path, &st), 0);
	set_file_limit((rlim_t)st.st_size + 10);
	audit_add_outcome(&log, &outcome);
	audit_add_start(&log, &start);
	assert_true(write_one(&log, 2) < 0);
	audit_add_outcome(&log, &outcome);
	set_file_limit(RLIM_INFINITY);
	assert_int_equal(write_one(&log, 3), 0);
	audit_close(&log);
	assert_int_equal(verify_text(text, read_log(text, sizeof(text))).records, 4);
	assert_int_equal(first_fault.problem, AUDIT_FINE);
	assert_non_null(strstr(text, "\"exchange\":3"));
	assert_null(strstr(text, "\"exchange\":2"));
	assert_null(strstr(text, "never-begun"));
}

/* A batch without end is refused, not forgotten. */
static void a_batch_has_a_limit(void **state)
{
	struct audit_start start = { .run_id = BYTES("r"), .attempt = 0 };
	struct audit_log log;
	struct err err;

	(void)state;
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	for (int i = 0; i < AUDIT_BATCH_MAX / 16; i++)
		audit_add_start(&log, &start);
	assert_int_equal(audit_flush(&log), -ENOBUFS);
	assert_int_equal(audit_flush(&log), 0);
	audit_close(&log);
}

/* Whatever the texts are: it is recorded, and nothing else is in doubt. */
static void no_text_is_too_long(void **state)
{
	static const char fillers[] = { 'x', '"', '\\', '\x1f', '\xff' };
	static char filled[16384];
	struct bytes longest = { filled, sizeof(filled) };
	struct audit_decision decision = { longest, INT64_MAX, INT64_MAX, longest, longest,
					   longest, true,      longest,   longest };
	struct audit_outcome outcome = { .run_id = longest,
					 .status = INT64_MIN + 1,
					 .ended = longest,
					 .account = longest,
					 .model = longest,
					 .call_id = longest,
					 .cost = longest };
	struct audit_log log;
	struct err err;

	(void)state;
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
		memset(filled, fillers[i], sizeof(filled));
		audit_add_decision(&log, &decision);
		audit_add_outcome(&log, &outcome);
		assert_int_equal(write_one(&log, (int64_t)i), 0);
	}
	audit_close(&log);
	assert_int_equal(verify_text(text, read_log(text, sizeof(text))).records,
			 3 * ARRAY_LEN(fillers));
	assert_int_equal(first_fault.problem, AUDIT_FINE);
}

static void nothing_is_added_to_a_log_that_is_damaged(void **state)
{
	struct audit_log log;
	struct err err;
	int fd;

	(void)state;
	write_many(1);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "{\"seq\":2", 8), 8);
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	assert_int_equal(write_one(&log, 1), -EILSEQ);
	assert_int_equal(verify_text(text, read_log(text, sizeof(text))).faults, 1);
	assert_int_equal(first_fault.problem, AUDIT_CUT);
	assert_int_equal(write(fd, "\n", 1), 1);
	assert_int_equal(write_one(&log, 1), -EILSEQ);
	close(fd);
	audit_close(&log);
}

/* Opens it as a keeper does when it starts, and writes a record. */
static int mend_and_write(void)
{
	struct audit_log log;
	struct err err;
	int r;

	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	assert_int_equal(audit_mend(&log), 0);
	r = write_one(&log, 9);
	audit_close(&log);
	return r;
}

/* A writer that is killed may leave any beginning of a record. */
static void what_was_begun_is_removed_and_on_record(void **state)
{
	size_t whole, len;

	(void)state;
	write_many(2);
	whole = read_log(text, sizeof(text));
	write_many(1);
	len = read_log(text, sizeof(text)) - whole;
	for (size_t cut = 1; cut < len; cut++) {
		assert_int_equal(truncate(path, 0), 0);
		write_many(2);
		write_many(1);
		assert_int_equal(truncate(path, (off_t)(whole + cut)), 0);
		assert_int_equal(mend_and_write(), 0);
		assert_int_equal(verify_text(text, read_log(text, sizeof(text))).faults, 0);
		assert_non_null(strstr(text, "\"event\":\"torn\",\"bytes\":"));
	}
	/* A whole record is none. */
	assert_int_equal(truncate(path, 0), 0);
	write_many(3);
	assert_int_equal(mend_and_write(), 0);
	read_log(text, sizeof(text));
	assert_null(strstr(text, "torn"));
}

/* Nor is it what the chain would not go on with. */
static void what_no_writer_has_begun_stays(void **state)
{
	static const char *const ends[] = { "x", "{\"seq\":3", "{\"seq\":2,\"tims", "\n",
					    "{\"seq\":2,\"time\":\"\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		int fd;

		write_many(1);
		fd = open(path, O_WRONLY | O_APPEND);
		assert_int_equal(write(fd, ends[i], strlen(ends[i])), (ssize_t)strlen(ends[i]));
		close(fd);
		assert_int_equal(mend_and_write(), -EILSEQ);
		assert_int_equal(truncate(path, 0), 0);
	}
}

/* A writer notices that its own records were cut off, also when others grew in their place. */
static void a_cut_is_not_covered_up(void **state)
{
	struct audit_log log;
	struct err err;
	struct stat st;

	(void)state;
	assert_int_equal(audit_open(&log, path, AUDIT_WRITE, &err), 0);
	assert_int_equal(write_one(&log, 1), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(write_one(&log, 2), 0);
	assert_int_equal(truncate(path, st.st_size), 0);
	assert_int_equal(write_one(&log, 3), -EILSEQ);
	write_many(4);
	assert_int_equal(write_one(&log, 3), -EILSEQ);
	audit_close(&log);
}

static void a_link_is_not_followed(void **state)
{
	struct audit_log log;
	struct err err;
	char other[80];

	(void)state;
	snprintf(other, sizeof(other), "%s.link", path);
	assert_int_equal(symlink(path, other), 0);
	assert_true(audit_open(&log, other, AUDIT_WRITE, &err) < 0);
	unlink(other);
	assert_true(audit_open(&log, "/tmp", AUDIT_WRITE, &err) < 0);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(what_was_written_verifies), FRESH(every_changed_byte_is_found),
		  FRESH(other_orders_are_found_and_named), FRESH(a_record_of_another_log_is_found),
		  FRESH(many_writers_make_one_chain),
		  FRESH(a_record_that_does_not_fit_leaves_nothing),
		  FRESH(what_has_happened_survives_a_full_disk), FRESH(a_batch_has_a_limit),
		  FRESH(no_text_is_too_long), FRESH(nothing_is_added_to_a_log_that_is_damaged),
		  FRESH(what_was_begun_is_removed_and_on_record),
		  FRESH(what_no_writer_has_begun_stays), FRESH(a_cut_is_not_covered_up),
		  FRESH(a_link_is_not_followed));
}
