/* SPDX-License-Identifier: MIT */
/* Walking the chain of an audit log. */
#ifndef AUDIT_VERIFY_H
#define AUDIT_VERIFY_H

#include "audit/log.h"
#include "audit/record.h"

enum audit_problem {
	AUDIT_FINE,
	AUDIT_NO_RECORD, /* a line that is none */
	AUDIT_CHANGED,   /* its own hash does not fit it */
	AUDIT_MISSING,   /* records before it are gone */
	AUDIT_MOVED,     /* it stands where an earlier one belongs, or stands twice */
	AUDIT_FOREIGN,   /* it follows another record than the one before it */
	AUDIT_CUT,       /* the last line has no end */
};

/* What is wrong at a line; `seq` is what it claims to be, `expected` what belongs there. */
struct audit_fault {
	enum audit_problem problem;
	uint64_t line, seq, expected;
};

#define AUDIT_FAULT_TEXT_MAX 192

/* "line 3: record 3 was changed". */
void audit_format_fault(const struct audit_fault *fault, char ret_text[AUDIT_FAULT_TEXT_MAX]);

struct audit_summary {
	uint64_t records;
	uint64_t faults;
	char head[AUDIT_HASH_LEN + 1]; /* the hash of the last record */
};

/* Told on the way; either may be NULL. */
struct audit_visitor {
	void (*on_fault)(void *owner, const struct audit_fault *fault);
	/* Whether something is wrong with it or not. Its views last for the call. */
	void (*on_record)(void *owner, const struct audit_record *record);
	void *owner;
};

/*
 * Walks as far as the log goes now: others may go on writing. 0, or -errno when it cannot be read.
 */
int audit_walk(FILE *file, const struct audit_visitor *visitor,
	       struct audit_summary *ret_summary) must_check;

/* Calls `on_fault` for each thing that is wrong. 0, or -errno when it cannot be read. */
int audit_verify(FILE *file, void (*on_fault)(const struct audit_fault *fault),
		 struct audit_summary *ret_summary) must_check;

#endif
