/* SPDX-License-Identifier: MIT */
/*
 * What must outlive a keeper, or be one truth for several: how much runs, accounts and hosts have
 * used, which runs have a link, and which are revoked.
 *
 * Reserve, then settle. Before a request goes out it reserves what it may use: a place in the
 * rate, a place among those under way, bytes, money. All of it or nothing, in one step that no
 * other request comes between, however many keepers ask. What was reserved is a *hold*, which is
 * in the store before the request is sent; settling it puts what was really used in its place. A
 * keeper that is killed therefore leaves holds behind, which count as used until they are
 * settled: limits hold, and errors are on the safe side. How many bytes a request will move is
 * often not known: it holds some more than it needs, and asks for more in time.
 *
 * A hold of money is settled with the cost that the upstream reports (INV-BILLING-TRUTH). When
 * none is known it is *kept*: its place is free again, its money is not, until reconciliation
 * says what the call has cost.
 *
 * A backend is a table of functions. All answers come by callback, at once or later, once each;
 * a store that cannot be reached answers STORE_UNREACHABLE within a bounded time, and whoever
 * asked refuses (INV-FAIL-CLOSED). It comes back by itself. What is settled meanwhile waits; there
 * is no more of it than there were holds.
 *
 * A run that is over is forgotten: when it began, and its meter, go together, once it has no link,
 * nothing is held of it, and it was last used more than STORE_RUN_DAYS ago. That is longer than a
 * run can be given, and than a token is valid that is minted here without a date of its own. Who
 * comes back later is a new run. It is used when it is opened and closed, and when its meter
 * changes: of one that comes by tokens, and has no meter, that is when a gate last asked since when
 * its time counts, and not its last request. Meters of accounts and hosts stay, and so do
 * revocations: nobody knows how long tokens are valid that were minted elsewhere. A store in memory
 * forgets no run: it grows by each that is opened, so also by each that a token names while the
 * time of runs is limited.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/runid.h"
#include "event/loop.h"

#define STORE_CLAIMS_MAX  3
#define STORE_ID_MAX      64 /* of a hold, with its NUL */
#define STORE_CALL_ID_MAX 80
#define STORE_LOG_LEN     9     /* of the name of an upstream's log: a dot and eight characters */
#define STORE_LOGS_MAX    256   /* of such names one behind the other, with a NUL */
#define STORE_ANSWER_MS   2000  /* what takes longer counts as unreachable */
#define STORE_ALIVE_MS    15000 /* a keeper that is silent for so long is gone; its links, too */

/* In postgres.sql and redis/common.lua as well. */
#define STORE_RUN_DAYS 366
_Static_assert(STORE_RUN_DAYS > LIMITS_DURATION_DAYS, "a run is not forgotten within its time");

struct store;

enum store_verdict {
	STORE_GRANTED,
	STORE_NO_RATE, /* the limit that is used up */
	STORE_NO_PLACE,
	STORE_NO_BYTES,
	STORE_NO_MONEY,
	STORE_IS_REVOKED,  /* the run is */
	STORE_HAS_LINK,    /* the run has a link that lives */
	STORE_UNREACHABLE, /* nothing is known; nothing is granted */
};

/* What is counted together: "run:ID", "account:ID" or "host:NAME". A host has no money. */
struct store_claim {
	const char *meter;
	struct limits limits; /* as they are now: a reload may have changed them */
};

/* One request's. Borrowed by the store from store_reserve to on_done, with what it points to. */
struct store_reservation {
	struct store_reservation *next;
	/* Of the hold; never used before. It ends in the name of the log that will have the call,
	 * where there is one. */
	char id[STORE_ID_MAX];
	const char *run_id, *account; /* whose it is; account is "" where there is none */
	uint32_t attempt;
	struct store_claim claims[STORE_CLAIMS_MAX];
	size_t claim_count;
	/*
	 * It may cost money. Else limits of money are nothing to it: they are neither tested nor
	 * remembered, so that what it claims with changes nothing for those that do.
	 */
	bool is_of_money;
	uint64_t bytes, spend; /* how much */
	/*
	 * Bytes beside those, of which nobody knows yet how many it will be: as many as there are
	 * left, up to so many. Where there are none at all, that is a refusal.
	 */
	uint64_t more;
	/*
	 * Nothing but `more`, for the hold of that id, which becomes so much larger: it takes
	 * nothing else, and no other limits count. A hold that is not there gets no bytes.
	 */
	bool is_more;
	bool is_told; /* nobody waits for the answer, which may take any time */
	/* The answer. */
	enum store_verdict verdict;
	uint64_t granted_bytes; /* `bytes`, and what there was of `more` */
	size_t refused_claim;   /* which of the claims says no */
	uint64_t retry_ms;      /* when it might say yes; 0: not by waiting */
	void (*on_done)(struct store_reservation *reservation, uint64_t now_ms);
};

/* Budgets are of runs and accounts: of what a host costs nothing is held or counted as its own. */
static inline bool store_has_money(const char *meter)
{
	return strncmp(meter, "host:", 5) != 0;
}

/* The limit of money that a claim is tested by; 0: none. */
static inline uint64_t store_spend_limit(const struct store_reservation *reservation, size_t claim)
{
	return reservation->is_of_money && store_has_money(reservation->claims[claim].meter)
		       ? reservation->claims[claim].limits.spend
		       : 0;
}

/* What was really used. */
struct store_settlement {
	const char *id; /* of the hold */
	uint64_t bytes;
	bool is_cost_known; /* else the money is kept, when there is some in the hold */
	uint64_t cost;
	const char *call_id; /* the upstream's, or "" */
};

