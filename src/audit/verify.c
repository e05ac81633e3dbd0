/* SPDX-License-Identifier: MIT */
/*
 * Verification: every record's own hash, its number, and its link to the one before.
 *
 * After a fault the walk goes on from what the record says of itself, so that one change
 * is one report and not a report for every line that follows.
 */
#include "audit/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_TRIES   200
#define LOCK_WAIT_MS 1

static const char *problem_text(enum audit_problem problem)
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

void audit_format_fault(const struct audit_fault *fault, char ret_text[AUDIT_FAULT_TEXT_MAX])
{
	int len = snprintf(ret_text, AUDIT_FAULT_TEXT_MAX, "line %" PRIu64 ": ", fault->line);
	size_t left = AUDIT_FAULT_TEXT_MAX - (size_t)len;

	if (fault->problem == AUDIT_MISSING)
		snprintf(ret_text + len, left,
			 "record %" PRIu64 ": records %" PRIu64 " to %" PRIu64 " are missing",
			 fault->seq, fault->expected, fault->seq - 1);
	else if (fault->seq)
		snprintf(ret_text + len, left, "record %" PRIu64 " %s", fault->seq,
			 problem_text(fault->problem));
	else
		snprintf(ret_text + len, left, "%s", problem_text(fault->problem));
}

struct walk {
	const struct audit_visitor *visitor;
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
	if (walk->visitor->on_record)
		walk->visitor->on_record(walk->visitor->owner, &record);
}

/* Where the last record ends that is whole: whoever writes one holds the lock meanwhile, briefly.
 */
static uint64_t find_end(FILE *file)
{
	struct stat st;
	uint64_t end = UINT64_MAX;

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fileno(file), LOCK_SH | LOCK_NB) == 0) {
			if (fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode))
				end = (uint64_t)st.st_size;
			flock(fileno(file), LOCK_UN);
			break;
		}
		if (errno != EWOULDBLOCK && errno != EINTR)
			break; /* no file that anybody could lock */
		poll(NULL, 0, LOCK_WAIT_MS);
	}
	return end;
}

int audit_walk(FILE *file, const struct audit_visitor *visitor, struct audit_summary *ret_summary)
{
	struct walk walk = { .visitor = visitor, .summary = ret_summary };
	uint64_t left = find_end(file);
	char line[AUDIT_RECORD_MAX + 1];

	*ret_summary = (struct audit_summary){ .records = 0 };
	memset(walk.hash, '0', AUDIT_HASH_LEN);
	/* A line that is longer than a record comes in pieces, none of which is one. */
	for (uint64_t number = 1; left > 0 && fgets(line, sizeof(line), file); number++) {
		struct audit_fault fault = { .line = number };
		size_t len = strlen(line);

		left -= len < left ? len : left;
		check_line(&walk, bytes_of(line), &fault);
		if (fault.problem != AUDIT_FINE) {
			ret_summary->faults++;
			if (visitor->on_fault)
				visitor->on_fault(visitor->owner, &fault);
		}
	}
	memcpy(ret_summary->head, walk.hash, sizeof(ret_summary->head));
	return ferror(file) ? -EIO : 0;
}

struct verification {
	void (*on_fault)(const struct audit_fault *fault);
};

static void pass_fault_on(void *owner, const struct audit_fault *fault)
{
	const struct verification *verification = owner;

	verification->on_fault(fault);
}

int audit_verify(FILE *file, void (*on_fault)(const struct audit_fault *fault),
		 struct audit_summary *ret_summary)
{
	struct verification verification = { on_fault };
	struct audit_visitor visitor = { .on_fault = pass_fault_on, .owner = &verification };

	return audit_walk(file, &visitor, ret_summary);
}
