/* SPDX-License-Identifier: MIT */
/* Appending to the audit log. */
#include "audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/record.h"
#include "base/json.h"

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

int audit_open(struct audit_log *log, const char *path, enum audit_durability durability,
	       struct err *err)
{
	struct stat st;

	*log = (struct audit_log){ .durability = durability };
	memcpy(log->hash, zeros, sizeof(log->hash));
	log->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
	if (log->fd < 0)
		return err_set(err, errno, "open the audit log '%.200s'", path);
	if (fstat(log->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close_fd(&log->fd);
		return err_say(err, EINVAL, "the audit log '%.200s' is not a file", path);
	}
	return 0;
}

void audit_close(struct audit_log *log)
{
	close_fd(&log->fd);
}

/* ---- the chain: what is last in the file ---- */

/* Finds the last line of what is in `text`; false when it has no end, or no beginning. */
static bool find_last_line(struct bytes text, bool is_whole_file, struct bytes *ret_line)
{
	const char *before;

	if (text.len == 0 || text.data[text.len - 1] != '\n')
		return false;
	text.len--;
	before = memrchr(text.data, '\n', text.len);
	if (!before && !is_whole_file)
		return false;
	*ret_line = before ? (struct bytes){ before + 1,
					     text.len - (size_t)(before + 1 - text.data) }
			   : text;
	return true;
}

/* Whether the last record we know of still ends where it ended. */
static bool is_ours_still_there(const struct audit_log *log)
{
	char end[AUDIT_HASH_LEN + 3]; /* the hash, and what closes the line */

	if (log->size < sizeof(end))
		return log->size == 0;
	return pread(log->fd, end, sizeof(end), (off_t)(log->size - sizeof(end))) ==
		       (ssize_t)sizeof(end) &&
	       memcmp(end, log->hash, AUDIT_HASH_LEN) == 0;
}

/* Reads where the chain ends, when somebody else has written since we did. */
static int catch_up(struct audit_log *log, uint64_t size)
{
	char tail[AUDIT_RECORD_MAX + 1];
	uint64_t start = size > sizeof(tail) ? size - sizeof(tail) : 0;
	struct audit_record record;
	struct bytes line;
	ssize_t n;

	if (size == log->size)
		return 0;
	if (size < log->size)
		return -EILSEQ; /* what we wrote is gone: not to be covered up by a new end */
	n = pread(log->fd, tail, sizeof(tail), (off_t)start);
	if (n < 0)
		return -errno;
	/* Nothing may follow a line that is no record: what is wrong there must be seen first. */
	if (!find_last_line((struct bytes){ tail, (size_t)n }, start == 0, &line) ||
	    !audit_record_parse(line, &record))
		return -EILSEQ;
	if (record.seq <= log->seq || !is_ours_still_there(log))
		return -EILSEQ;
	log->seq = record.seq;
	memcpy(log->hash, record.hash.data, AUDIT_HASH_LEN);
	log->size = size;
	return 0;
}

/* Writes one line whole, or takes back what was written of it. */
static int append(struct audit_log *log, struct bytes line, uint64_t size)
{
	ssize_t n = write(log->fd, line.data, line.len);
	int r = n < 0 ? -errno : (size_t)n < line.len ? -ENOSPC : 0;

	if (r == 0 && log->durability == AUDIT_FSYNC && fdatasync(log->fd) < 0)
		r = -errno;
	if (r < 0 && n > 0 && ftruncate(log->fd, (off_t)size) < 0)
		return r; /* the next one finds the rest and refuses */
	return r;
}

static void format_time(char *text, size_t size)
{
	struct timespec now;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, size - len, ".%03ldZ", now.tv_nsec / 1000000);
}

/* A record under construction; its end is written when its place in the chain is known. */
struct draft {
	struct buf fields; /* what follows "event" */
	struct json json;
	const char *event;
};

static int commit_locked(struct audit_log *log, const struct draft *draft, struct buf *line)
{
	char hash[AUDIT_HASH_LEN + 1], time[40], head[256];
	struct stat st;
	int r;

	if (fstat(log->fd, &st) < 0)
		return -errno;
	r = catch_up(log, (uint64_t)st.st_size);
	if (r < 0)
		return r;
	format_time(time, sizeof(time));
	snprintf(head, sizeof(head),
		 "{\"seq\":%llu,\"time\":\"%s\",\"prev\":\"%s\",\"event\":\"%s\"",
		 (unsigned long long)log->seq + 1, time, log->hash, draft->event);
	buf_add_text(line, head);
	buf_add(line, draft->fields.data, draft->fields.len);
	audit_record_hash((struct bytes){ line->data, line->len }, hash);
	buf_add_text(line, ",\"hash\":\"");
	buf_add_text(line, hash);
	buf_add_text(line, "\"}\n");
	if (line->len == line->max)
		return -EMSGSIZE;
	r = append(log, (struct bytes){ line->data, line->len }, (uint64_t)st.st_size);
	if (r < 0)
		return r;
	log->seq++;
	log->size = (uint64_t)st.st_size + line->len;
	memcpy(log->hash, hash, sizeof(hash));
	return 0;
}

static int commit(struct audit_log *log, struct draft *draft)
{
	struct buf line;
	int r;

	buf_init(&line, AUDIT_RECORD_MAX);
	while (flock(log->fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	r = commit_locked(log, draft, &line);
	flock(log->fd, LOCK_UN);
	buf_fini(&line);
	return r;
}

static void begin(struct draft *draft, const char *event)
{
	draft->event = event;
	buf_init(&draft->fields, AUDIT_RECORD_MAX);
	draft->json = (struct json){ .out = &draft->fields, .needs_comma = true };
}

#define EVENT(name, help)                                                                          \
	int audit_write_##name(struct audit_log *log, const struct audit_##name *event)            \
	{                                                                                          \
		struct draft draft;                                                                \
		int r;                                                                             \
                                                                                                   \
		begin(&draft, #name);
#define TEXT(field, key, help)                                                                     \
	if (event->field.data)                                                                     \
		json_string(&draft.json, key, event->field.data, event->field.len);
#define NUMBER(field, key, help)                                                                   \
	if (event->field != AUDIT_UNSET)                                                           \
		json_number(&draft.json, key, event->field);
#define FLAG(field, key, help) json_bool(&draft.json, key, event->field);
#define END                                                                                        \
	r = commit(log, &draft);                                                                   \
	buf_fini(&draft.fields);                                                                   \
	return r;                                                                                  \
	}
// clang-format off
#include "audit/events.def"
// clang-format on