/*
 * A run begins, or goes on. Its time begins once, whatever it comes by: when any keeper first
 * knows of it.
 */
struct store_run {
	struct store_run *next;
	const char *run_id, *account;
	uint32_t attempt;
	/*
	 * It comes by tokens: it takes no link, none is in its way, and there is nothing to be
	 * closed.
	 */
	bool has_no_link;
	uint64_t age_ms; /* how old it is at least, as far as is known here */
	bool is_told;    /* nobody waits for the answer, which may take any time */
	/* The answer: GRANTED, IS_REVOKED, HAS_LINK or UNREACHABLE. */
	enum store_verdict verdict;
	uint64_t begun_ms; /* GRANTED: the first time, in milliseconds since 1970 */
	void (*on_done)(struct store_run *run, uint64_t now_ms);
};

/* A call as the upstream's own log has it. */
struct store_call {
	struct store_call *next;
	const char *call_id, *run_id, *account;
	uint32_t attempt;
	uint64_t cost;
	/* The answer: GRANTED or UNREACHABLE; and what was counted for it before. */
	enum store_verdict verdict;
	bool was_known;
	uint64_t counted;
	void (*on_done)(struct store_call *call, uint64_t now_ms);
};

/* What has been read, and reconciled, of upstreams' own logs. Times are in seconds since 1970. */
struct store_release {
	char logs[STORE_LOGS_MAX]; /* their names */
	uint64_t since_s;          /* every call that began since then */
	uint64_t before_s;         /* ... and had ended before */
};

/* What one meter stands at, to be shown. */
struct store_meter {
	struct store_meter *next;
	const char *meter;
	enum store_verdict verdict; /* GRANTED or UNREACHABLE */
	uint64_t bytes, spent, reserved, concurrent;
	void (*on_done)(struct store_meter *meter, uint64_t now_ms);
	void *owner; /* of whoever asks */
};

/* A revocation, for ever. */
struct store_revocation {
	struct store_revocation *next;
	const char *run_id;
	enum store_verdict verdict; /* GRANTED or UNREACHABLE */
	void (*on_done)(struct store_revocation *revocation, uint64_t now_ms);
};

/*
 * What the store tells unasked, while a run is open here: a run is revoked (by another keeper,
 * too), or the money of a meter that a run here counts on is used up: `spent` alone has reached
 * the limit that something of money was last claimed with. Within a second of its happening
 * anywhere.
 */
enum store_news {
	STORE_NEWS_REVOKED,  /* about: the run's id */
	STORE_NEWS_NO_MONEY, /* about: the meter */
};

struct store_ops {
	const char *name;
	bool is_of_one_process; /* no other can have the same at the same time */
	/* A list, in the order in which they count. */
	void (*reserve)(struct store *store, struct store_reservation *first, uint64_t now_ms);
	/* Copies what it needs. One that is not known (settled before) is passed over. */
	void (*settle)(struct store *store, const struct store_settlement *settlement,
		       uint64_t now_ms);
	/*
	 * A run may have one link at a time, among all keepers that live. The struct lives until
	 * on_done; close may follow only a GRANTED one with a link.
	 */
	void (*open_run)(struct store *store, struct store_run *run, uint64_t now_ms);
	void (*close_run)(struct store *store, const char *run_id, uint64_t now_ms);
	/*
	 * A run that has tokens here, with a link or without, is to have news as if it were open,
	 * or no more: off as often as it was on. NULL where nobody else could make any.
	 */
	void (*watch)(struct store *store, const char *run_id, bool is_on);
	void (*revoke)(struct store *store, struct store_revocation *revocation, uint64_t now_ms);
	void (*read_meter)(struct store *store, struct store_meter *meter, uint64_t now_ms);
	/*
	 * The truth about a call: its meters are corrected by what it differs from what was
	 * counted. They are those of the hold that was kept for it, which is released, as if it
	 * had been settled with this cost; where there is none, the run's, and the account's unless
	 * that is "". Doing it again changes nothing.
	 */
	void (*reconcile)(struct store *store, struct store_call *call, uint64_t now_ms);
	/*
	 * What these logs would have if it had been a call was none: holds of theirs that were
	 * made since then, and kept before, are released; those of a keeper that is gone as if it
	 * had kept them when it went. What these had of bytes may have been used, and counts as
	 * used. Every other hold stays: nobody knows what it has cost.
	 */
	void (*release)(struct store *store, const struct store_release *release, uint64_t now_ms);
	/* At the end of a turn: what was gathered goes out. May be NULL. */
	void (*flush)(struct store *store, uint64_t now_ms);
	void (*close)(struct store *store); /* answers what is open as UNREACHABLE; frees */
};

struct store {
	const struct store_ops *ops;
	struct loop *loop;
	char keeper_id[RUNID_MAX + 1]; /* of this process, new at each start */
	bool is_reachable;             /* as far as is known */
	uint64_t failure_count;        /* answers that were STORE_UNREACHABLE */
	char fault[256]; /* why not, in words without a password; "" while it is reachable */
	/* Set by the owner, or NULL. */
	void (*on_news)(struct store *store, enum store_news news, const char *about,
			uint64_t now_ms);
	void *owner;
};

/*
 * One for this process alone: in memory, and in a database when `journal` is not NULL (see
 * store/journal.h). Never fails to answer at once.
 */
struct journal;
struct store *store_local_new(struct loop *loop, struct journal *journal);

#endif
