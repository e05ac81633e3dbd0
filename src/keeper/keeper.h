/* SPDX-License-Identifier: MIT */
/*
 * The keeper: it holds the secrets, decides, dials, and writes the audit log.
 *
 * It reads nothing that the agent wrote except the messages of the link, which are checked
 * again as they are decoded. A turn of the loop:
 *
 *   links and origins are read; requests are judged and their records added
 *   the records are flushed: from here on they are in the log (INV-AUDIT-FIRST)
 *   only then is anything sent to an origin, or a connection made for it, or anybody told that
 *   a link is refused
 *   what the gates are to hear is written
 *
 * When the records cannot be written, the requests of this turn are refused instead. What has
 * happened already is written with the next decision, or a moment later.
 */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "audit/log.h"
#include "event/loop.h"
#include "http/h1_read.h"
#include "keeper/charter.h"
#include "keeper/metrics.h"
#include "keeper/notice.h"
#include "keeper/refused.h"
#include "net/connect.h"
#include "store/store.h"

#define KEEPER_INPUT_SIZE 65536 /* of one read */

struct exchange;
struct peer;

struct keeper {
	struct loop loop;
	struct charter *charter; /* by which new requests are judged */
	struct net *net;         /* for upstreams that the operator names */
	struct net *host_net;    /* for hosts that the agent names: as they are */
	struct audit_log audit;
	struct store *store; /* of limits and revocations, owned; NULL: there are none */
	bool is_store_lost;  /* as the operator was told */
	uint64_t hold_count; /* by which holds are named */
	/* When the earliest began of the calls that have ended since somebody last looked here, and
	 * whose cost a log will say; in seconds since 1970, or 0. */
	uint64_t early_call_s;
	struct peer *peers;    /* every gate */
	struct unread *unread; /* links that users have not taken (keeper/unread.h) */
	size_t peer_count;
	bool is_draining; /* no run begins any more, and with the last one the loop ends */
	bool is_lending;  /* ... unless another keeper counts by our store */
	bool is_replaced; /* by another keeper, where open gates will go; until then they stay */
	struct loop_timer heap_timer;  /* runs have ended: what they used is given back */
	struct loop_timer audit_timer; /* of outcomes that wait to be written with others */
	bool has_decision;             /* among the records of this turn */
	bool is_audit_failing;         /* the last time */
	bool has_audit_failed;         /* ... and a write has failed since, and dropped them */
	/* Of this turn, in their order: what is to be asked of the store, whoever goes on when the
	 * records are written, and whoever has bytes for an origin. */
	struct store_reservation *asked, *last_asked;
	struct exchange *decided, *last_decided;
	struct exchange *dirty, *last_dirty;
	struct origin *dirty_origins; /* with something to write for their streams */
	struct peer *dirty_peers;     /* with something to write to their gate */
	struct refused refused;       /* links that are not opened */
	struct metrics metrics;
	struct notices *notices; /* the log for the operator, borrowed; or NULL: there is none */
	struct h1_result result; /* of the reply being read; for one event only */
	char input[KEEPER_INPUT_SIZE];
};

/* Takes a use of the charter. keeper_close is owed in any case. */
int keeper_open(struct keeper *keeper, struct charter *charter, struct err *err) must_check;

int keeper_open_audit(struct keeper *keeper, const char *path, struct err *err) must_check;
void keeper_close(struct keeper *keeper);

/* After a record was added: writes them when there are many. */
void keeper_after_record(struct keeper *keeper);

/*
 * Writes what was added, now. On failure the decisions of this turn are dropped, and what they
 * allow does not happen.
 */
int keeper_write_records(struct keeper *keeper, struct err *err) must_check;

/* Runs have ended, one or a thousand: the memory that they used is given back a little later. */
void keeper_give_back(struct keeper *keeper, uint64_t now_ms);

/* A line for the operator, where there is a log for that. */
void keeper_notice(struct keeper *keeper, enum notice_event event, uint64_t now_ms,
		   const struct notice *notice);

/* Serves until the loop is ended; then ends every link. 0 or -errno. */
int keeper_serve(struct keeper *keeper) must_check;

#endif
