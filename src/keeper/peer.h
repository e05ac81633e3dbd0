/* SPDX-License-Identifier: MIT */
/*
 * A gate as the keeper knows it: its link, the exchanges on it, and whose they are. That is one
 * run, or, where a gate serves agents that warder did not start, whichever run the token of a
 * request names.
 */
#ifndef KEEPER_PEER_H
#define KEEPER_PEER_H

#include "keeper/keeper.h"
#include "keeper/learn.h"
#include "keeper/run.h"
#include "link/port.h"

#define PEER_OUT_MAX  (32 << 20) /* what may wait to be written to the gate */
#define PEER_RUNS_MAX 4096       /* known by their tokens; one that does nothing makes room */

/* How its link came. */
enum peer_kind {
	PEER_LOCAL,  /* from this machine */
	PEER_REMOTE, /* from another one */
	PEER_OPEN,   /* of a gate whose requests each have a token */
};

/* A host that no rule allows, as an option would name it. */
struct refused_host {
	char name[HOST_MAX + 64];
	uint64_t count;
};

#define PEER_REFUSED_HOSTS_MAX 16

struct peer {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct keeper *keeper;
	struct peer *next, **at; /* all of the keeper's */
	struct peer *next_dirty; /* those with something to write */
	struct link_port link;
	struct run *run;       /* or NULL: every request names its own */
	enum peer_kind kind;   /* OPEN with a run: the tokens must be that run's */
	struct run **by_token; /* runs that tokens have named, by a hash; or NULL */
	size_t token_run_count;
	struct exchange **exchanges; /* by their number, modulo how many places there are */
	size_t place_count;
	uint64_t begun_ms;
	bool is_stalled; /* the gate does not keep up: origins wait */
	bool is_dirty, is_over;
	uint64_t allowed, refused;
	struct refused_host *refused_hosts; /* the first of them */
	size_t refused_host_count;
	struct learn *learn; /* what was refused, for a draft, owned; or NULL */
	/* Its link has ended: the last that is heard of it; what it has counted is still there. */
	void (*on_over)(struct peer *peer, uint64_t now_ms);
	void *owner; /* of whoever waits for that */
};

/*
 * Takes the link and the run over, records that the run begins, and says hello. On failure, which
 * `err` explains, the link is closed and the run still the caller's.
 */
int peer_open(struct keeper *keeper, struct stream *link, struct run *run, enum peer_kind kind,
	      struct peer **ret_peer, struct err *err) must_check;

/* Ends every exchange with `why`, and the link. It may be called from anywhere, and twice. */
void peer_close(struct peer *peer, const char *why, uint64_t now_ms);

/*
 * There is a new charter: requests from now on are judged by it, and those whose body decides and
 * has not come. Those under way that use a secret which is not in it any more, or not for that
 * host, are cut off. On failure the peer is to be closed.
 */
int peer_renew(struct peer *peer, struct charter *charter, uint64_t now_ms,
	       struct err *err) must_check;

const char *peer_kind_name(enum peer_kind kind);

/* Where messages to the gate are written; they go out at the end of the turn. */
struct buf *peer_out(struct peer *peer);

/*
 * Whether the gate does not keep up: nothing of a reply is passed on to it. Those who had to wait
 * are called when it does again (exchange_on_credit, with no more credit).
 */
static inline bool peer_is_behind(const struct peer *peer)
{
	return peer->is_stalled || link_port_is_behind(&peer->link);
}

/* Writes what the link takes. */
void peer_flush(struct peer *peer, uint64_t now_ms);

/* -EPROTO when the number is in use, or there are too many. */
int peer_add_exchange(struct peer *peer, struct exchange *exchange) must_check;
void peer_remove_exchange(struct peer *peer, const struct exchange *exchange);
size_t peer_count_exchanges(const struct peer *peer); /* under way */

/* Whether a token has named that run before, and it was not forgotten since. */
bool peer_knows_run(const struct peer *peer, const struct run_spec *spec);

/* The run that a token has named. NULL with what `err` says when there are too many. */
struct run *peer_find_run(struct peer *peer, const struct run_spec *spec, uint64_t now_ms,
			  struct err *err);

/* All of those, one after the other, from NULL to NULL. */
struct run *peer_next_token_run(const struct peer *peer, const struct run *after);

/* What this gate has of one run, by its link and by tokens: one after the other, NULL to NULL. */
struct run *peer_next_run_of(const struct peer *peer, const char *run_id, const struct run *after);

/* For the end, where somebody may wonder what was missing. */
void peer_note_refused_host(struct peer *peer, const char *name);

#endif
