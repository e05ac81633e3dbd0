/* SPDX-License-Identifier: MIT */
/* One line of the audit log, taken apart as far as the chain needs it. */
#ifndef AUDIT_RECORD_H
#define AUDIT_RECORD_H

#include "audit/log.h"

struct audit_record {
	uint64_t seq;
	struct bytes prev, hash; /* hex digits */
	struct bytes hashed;     /* the part of the line that the hash is of */
};

/* `line` has no line end. False when it is no record. */
bool audit_record_parse(struct bytes line, struct audit_record *ret_record);

/*
 * Takes the next member off `members`, which begins as the text behind a record's first brace: of
 * `hashed` without that. A string keeps its quotes and escapes. False at the end.
 */
bool audit_record_member(struct bytes *members, struct bytes *ret_key, struct bytes *ret_value);

/* The hash that the line should have, as hex digits and a NUL. */
void audit_record_hash(struct bytes hashed, char *ret_hash);

#endif
