/* SPDX-License-Identifier: MIT */
/*
 * Limits of runs, accounts and hosts, for exchanges: what one may use is reserved in the store
 * before it goes out, and settled when it has ended.
 *
 *   limiter_ask ──▶ (end of the turn: the store is asked) ──▶ exchange_on_reserved ──▶ …
 *                                                              limiter_settle, once
 *
 * What it will move of bytes is often not known, so it holds some more than it needs, and where
 * limits of bytes are in sight nothing moves without room for it: replies wait, as they do without
 * credit, and requests are granted none.
 *
 *   limiter_count ──▶ (there is little room: the store is asked) ──▶ exchange_on_room
 *                                                                   or exchange_run_out
 *
 * An exchange that ends while the store has not answered leaves its hold behind, which is given
 * back as soon as it is known to be there.
 */
#ifndef KEEPER_LIMITER_H
#define KEEPER_LIMITER_H

#include "keeper/exchange.h"

/* Whether it has to be asked for. `exchange_on_reserved` follows then, never from in here. */
bool limiter_ask(struct exchange *exchange);

/* Something has moved, or could: more is asked for in time, and credit kept back. */
void limiter_count(struct exchange *exchange);

/* Whether it has no room for so much, and gets none: nothing of it may move. */
bool limiter_is_out(const struct exchange *exchange, uint64_t bytes);

/* Whether it waits for room. */
bool limiter_waits(const struct exchange *exchange);

/* The store's last word about more room for it. */
const struct store_reservation *limiter_last_word(const struct exchange *exchange);

/* Asks the store for what was gathered in this turn. */
void limiter_flush(struct keeper *keeper, uint64_t now_ms);

/* The exchange is over: what it has used is known, or as much as will be. */
void limiter_settle(struct exchange *exchange, uint64_t now_ms);

/* The store is another one: it is told of what is under way. */
void limiter_retake(struct keeper *keeper, uint64_t now_ms);

/* Something the store tells: whatever is under way is cut off where it has to be. */
void limiter_on_news(struct keeper *keeper, enum store_news news, const char *about,
		     uint64_t now_ms);

#endif
