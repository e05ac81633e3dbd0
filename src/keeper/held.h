/* SPDX-License-Identifier: MIT */
/*
 * Requests that are held: the head of one is not written before enough of its body is there.
 *
 * A body that decides the route is held until its model is known. One that is edited is held as
 * long as it is small, because its length changes and not every server takes a body without one; a
 * large one goes out in chunks. What is held has gone nowhere, and is in no record yet.
 */
#ifndef KEEPER_HELD_H
#define KEEPER_HELD_H

#include "keeper/exchange.h"

/* It is held from here on; `payload` is OPEN's. It is edited at once if its route is known. */
void held_begin(struct exchange *exchange, struct bytes payload, bool is_edited);

/* More of its body, or its end: it goes on as far as that allows. */
void held_on_data(struct exchange *exchange, struct bytes data, uint64_t now_ms);
void held_on_end(struct exchange *exchange, uint64_t now_ms);

void held_refuse(struct exchange *exchange, enum refusal refusal, uint64_t now_ms);

/* The run has new terms, and it is judged by them. */
void held_renew(struct exchange *exchange, uint64_t now_ms);

#endif
