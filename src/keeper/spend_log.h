/* SPDX-License-Identifier: MIT */
/*
 * Asks a LiteLLM for its spend log: what every call has cost, as it has recorded it. That is the
 * truth (INV-BILLING-TRUTH), which `warder spend` compares with the audit log, and which a keeper
 * corrects its budgets by:
 *
 *   query.upstream = …; query.since_s = when it last asked, and some minutes before that;
 *   query.until_s = now; query.on_row = settles the call; query.on_done = remembers when
 *   log = spend_log_start(net, loop, tls, &query, now_ms);
 *
 * Rows come in any order. LiteLLM asks for whole days and writes its log some seconds after the
 * calls, so rows from before `since_s` come as well, and the same row may come again: whoever
 * takes them must not mind. An error after some rows means that there may be more.
 */
#ifndef KEEPER_SPEND_LOG_H
#define KEEPER_SPEND_LOG_H

#include "keeper/fetch.h"
#include "keeper/spend_rows.h"
#include "keeper/upstream.h"
#include "store/store.h"

#define SPEND_LOG_TIMEOUT_MS 120000              /* of one reply */
#define SPEND_LOG_BODY_MAX   (UINT64_C(1) << 32) /* of one reply; rows may hold prompts */
#define SPEND_LOG_DAYS_MAX   3660

struct spend_log_query {
	const struct upstream *upstream; /* open, of a LiteLLM; its key is an administrator's */
	/* When the calls began, in seconds since 1970. */
	uint64_t since_s, until_s;
	/*
	 * Whose calls, or NULL for all. A hint only: not every LiteLLM knows it, so rows of
	 * others come as well.
	 */
	const char *end_user;
	uint64_t timeout_ms; /* of one reply; 0: SPEND_LOG_TIMEOUT_MS */
	spend_on_row *on_row;
	/* The last call, with NULL when everything was read. */
	void (*on_done)(void *owner, const struct err *err, uint64_t now_ms);
	void *owner;
};

/* The name of a LiteLLM's log in a store: the same for whoever asks the same LiteLLM. */
void spend_log_name(const struct keeper_llm *llm, char ret_name[STORE_LOG_LEN + 1]);

/* Whether an LLM before it in the configuration has the same log. */
bool spend_log_is_known(const struct keeper_config *config, size_t index);

struct spend_log;

/* Nothing is called from here, only from the loop. What the query points to must stay until the
 * end; the query itself need not. */
struct spend_log *spend_log_start(struct net *net, struct loop *loop, struct tls_client *tls,
				  const struct spend_log_query *query, uint64_t now_ms) must_check;

/* Nothing is called any more. Not from on_row. */
void spend_log_cancel(struct spend_log *log);

#endif
