/* SPDX-License-Identifier: MIT */
/* `warder audit`: shows, follows and verifies an audit log. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>

#include "audit/record.h"
#include "audit/verify.h"
#include "cmd/cmd.h"
#include "cmd/verb.h"
#include "config/options.h"
#include "warder.h"

struct audit_config {
	const char *head;
	uint64_t json, help;
};

static const struct option rows[] = {
	{ "json", 0, OPTION_FLAG, NULL, offsetof(struct audit_config, json), 1, 0, NULL,
	  "with show and follow: the records as they are", "" },
	{ "head", 0, OPTION_STRING, NULL, offsetof(struct audit_config, head), 0, 0, "HASH",
	  "with verify: the last record must have this hash", "" },
	{ "help", 'h', OPTION_FLAG, NULL, offsetof(struct audit_config, help), 1, 0, NULL,
	  "print this help", "" },
};

static const struct option_table table = { "audit", rows, ARRAY_LEN(rows) };

/* ---- showing ---- */

static bool is_of_the_chain(struct bytes key)
{
	return bytes_equal(key, BYTES("seq")) || bytes_equal(key, BYTES("prev"));
}

/* A line that is no record may be anything: only what is plain text of it is shown. */
static void show_foreign(struct bytes line)
{
	printf("?? ");
	for (size_t i = 0; i < line.len; i++)
		putchar(line.data[i] >= 0x20 && line.data[i] < 0x7f ? line.data[i] : '?');
	printf("\n");
}

static void show_line(struct bytes line, bool is_json)
{
	struct audit_record record;
	struct bytes members, key, value;

	line.len -= line.len && line.data[line.len - 1] == '\n';
	if (is_json) {
		printf("%.*s\n", (int)line.len, line.data);
		return;
	}
	if (!audit_record_parse(line, &record)) {
		show_foreign(line);
		return;
	}
	members = record.hashed;
	bytes_take(&members, 1);
	printf("%" PRIu64, record.seq);
	while (audit_record_member(&members, &key, &value)) {
		if (is_of_the_chain(key))
			continue;
		if (bytes_equal(key, BYTES("time")) || bytes_equal(key, BYTES("event")))
			printf(" %.*s", (int)value.len - 2, value.data + 1);
		else
			printf(" %.*s=%.*s", (int)key.len, key.data, (int)value.len, value.data);
	}
	printf("\n");
}

static void show_available(FILE *file, const struct audit_config *config)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t len;
	off_t start = ftello(file);

	/* A line without an end is still being written: it is read again later. */
	while ((len = getline(&line, &size, file)) > 0 && line[len - 1] == '\n') {
		show_line((struct bytes){ line, (size_t)len }, config->json);
		start = ftello(file);
	}
	clearerr(file);
	fseeko(file, start, SEEK_SET);
	fflush(stdout);
}

static int show(FILE *file, const char *path, const struct audit_config *config, struct err *err)
{
	(void)path;
	(void)err;
	show_available(file, config);
	return 0;
}

static int follow(FILE *file, const char *path, const struct audit_config *config, struct err *err)
{
	_cleanup_close_ int watch_fd = inotify_init1(IN_CLOEXEC);
	char events[4096];

	if (watch_fd < 0 || inotify_add_watch(watch_fd, path, IN_MODIFY) < 0)
		return err_set(err, errno, "watch '%.200s'", path);
	do {
		show_available(file, config);
		if (ferror(stdout))
			return 0; /* nobody reads any more */
	} while (read(watch_fd, events, sizeof(events)) > 0);
	return err_set(err, errno, "watch '%.200s'", path);
}

/* ---- verifying ---- */

static void print_fault(const struct audit_fault *fault)
{
	char text[AUDIT_FAULT_TEXT_MAX];

	audit_format_fault(fault, text);
	printf("%s\n", text);
}

static int verify(FILE *file, const char *path, const struct audit_config *config, struct err *err)
{
	struct audit_summary summary;
	int r = audit_verify(file, print_fault, &summary);

	if (r < 0)
		return err_set(err, -r, "read '%.200s'", path);
	if (config->head && strcmp(config->head, summary.head) != 0)
		return err_say(err, EACCES,
			       "audit verify: the last record is not the expected one: "
			       "the log ends with %s",
			       summary.head);
	if (summary.faults)
		return err_say(err, EACCES,
			       "audit verify: %" PRIu64 " of %" PRIu64
			       " records are not as they were written",
			       summary.faults, summary.records);
	printf("ok: %" PRIu64 " records, head %s\n", summary.records, summary.head);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(FILE *file, const char *path, const struct audit_config *config,
		   struct err *err);
} verbs[] = {
	{ "show", show },
	{ "follow", follow },
	{ "verify", verify },
};

static void print_help(void)
{
	printf("usage: warder audit show|follow|verify [options] FILE\n\n");
	options_print_help(&table, stdout);
	printf("\nExit status: 0, 1 when the log was changed, 125 for anything else.\n");
}

static int run_verb(int argc, char **argv, struct err *err)
{
	struct audit_config config = { .head = NULL };
	_cleanup_file_ FILE *file = NULL;
	int rest = 0, r = options_parse(&table, &config, argc, argv, &rest, err);

	if (config.help) {
		print_help();
		return 0;
	}
	if (r == 0 && argc - rest != 1)
		r = err_say(err, EINVAL, "audit %s: needs one FILE", argv[0]);
	if (r < 0)
		return r;
	file = fopen(argv[rest], "re");
	if (!file)
		return err_set(err, errno, "open '%.200s'", argv[rest]);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, argv[0]) == 0)
			r = verbs[i].run(file, argv[rest], &config, err);
	return r;
}

int cmd_audit(int argc, char **argv)
{
	static const char *const names[] = { "show", "follow", "verify", NULL };
	static const struct verb_command command = { "audit", names, print_help, run_verb };

	return verb_main(&command, argc, argv);
}
