/* SPDX-License-Identifier: MIT */
/*
 * The keeper: it holds the secrets, decides, dials, and writes the audit log.
 *
 * It reads nothing that the agent wrote except the messages of the link, which are checked
 * again as they are decoded. A turn of the loop:
 *
 *   links and origins are read; requests are judged and their records added
 *   the records are flushed: from here on they are in the log (INV-AUDIT-FIRST)
 *   only then is anything sent to an origin, or a connection made for it
 *   what the gates are to hear is written
 *
 * When the records cannot be written, the requests of this turn are refused instead. What has
 * happened already is written with the next decision, or a moment later.
 */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "audit/log.h"
#include "config/keeper_config.h"
#include "event/loop.h"
#include "http/h1_read.h"
#include "keeper/budget.h"
#include "keeper/learn.h"
#include "keeper/upstream.h"
#include "keeper/vault.h"
#include "net/connect.h"
#include "policy/rule.h"
#include "tls/tls_client.h"

#define KEEPER_INPUT_SIZE 65536 /* of one read */

struct exchange;
struct run;

/* A host that no rule allows, as an option would name it. */
struct refused_host {
	char name[HOST_MAX + 64];
	uint64_t count;
};

#define KEEPER_REFUSED_HOSTS_MAX 16

struct keeper {
	struct loop loop;
	const struct keeper_config *config;
	struct upstream upstreams[KEEPER_LLMS_MAX];
	struct policy policy; /* which hosts may be reached */
	struct vault vault;
	struct budget budget;        /* of bytes for hosts */
	struct upstream *hosts;      /* ... and have been */
	struct secret *token_secret; /* or NULL: a link is one run */
	struct net *net;             /* for upstreams that the operator names */
	struct net *host_net;        /* for hosts that the agent names: as they are */
	struct tls_client *tls;      /* NULL while no upstream needs it */
	struct audit_log audit;
	struct run *run;               /* the one link of a private keeper */
	struct loop_source owner;      /* whoever started us */
	struct loop_timer audit_timer; /* of outcomes that wait to be written with others */
	bool has_decision;             /* among the records of this turn */
	bool has_audit_failed;         /* ... and they could not be written when there were many */
	/* Of this turn, in their order: whoever goes on when the records are written, and
	 * whoever has bytes for an origin. */
	struct exchange *decided, *last_decided;
	struct exchange *dirty, *last_dirty;
	struct origin *dirty_origins; /* with something to write for their streams */
	uint64_t allowed, refused;
	struct refused_host refused_hosts[KEEPER_REFUSED_HOSTS_MAX]; /* the first of them */
	size_t refused_host_count;
	struct learn *learn;     /* what was refused, for a draft; or NULL */
	struct h1_result result; /* of the reply being read; for one event only */
	char input[KEEPER_INPUT_SIZE];
};

/* Opens what the configuration names: certificates and secrets. keeper_close is owed in any case.
 */
int keeper_open(struct keeper *keeper, const struct keeper_config *config,
		struct err *err) must_check;

/* Opens the audit log, and records in it that the run begins. */
int keeper_open_audit(struct keeper *keeper, const char *path, struct err *err) must_check;
void keeper_close(struct keeper *keeper);

/* After a record was added: writes them when there are many. */
void keeper_after_record(struct keeper *keeper);

/*
 * Serves one link until it ends, or until the other end of `owner_fd` is closed: whoever
 * started us is gone then, and a gate that has been taken over must not go on without it. 0 or
 * -errno. The link must not block, and is closed.
 */
int keeper_serve(struct keeper *keeper, int link_fd, int owner_fd) must_check;

#endif
