/* SPDX-License-Identifier: MIT */
/*
 * A run as the keeper knows it: who it is, who pays, and the terms that it works under. A run
 * belongs to one peer. Its identity is which link a message came in on; nothing in a message can
 * change it (INV-RUN-IDENTITY). Only on a link that many runs share are they told apart, by
 * tokens that the host has signed.
 */
#ifndef KEEPER_RUN_H
#define KEEPER_RUN_H

#include "base/runid.h"
#include "keeper/budget.h"
#include "keeper/terms.h"

struct peer;
struct run_question;

/* Who it is, as whoever starts it says. */
struct run_spec {
	const char *run_id;
	uint32_t attempt;
	const char *account;                    /* who pays; NULL: as the configuration says */
	const struct keeper_metadata *metadata; /* beside the configuration's */
	size_t metadata_count;
	const char *from; /* where it was asked for, for the record; NULL: here */
	int link_fd;      /* what its link is, for a run that begins */
};

struct run {
	struct run *next; /* of those that a peer knows by their tokens */
	struct peer *peer;
	struct arena arena; /* of what follows */
	char run_id[RUNID_MAX + 1];
	uint32_t attempt;
	const char *account; /* or NULL */
	struct keeper_metadata *metadata;
	size_t metadata_count;
	struct terms *terms;           /* for what is decided from now on */
	struct budget budget;          /* of bytes for hosts */
	bool is_enrolled;              /* the store knows that it has a link */
	bool is_revoked;               /* nothing is allowed any more */
	uint64_t begun_ms;             /* since 1970; 0: that is not known (keeper/run_time.h) */
	uint64_t age_ms, since_ms;     /* how old it was at least, and when that was */
	struct run_question *question; /* while the store is asked when it began; else NULL */
	struct loop_timer end_timer;   /* of its time */
	size_t exchange_count;         /* under way */
	uint64_t last_ms;              /* when there was one */
};

/* Copies the spec. NULL is what `err` explains. */
struct run *run_new(struct charter *charter, const struct run_spec *spec, struct err *err);
void run_free(struct run *run); /* no exchange may be under way; NULL is fine */

/* In milliseconds since 1970: its time began then, whatever has become of it since. */
void run_set_begun(struct run *run, uint64_t begun_ms, uint64_t now_ms);

/* When its time is over, by the limit as it is now; 0: never. */
uint64_t run_ends_ms(const struct run *run);

/* There is a new charter, and new limits. On failure the run goes on as it was. */
int run_renew(struct run *run, struct charter *charter, struct err *err) must_check;

#endif
