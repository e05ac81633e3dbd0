/* SPDX-License-Identifier: MIT */
/*
 * The keeper's log for its operator: one line per event of notices.def, as a JSON object or as
 * text. It is no record of what runs did, that is the audit log's; and so it may lose lines, and
 * never keeps the loop waiting: a line that is not taken at once is dropped, and as soon as lines
 * are taken again the first of them says how many are missing.
 *
 *	notice_write(&notices, NOTICE_RUN_BEGUN, now_ms,
 *		     &(struct notice){ .run_id = id, .uid = NOTICE_NUMBER(uid) });
 */
#ifndef KEEPER_NOTICE_H
#define KEEPER_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* A pipe takes so much as a whole or not at all. */
#define NOTICE_LINE_MAX 4096
#define NOTICE_METERS   256

enum notice_form {
	NOTICE_JSON,
	NOTICE_TEXT,
};

enum notice_event {
#define NOTICE(NAME, name, LEVEL, most, help) NOTICE_##NAME,
#include "keeper/notices.def"
	NOTICE_COUNT,
};

struct notice_number {
	bool is_set;
	int64_t value;
};

#define NOTICE_NUMBER(number) ((struct notice_number){ true, (int64_t)(number) })

/* What a line has beside time, level and event; what is not set is left out. */
struct notice {
#define TEXT(field, key, most, help) const char *field;
#define NUMBER(field, key, help)     struct notice_number field;
#include "keeper/notices.def"
};

struct notices {
	int fd;
	bool is_own_fd; /* opened here; else borrowed */
	bool is_socket;
	enum notice_form form;
	uint64_t dropped, dropped_total; /* since the last line that was taken; and ever */
	/* Of a line that a terminal or a full disk took in part. */
	char rest[NOTICE_LINE_MAX];
	size_t rest_len;
	/* How many lines of each event there were in a second. */
	struct notice_pace {
		uint64_t second_ms; /* when that began */
		uint32_t count;
		uint64_t suppressed;
	} paces[NOTICE_COUNT];
	/* The same of meters: a table of fixed size, in which those share that fall together. */
	uint64_t meters_ms[NOTICE_METERS];
};

/* `fd`, usually standard error, is borrowed and must stay. SIGPIPE must be ignored. */
void notice_open(struct notices *notices, int fd, enum notice_form form);
void notice_close(struct notices *notices);

void notice_write(struct notices *notices, enum notice_event event, uint64_t now_ms,
		  const struct notice *notice);

/* The same, but once a second for each `notice->meter`: a limit can be reached very often. */
void notice_write_limit(struct notices *notices, enum notice_event event, uint64_t now_ms,
			const struct notice *notice);

#endif
