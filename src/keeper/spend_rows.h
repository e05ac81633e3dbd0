/* SPDX-License-Identifier: MIT */
/*
 * Reads the rows of LiteLLM's spend log out of JSON while it streams: [{…}, …], or an object
 * whose "data" is that. A row may hold whole conversations; only the few short texts below are
 * kept of it, so memory does not depend on what is in a row.
 */
#ifndef KEEPER_SPEND_ROWS_H
#define KEEPER_SPEND_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/json_walk.h" /* what is nested deeper than that is refused */
#include "base/runid.h"

#define SPEND_TEXT_MAX 256 /* of one text; what is longer is cut */

/*
 * A call as LiteLLM has it. A text that a row lacks is "".
 *
 * What a reply carries as x-litellm-call-id is litellm_call_id of a row, or of its metadata;
 * request_id, the key of the table, is the id in the body of the reply ("chatcmpl-…") wherever it
 * has one, and the call id otherwise. So either may be the one that we know.
 */
struct spend_row {
	const char *call_id;    /* or "": of a LiteLLM that does not record it */
	const char *request_id; /* or ""; one of both is there */
	const char *end_user;   /* "RUN/ATTEMPT" or a billing account, if warder made the call */
	const char *run_id;     /* as warder told it beside that; or "" */
	uint32_t attempt;       /* with run_id */
	const char *model;      /* the name it was asked for by, where the row has that */
	uint64_t cost;          /* as in base/money.h */
	uint64_t start_ms;      /* since 1970; 0: the row does not say */
};

/* Whose call it is: by what warder told beside the end user, else by an end user "RUN/ATTEMPT".
 * False when it says neither. */
bool spend_row_run(const struct spend_row *row, char ret_run_id[RUNID_MAX + 1],
		   uint32_t *ret_attempt);

/* Whether anything in it says that it is the run's; any attempt's when `attempt` is negative. */
bool spend_row_is_of(const struct spend_row *row, const char *run_id, int64_t attempt);

/* For each row. A negative errno, with *err set, ends the reading. */
typedef int spend_on_row(void *owner, const struct spend_row *row, struct err *err);

struct spend_rows;

struct spend_rows *spend_rows_new(spend_on_row *on_row, void *owner);
void spend_rows_free(struct spend_rows *rows);

/* 0, or -errno with *err set: EPROTO for what is no such list; it shows nothing of it. */
int spend_rows_push(struct spend_rows *rows, struct bytes data, struct err *err) must_check;

/* The text has ended: 0 when the list was whole. */
int spend_rows_end(const struct spend_rows *rows, struct err *err) must_check;

/* How many rows there were. */
uint64_t spend_rows_count(const struct spend_rows *rows);

#endif
