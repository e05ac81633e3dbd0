/* SPDX-License-Identifier: MIT */
/* Lines for the operator, that nobody waits for. */
#include "keeper/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/timestamp.h"

#define PACE_MS 1000

/* As large as a line can be, with each byte of a text as \u00xx. */
struct longest_line {
	char beginning[160]; /* time, level and event */
#define TEXT(field, key, most, help) char field[(size_t)6 * (most) + sizeof(key) + 5];
#define NUMBER(field, key, help)     char field[20 + sizeof(key) + 3];
#include "keeper/notices.def"
};
_Static_assert(sizeof(struct longest_line) < NOTICE_LINE_MAX, "a line has room for its fields");

enum level {
	INFO,
	WARN,
	ERROR,
};

static const char *const level_names[] = { [INFO] = "info", [WARN] = "warn", [ERROR] = "error" };

static const struct {
	const char *name;
	enum level level;
	uint32_t most;
} events[] = {
#define NOTICE(NAME, name, LEVEL, most, help) [NOTICE_##NAME] = { #name, LEVEL, most },
#include "keeper/notices.def"
};

/* ---- the way out ---- */

/*
 * Not to wait is a property of an open file, which others may have open as well, such as the
 * shell whose terminal it is. So it is opened a second time; where that is not possible, poll
 * says beforehand whether there is room. A file never keeps one waiting, and opened anew it would
 * be written from another place.
 */
