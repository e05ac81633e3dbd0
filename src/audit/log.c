/* SPDX-License-Identifier: MIT */
/* Appending to the audit log. */
#include "audit/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "audit/record.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/timestamp.h"

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

int audit_open(struct audit_log *log, const char *path, enum audit_durability durability,
	       struct err *err)
{
	struct stat st;

	*log = (struct audit_log){ .path = path, .durability = durability };
	memcpy(log->hash, zeros, sizeof(log->hash));
	buf_init(&log->drafts, AUDIT_BATCH_MAX);
	buf_init(&log->lines,
		 (size_t)16 * AUDIT_BATCH_MAX); /* the chain adds much to a small draft */
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
	buf_fini(&log->drafts);
	buf_fini(&log->lines);
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

/* Writes the lines whole, or takes back what was written of them. */
static int append(struct audit_log *log, struct bytes lines, uint64_t size)
{
	ssize_t n = write(log->fd, lines.data, lines.len);
	int r = n < 0 ? -errno : (size_t)n < lines.len ? -ENOSPC : 0;

	if (r == 0 && log->durability == AUDIT_FSYNC && fdatasync(log->fd) < 0)
		r = -errno;
	if (r < 0 && n > 0 && ftruncate(log->fd, (off_t)size) < 0)
		return r; /* the next one finds the rest and refuses */
	return r;
}

/* ---- drafts ---- */

#define LOCK_TRIES   2000
#define LOCK_WAIT_MS 1

#define CHAIN_MAX 512 /* more than what the chain adds to a draft */

/* Adds the record at its place in the chain, whose end moves to it. */
static void add_line(struct audit_log *log, struct bytes draft, const char *time, uint64_t seq,
		     char *hash)
{
	struct buf *lines = &log->lines;
	size_t start = lines->len;

	buf_add_text(lines, "{\"seq\":");
	buf_add_number(lines, seq);
	buf_add_text(lines, ",\"time\":\"");
	buf_add_text(lines, time);
	buf_add_text(lines, "\",\"prev\":\"");
	buf_add(lines, hash, AUDIT_HASH_LEN);
	buf_add_text(lines, "\",\"event\":");
	buf_add(lines, draft.data, draft.len);
	audit_record_hash((struct bytes){ lines->data + start, lines->len - start }, hash);
	buf_add_text(lines, ",\"hash\":\"");
	buf_add(lines, hash, AUDIT_HASH_LEN);
	buf_add_text(lines, "\"}\n");
}

static int flush_locked(struct audit_log *log)
{
	struct bytes drafts = { log->drafts.data, log->drafts.len }, draft;
	char hash[AUDIT_HASH_LEN + 1], time[TIMESTAMP_TEXT_MAX];
	uint64_t seq, size;
	struct stat st;
	int r;

	if (fstat(log->fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -ESTALE; /* removed: what is written now nobody could read */
	size = (uint64_t)st.st_size;
	r = catch_up(log, size);
	if (r < 0)
		return r;
	seq = log->seq;
	memcpy(hash, log->hash, sizeof(hash));
	timestamp_format(clock_ms(CLOCK_REALTIME), time);
	log->lines.len = 0;
	while (bytes_split(&drafts, '\n', &draft))
		add_line(log, draft, time, ++seq, hash);
	r = append(log, (struct bytes){ log->lines.data, log->lines.len }, size);
	if (r < 0)
		return r;
	log->seq = seq;
	log->size = size + log->lines.len;
	memcpy(log->hash, hash, sizeof(hash));
	return 0;
}

/* What is written before it happens. */
static bool is_ahead(struct bytes draft)
{
	static const struct bytes events[] = { BYTES("\"decision\""), BYTES("\"start\"") };

	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		if (draft.len >= events[i].len &&
		    memcmp(draft.data, events[i].data, events[i].len) == 0)
			return true;
	return false;
}

static void drop_ahead(struct audit_log *log)
{
	struct bytes drafts = { log->drafts.data, log->drafts.len }, draft;
	size_t kept = 0;

	while (bytes_split(&drafts, '\n', &draft)) {
		if (is_ahead(draft))
			continue;
		memmove(log->drafts.data + kept, draft.data, draft.len + 1); /* with its line end */
		kept += draft.len + 1;
	}
	log->drafts.len = kept;
}

/* Others hold it for one write. One who keeps it is not waited for without end. */
static int lock(const struct audit_log *log)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(log->fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EINTR && errno != EWOULDBLOCK)
			return -errno;
		poll(NULL, 0, LOCK_WAIT_MS);
	}
	return -EBUSY;
}

int audit_flush(struct audit_log *log)
{
	int r = 0;

	if (log->drafts.len == 0 && !log->is_full)
		return 0;
	r = lock(log);
	if (r == 0) {
		r = flush_locked(log);
		flock(log->fd, LOCK_UN);
	}
	if (r == 0 && log->is_full)
		r = -ENOBUFS; /* what was there is written, but something was not there */
	log->is_full = false;
	if (r == 0 || r == -ENOBUFS)
		log->drafts.len = 0;
	else
		drop_ahead(log);
	return r;
}

/* The last line without an end, when it is what a record would begin with. */
static size_t find_torn(struct bytes text, bool is_whole_file)
{
	const char *end = memrchr(text.data, '\n', text.len);
	struct bytes torn = { end ? end + 1 : text.data, 0 }, whole = { text.data, 0 }, line;
	struct audit_record record = { .seq = 0 };
	char begin[64];
	size_t len;

	torn.len = text.len - (size_t)(torn.data - text.data);
	whole.len = text.len - torn.len;
	if (torn.len == 0 || (!end && !is_whole_file))
		return 0;
	if (end &&
	    (!find_last_line(whole, is_whole_file, &line) || !audit_record_parse(line, &record)))
		return 0;
	len = (size_t)snprintf(begin, sizeof(begin), "{\"seq\":%" PRIu64 ",\"time\":\"",
			       record.seq + 1);
	return memcmp(torn.data, begin, torn.len < len ? torn.len : len) == 0 ? torn.len : 0;
}

static int mend_locked(struct audit_log *log)
{
	char tail[2 * (AUDIT_RECORD_MAX + 1)]; /* a record, and what was begun after it */
	struct audit_torn torn;
	struct stat st;
	uint64_t start;
	ssize_t n;
	size_t len;

	if (fstat(log->fd, &st) < 0)
		return -errno;
	start = (uint64_t)st.st_size > sizeof(tail) ? (uint64_t)st.st_size - sizeof(tail) : 0;
	n = pread(log->fd, tail, sizeof(tail), (off_t)start);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	len = find_torn((struct bytes){ tail, (size_t)n }, start == 0);
	if (len == 0)
		return 0;
	if (ftruncate(log->fd, st.st_size - (off_t)len) < 0)
		return -errno;
	torn.bytes = (int64_t)len;
	audit_add_torn(log, &torn);
	return 0;
}

int audit_mend(struct audit_log *log)
{
	int r = lock(log);

	if (r < 0)
		return r;
	r = mend_locked(log);
	flock(log->fd, LOCK_UN);
	return r;
}

/* However long the texts are that somebody sends, a draft is no larger than a record may be. */
// clang-format off
#define EVENT(name, help)            struct longest_##name { char event[sizeof(#name) + 2];
#define TEXT(field, key, most, help) char field[(most) + sizeof(key) + 5];
#define NUMBER(field, key, help)     char field[20 + sizeof(key) + 3];
#define FLAG(field, key, help)       char field[sizeof("false") + sizeof(key) + 3];
#define END                          };
#include "audit/events.def"
#undef EVENT
#undef TEXT
#undef NUMBER
#undef FLAG
#undef END
#define EVENT(name, help)                                                                          \
	static_assert(sizeof(struct longest_##name) < AUDIT_RECORD_MAX - CHAIN_MAX, "it has room");
#define TEXT(field, key, most, help)
#define NUMBER(field, key, help)
#define FLAG(field, key, help)
#define END
#include "audit/events.def"
#undef EVENT
#undef TEXT
#undef NUMBER
#undef FLAG
#undef END
// clang-format on

/* A draft that finds no room leaves nothing, and the next flush fails. */
static void end_draft(struct audit_log *log, size_t start)
{
	buf_add_text(&log->drafts, "\n");
	if (log->drafts.len < log->drafts.max)
		return;
	log->drafts.len = start;
	log->is_full = true;
}

#define EVENT(name, help)                                                                          \
	void audit_add_##name(struct audit_log *log, const struct audit_##name *event)             \
	{                                                                                          \
		struct json json = { .out = &log->drafts, .needs_comma = true };                   \
		size_t start = log->drafts.len;                                                    \
                                                                                                   \
		buf_add_text(&log->drafts, "\"" #name "\"");
#define TEXT(field, key, most, help)                                                               \
	if (event->field.data)                                                                     \
		json_string_cut(&json, key, event->field.data, event->field.len, most);
#define NUMBER(field, key, help)                                                                   \
	if (event->field != AUDIT_UNSET)                                                           \
		json_number(&json, key, event->field);
#define FLAG(field, key, help) json_bool(&json, key, event->field);
#define END                                                                                        \
	end_draft(log, start);                                                                     \
	}
// clang-format off
#include "audit/events.def"
// clang-format on
