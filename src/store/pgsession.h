/* SPDX-License-Identifier: MIT */
/*
 * The connection to PostgreSQL: it is made, used in rounds, given up and made again. What is asked
 * over it is in store/pgask.h.
 */
#ifndef STORE_PGSESSION_H
#define STORE_PGSESSION_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#include "store/pgask.h"
#include "store/pgurl.h"
#include "store/store.h"

#define PGSESSION_NUMBER_SIZE 24

enum pgsession_state {
	PGSESSION_DOWN,       /* no connection; the timer makes one */
	PGSESSION_DIALLING,   /* libpq is connecting */
	PGSESSION_SETTING_UP, /* the schema's script is under way */
	PGSESSION_GREETING,   /* statements are prepared, and the epoch is asked for */
	PGSESSION_UP,
	PGSESSION_CLOSED, /* given up by the owner; freed at the end of the turn */
};

struct pgsession {
	struct store *store; /* whose it is */
	enum pgsession_state state;
	struct pgurl url;
	PGconn *connection;
	struct loop_source source;
	struct loop_timer deadline; /* of what is under way, or of being down */
	struct loop_timer tick;
	struct loop_timer sender; /* at the end of the turn in which a round has ended */
	uint64_t answer_ms, alive_ms;
	uint64_t backoff_ms;
	uint64_t beat_due_ms, tidy_due_ms;
	char epoch[PGSESSION_NUMBER_SIZE];
	struct pgask_book book;
	/* The round: kinds in the order of their answers, and what was asked. */
	enum pgask round[PGASK_COUNT];
	size_t round_count, round_answered;
	struct pglist sent[PGASK_COUNT];
	unsigned int tries[PGASK_COUNT]; /* of what was sent, because it ran into others */
};

/* With its store and URL set. Dials at the loop's next turn. pgsession_fini is owed. */
void pgsession_start(struct pgsession *session);

/* To be done in the next round, once. */
void pgsession_ask_once(struct pgsession *session, enum pgask kind);

/* Sends what is waiting, unless a round is under way: then it goes with the next. */
void pgsession_flush(struct pgsession *session, uint64_t now_ms);

/* Answers all that is open, and says the last words. */
void pgsession_stop(struct pgsession *session);
void pgsession_fini(struct pgsession *session);

#endif