static int open_again(int fd)
{
	char path[40];
	struct stat st;

	if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void notice_open(struct notices *notices, int fd, enum notice_form form)
{
	struct stat st;
	int again = open_again(fd);

	*notices = (struct notices){ .form = form };
	notices->is_own_fd = again >= 0;
	notices->fd = again >= 0 ? again : fd;
	notices->is_socket = fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* How much of it was taken. */
static size_t put(const struct notices *notices, const char *bytes, size_t len)
{
	struct pollfd out = { .fd = notices->fd, .events = POLLOUT };
	ssize_t n;

	if (poll(&out, 1, 0) <= 0 || !(out.revents & POLLOUT))
		return 0;
	n = notices->is_socket ? send(notices->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL)
			       : write(notices->fd, bytes, len);
	return n < 0 ? 0 : (size_t)n;
}

static bool flush_rest(struct notices *notices)
{
	size_t n;

	if (notices->rest_len == 0)
		return true;
	n = put(notices, notices->rest, notices->rest_len);
	notices->rest_len -= n;
	memmove(notices->rest, notices->rest + n, notices->rest_len);
	return notices->rest_len == 0;
}

/* False when nothing of it went out; what was begun is always brought to its end. */
static bool put_line(struct notices *notices, struct bytes line)
{
	size_t n;

	if (!flush_rest(notices))
		return false;
	n = put(notices, line.data, line.len);
	if (n > 0 && n < line.len) {
		notices->rest_len = line.len - n;
		memcpy(notices->rest, line.data + n, notices->rest_len);
	}
	return n > 0;
}

/* ---- lines ---- */

static struct bytes cut(const char *text, size_t most)
{
	return (struct bytes){ text, strnlen(text, most) };
}

static void format_json(struct buf *out, enum notice_event event, const char *time,
			const struct notice *notice)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_text(&json, "time", time);
	json_text(&json, "level", level_names[events[event].level]);
	json_text(&json, "event", events[event].name);
#define TEXT(field, key, most, help)                                                               \
	if (notice->field)                                                                         \
		json_string(&json, key, notice->field, cut(notice->field, most).len);
#define NUMBER(field, key, help)                                                                   \
	if (notice->field.is_set)                                                                  \
		json_number(&json, key, notice->field.value);
#include "keeper/notices.def"
	json_close(&json, '}');
}

/* Whether a text needs no quotes to be told from what follows it. */
static bool is_word(struct bytes text)
{
	static const char others[] = ".-_:/@%+";

	for (size_t i = 0; i < text.len; i++) {
		char c = ascii_lower(text.data[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && !strchr(others, c))
			return false;
	}
	return text.len > 0;
}

static void add_word(struct buf *out, const char *key, struct bytes value)
{
	struct json json = { .out = out };

	buf_add_text(out, " ");
	buf_add_text(out, key);
	buf_add_text(out, "=");
	if (is_word(value))
		buf_add(out, value.data, value.len);
	else
		json_string(&json, NULL, value.data, value.len);
}

static void add_figure(struct buf *out, const char *key, int64_t value)
{
	struct json json = { .out = out };

	buf_add_text(out, " ");
	buf_add_text(out, key);
	buf_add_text(out, "=");
	json_number(&json, NULL, value);
}

static void format_text(struct buf *out, enum notice_event event, const char *time,
			const struct notice *notice)
{
	buf_add_text(out, time);
	buf_add_text(out, " ");
	buf_add_text(out, level_names[events[event].level]);
	buf_add_text(out, " ");
	buf_add_text(out, events[event].name);
#define TEXT(field, key, most, help)                                                               \
	if (notice->field)                                                                         \
		add_word(out, key, cut(notice->field, most));
#define NUMBER(field, key, help)                                                                   \
	if (notice->field.is_set)                                                                  \
		add_figure(out, key, notice->field.value);
#include "keeper/notices.def"
}

static bool write_one(struct notices *notices, enum notice_event event, const struct notice *notice)
{
	char time[TIMESTAMP_TEXT_MAX];
	struct buf line;
	bool is_taken;

	buf_init(&line, NOTICE_LINE_MAX);
	timestamp_format(clock_ms(CLOCK_REALTIME), time);
	if (notices->form == NOTICE_JSON)
		format_json(&line, event, time, notice);
	else
		format_text(&line, event, time, notice);
	buf_add_text(&line, "\n");
	is_taken = put_line(notices, (struct bytes){ line.data, line.len });
	buf_fini(&line);
	return is_taken;
}

/* Says how many are missing, before anything else is said. */
static void tell_dropped(struct notices *notices)
{
	struct notice notice = { .count = NOTICE_NUMBER(notices->dropped) };

	if (notices->dropped > 0 && write_one(notices, NOTICE_LINES_DROPPED, &notice))
		notices->dropped = 0;
}

/* Whether there were as many lines of this event in this second as there may be. */
static bool is_too_many(struct notices *notices, enum notice_event event, uint64_t now_ms)
{
	struct notice_pace *pace = &notices->paces[event];

	if (events[event].most == 0)
		return false;
	if (pace->count == 0 || now_ms - pace->second_ms >= PACE_MS)
		*pace = (struct notice_pace){ now_ms, 0, pace->suppressed };
	if (pace->count < events[event].most) {
		pace->count++;
		return false;
	}
	return true;
}

void notice_write(struct notices *notices, enum notice_event event, uint64_t now_ms,
		  const struct notice *notice)
{
	uint64_t *suppressed = &notices->paces[event].suppressed;
	struct notice full = *notice;

	if (is_too_many(notices, event, now_ms)) {
		++*suppressed;
		return;
	}
	if (*suppressed > 0)
		full.suppressed = NOTICE_NUMBER(*suppressed);
	tell_dropped(notices);
	if (notices->dropped == 0 && write_one(notices, event, &full)) {
		*suppressed = 0;
		return;
	}
	notices->dropped++;
	notices->dropped_total++;
}

/* FNV-1a: who makes meters fall together has fewer lines written about themselves. */
static size_t place_of(const char *meter)
{
	uint32_t hash = 2166136261;

	for (; *meter; meter++)
		hash = (hash ^ (unsigned char)*meter) * 16777619;
	return hash % NOTICE_METERS;
}

void notice_write_limit(struct notices *notices, enum notice_event event, uint64_t now_ms,
			const struct notice *notice)
{
	uint64_t *last_ms = &notices->meters_ms[place_of(notice->meter ? notice->meter : "")];

	if (*last_ms != 0 && now_ms - *last_ms < PACE_MS) {
		notices->paces[event].suppressed++;
		return;
	}
	*last_ms = now_ms;
	notice_write(notices, event, now_ms, notice);
}

void notice_close(struct notices *notices)
{
	if (flush_rest(notices))
		tell_dropped(notices);
	if (notices->is_own_fd)
		close(notices->fd);
	notices->fd = -1;
}
