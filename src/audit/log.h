/* SPDX-License-Identifier: MIT */
/*
 * The audit log: one JSON line per record, each carrying the digest of the one before.
 *
 * A record is {"seq":N,"time":"…","prev":"…","event":"…", … ,"hash":"…"}. Its hash is the
 * SHA-256 of the line up to the hash; prev is the hash of the record before, or zeros. So
 * a record cannot be changed, taken out or moved without every later one disagreeing.
 *
 * Several processes may append to one file: records are written under a lock and chained
 * to what is last in the file then. Records are added first and then flushed, many at a
 * time: one lock, one write.
 */
#ifndef AUDIT_LOG_H
#define AUDIT_LOG_H

#include <stdio.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "tls/digest.h"

#define AUDIT_RECORD_MAX 8192
#define AUDIT_BATCH_MAX  (1 << 20) /* of what is added and not flushed */
#define AUDIT_HASH_LEN   ((size_t)2 * DIGEST_LEN)
#define AUDIT_UNSET      INT64_MIN /* a number that is not there */

enum audit_durability {
	AUDIT_WRITE, /* the kernel has it */
	AUDIT_FSYNC, /* the disk has it */
};

struct audit_log {
	int fd;
	const char *path; /* borrowed, for messages */
	enum audit_durability durability;
	uint64_t size; /* of the file after our last record; another's may have followed */
	uint64_t seq;  /* of the last record */
	char hash[AUDIT_HASH_LEN + 1];
	struct buf drafts; /* a line each: what follows "prev", without the hash */
	struct buf lines;  /* the same as they are written */
	bool is_full;      /* a draft found no room */
};

/* Opens for appending, and makes it readable for its owner only when it is new. The path must live
 * as long. */
int audit_open(struct audit_log *log, const char *path, enum audit_durability durability,
	       struct err *err) must_check;
void audit_close(struct audit_log *log);

#define EVENT(name, help)            struct audit_##name {
#define TEXT(field, key, most, help) struct bytes field;
#define NUMBER(field, key, help)     int64_t field;
#define FLAG(field, key, help)       bool field;
#define END                                                                                        \
	}                                                                                          \
	;
#include "audit/events.def"
#undef EVENT
#undef TEXT
#undef NUMBER
#undef FLAG
#undef END

/*
 * audit_add_decision and so on: the record is in the log once audit_flush has succeeded,
 * and what could not be recorded must not happen (INV-AUDIT-FIRST).
 */
#define EVENT(name, help)                                                                          \
	void audit_add_##name(struct audit_log *log, const struct audit_##name *event);
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

/*
 * Removes a record that a writer which was killed had begun: the last line without an end, if it
 * is the beginning of the next record of the chain. That it was there is added, to be flushed.
 * Anything else is left as it is, and found by the next flush. 0 or -errno.
 */
int audit_mend(struct audit_log *log) must_check;

/*
 * Writes what was added, all of it or nothing. On failure, -errno: decisions are dropped, and
 * beginnings of runs, because what they allow does not happen now; what has happened already
 * stays, to be written with the next flush.
 */
int audit_flush(struct audit_log *log) must_check;

#endif
