/* SPDX-License-Identifier: MIT */
/*
 * The store of one process: in memory, and written down where there is a journal. What it is made
 * of; the decisions are in local.c.
 *
 * Memory is the truth; the journal is what the next process will find. It has the totals of the
 * meters, and the holds: there, too, a meter stands at its total and what is held of it. What has
 * changed is gathered and written in one transaction, which leaves the journal as memory is at
 * that moment.
 *
 * - A hold is written before it is granted. When it cannot be, it is taken back from memory, and
 *   the answer is STORE_UNREACHABLE.
 * - What is settled has happened: it counts in memory, and waits until it can be written. Who is
 *   killed before that leaves the hold behind, which counts as well.
 * - What has to do with neither money nor a limit of bytes leaves no hold in the journal: places
 *   and rates do not outlive the process. Its bytes are in the totals a second later.
 */
#ifndef STORE_LOCAL_H
#define STORE_LOCAL_H

#include "store/journal.h"
#include "store/meter.h"
#include "store/store.h"
#include "store/table.h"

/* A meter with its name. */
struct tally {
	struct table_entry entry;
	struct tally *next, **at; /* in unwritten.tallies, while is_unwritten */
	struct tally *next_news;
	struct meter meter;
	struct limits limits; /* as it was last claimed with; its money by what is of money */
	size_t user_count;    /* holds and news that point here */
	bool is_loaded;       /* else what the journal has is not yet in its totals */
	bool is_unwritten;
	bool is_claimed; /* by what is of money, since it is in memory */
	bool is_used_up; /* `spent` has reached the limit */
	bool is_in_news;
	char name[];
};

struct hold {
	struct table_entry entry;
	struct table_entry by_call; /* in `kept`, when it is kept and has a call_id */
	struct hold *next, **at;    /* in unwritten.holds, while is_unwritten */
	struct tally *tallies[STORE_CLAIMS_MAX];
	size_t tally_count;
	uint64_t bytes, spend, made_at;
	uint64_t kept_at; /* since when it is; not written down: a process that loads it is late */
	bool is_journalled;
	bool is_kept; /* has no place: its exchange is over, or the process that held it */
	bool is_left; /* ... the latter, as far as is known: it may be asked for again, or settled
		       */
	bool is_over; /* in no table any more; it is removed from the journal and freed */
	bool is_unwritten;
	char id[STORE_ID_MAX], call_id[STORE_CALL_ID_MAX];
};

/* What a call was counted as: until it is written, or, without a journal, for a long time. */
struct call {
	struct table_entry entry;
	struct call *next; /* the one that came after it */
	uint64_t cost;
	bool is_truth;
	char id[STORE_CALL_ID_MAX];
};

/* A run with a link; without a journal every run that ever began. */
struct open_run {
	struct table_entry entry;
	uint64_t begun_ms;
	bool has_link;
	char id[RUNID_MAX + 1];
};

struct revoked {
	struct table_entry entry;
	char id[RUNID_MAX + 1];
};

struct local {
	struct store store;
	struct journal *journal;  /* or NULL */
	struct loop_timer timer;  /* to write what waits, and to see whether that works again */
	struct loop_timer burial; /* of what was left and nobody has asked for since */
	bool is_loaded;           /* what the process before has left is here */
	struct table tallies, holds, kept, calls, runs, revoked;
	struct {
		struct tally *tallies;
		struct hold *holds;
		bool is_urgent; /* more than bytes without a limit */
	} unwritten;
	struct call *first_call, **last_call;
	struct tally *news; /* whose money is used up, and which are to be told of */
};

/* ---- state (local_state.c) ---- */

void *local_alloc(size_t size);

/* The meter of that name. Others that are at rest may be forgotten: a tally in hand has a user. */
struct tally *local_get_tally(struct local *local, const char *name, uint64_t now_ms);

struct hold *local_find_hold(struct local *local, const char *id);

/* A hold of these, which become used by it; it counts nothing. */
struct hold *local_add_hold(struct local *local, const char *id, struct tally *const *tallies,
			    size_t count);

/* Makes it a kept one, under the call's id when there is one. */
void local_keep_hold(struct local *local, struct hold *hold, const char *call_id);
struct hold *local_find_kept(struct local *local, const char *call_id);

/* It was settled or released: gone, and to be removed from the journal. */
void local_end_hold(struct local *local, struct hold *hold);

/* It never was: gone, without a trace. */
void local_take_back_hold(struct local *local, struct hold *hold);

/* What a call was counted as: 1 when it is known, 0, or -EIO. */
int local_find_call(struct local *local, const char *call_id,
		    struct journal_call *ret_call) must_check;
void local_remember_call(struct local *local, const char *call_id, uint64_t cost, bool is_truth);

void local_free_state(struct local *local);

/* ---- what is decided (local.c) ---- */

/*
 * When a run began: as it is known (or 0), unless whoever asks has known it for longer. A clock
 * that was put back makes no run older.
 */
uint64_t local_begun_ms(uint64_t known_ms, uint64_t age_ms);

/*
 * Whoever left holds and is still there has asked for them again by now. The others are gone for
 * good: where there is no money to be reconciled nothing else would ever end them.
 */
void local_on_burial(struct loop_timer *timer, uint64_t now_ms);

/* ---- the journal (local_journal.c) ---- */

/* To be called on whatever has changed and is to be written. */
void local_touch_tally(struct local *local, struct tally *tally);
void local_touch_hold(struct local *local, struct hold *hold);

/* What has changed cannot wait longer than to the end of this turn. */
void local_hurry(struct local *local);

bool local_has_unwritten(const struct local *local);

/* 1 when the journal has it, 0, or -EIO. */
int local_load_call(struct local *local, const char *call_id,
		    struct journal_call *ret_call) must_check;

/* Each is true when it has worked, as it always has without a journal. */
bool local_load(struct local *local) must_check; /* what was left, once */
bool local_load_tally(struct local *local, struct tally *tally) must_check;
bool local_write(struct local *local) must_check; /* all that has changed, or a probe */
/* Also whether it has a link; `begun_ms` is when it began as far as is known, or 0, and then when
 * it did. */
bool local_write_run(struct local *local, const struct store_run *asked, bool has_link,
		     uint64_t *begun_ms) must_check;
bool local_write_end(struct local *local, const char *run_id) must_check; /* of its link */
bool local_write_revocation(struct local *local, const char *run_id) must_check;
void local_add_revoked(struct local *local, const char *run_id);

void local_on_timer(struct loop_timer *timer, uint64_t now_ms);

#endif
