/* SPDX-License-Identifier: MIT */
/*
 * Budgets are corrected by what LiteLLM itself has recorded (INV-BILLING-TRUTH): now and then its
 * spend log is read, and each call in it is told to the store, which corrects what was counted for
 * it and settles what was only reserved. What is still reserved when the log has been read that
 * must have it, of the time in question, is released: the call never was one. Of other holds nobody
 * knows that, and they stay.
 *
 * A round asks each LiteLLM of the charter in turn. Calls that began long before the last round
 * are passed over, unless a call has ended meanwhile that began as early: it is in the log since
 * then. Those at the edge come twice, which changes nothing. Now and then everything of the last
 * week is looked at again, for what a keeper began that is not there any more.
 */
#ifndef KEEPER_RECONCILER_H
#define KEEPER_RECONCILER_H

#include "keeper/keeper.h"

struct reconciler;

/* Every so often; calls are expected in the log after `grace_ms`. */
struct reconciler *reconciler_new(struct keeper *keeper, uint64_t every_ms, uint64_t grace_ms);

/* As a new configuration has it; 0 is never. */
void reconciler_set_times(struct reconciler *reconciler, uint64_t every_ms, uint64_t grace_ms);

/* While the loop still turns: the store may have to answer. NULL is fine. */
void reconciler_free(struct reconciler *reconciler);

#endif
