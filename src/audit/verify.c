/* SPDX-License-Identifier: MIT */
/*
 * Verification: every record's own hash, its number, and its link to the one before.
 *
 * After a fault the walk goes on from what the record says of itself, so that one change
 * is one report and not a report for every line that follows.
 */
#include "audit/verify.h"

#include <errno.h>

#include "audit/record.h"

const char *audit_problem_text(enum audit_problem problem)
{
	static const char *const texts[] = {
		[AUDIT_FINE] = "fine",
		[AUDIT_NO_RECORD] = "is no record",
		[AUDIT_CHANGED] = "was changed",
		[AUDIT_MISSING] = "records before it are missing",
		[AUDIT_MOVED] = "stands in another place than it was written",
		[AUDIT_FOREIGN] = "was written after another record than the one before it",
		[AUDIT_CUT] = "is incomplete",
	};

	return texts[problem];
}

struct walk {
	struct audit_summary *summary;
	uint64_t seq; /* of the last record */
	char hash[AUDIT_HASH_LEN + 1];
};

static enum audit_problem judge(const struct walk *walk, const struct audit_record *record)
{
	char hash[AUDIT_HASH_LEN + 1];

	audit_record_hash(record->hashed, hash);
	if (memcmp(hash, record->hash.data, AUDIT_HASH_LEN) != 0)
		return AUDIT_CHANGED;
	if (record->seq > walk->seq + 1)
		return AUDIT_MISSING;
	if (record->seq <= walk->seq)
		return AUDIT_MOVED;
	if (memcmp(record->prev.data, walk->hash, AUDIT_HASH_LEN) != 0)
		return AUDIT_FOREIGN;
	return AUDIT_FINE;
}

static void check_line(struct walk *walk, struct bytes line, struct audit_fault *fault)
{
	bool has_end = line.len > 0 && line.data[line.len - 1] == '\n';
	struct audit_record record;

	fault->expected = walk->seq + 1;
	line.len -= has_end;
	if (!has_end) {
		fault->problem = AUDIT_CUT;
		return;
	}
	if (!audit_record_parse(line, &record)) {
		fault->problem = AUDIT_NO_RECORD;
		return;
	}
	fault->seq = record.seq;
	fault->problem = judge(walk, &record);
	walk->seq = record.seq;
	memcpy(walk->hash, record.hash.data, AUDIT_HASH_LEN);
	walk->summary->records++;
}

int audit_verify(FILE *file, void (*on_fault)(const struct audit_fault *fault),
		 struct audit_summary *ret_summary)
{
	struct walk walk = { .summary = ret_summary };
	char line[AUDIT_RECORD_MAX + 1];

	*ret_summary = (struct audit_summary){ .records = 0 };
	memset(walk.hash, '0', AUDIT_HASH_LEN);
	/* A line that is longer than a record comes in pieces, none of which is one. */
	for (uint64_t number = 1; fgets(line, sizeof(line), file); number++) {
		struct audit_fault fault = { .line = number };

		check_line(&walk, bytes_of(line), &fault);
		if (fault.problem != AUDIT_FINE) {
			ret_summary->faults++;
			on_fault(&fault);
		}
	}
	memcpy(ret_summary->head, walk.hash, sizeof(ret_summary->head));
	return ferror(file) ? -EIO : 0;
}
