/* SPDX-License-Identifier: MIT */
/*
 * The time of a run, where that is limited. It begins once, whatever the run comes by, as the store
 * has it for all keepers, and when it is over, what the run has under way is cut off.
 *
 * A run with a link knows its beginning since it was enrolled (keeper/enrol.h). A token says
 * nothing of one: for the run that it names the store is asked, and no link is taken there.
 *
 *   exchange_allow ──▶ run_time_ask ──▶ (the store) ──▶ exchange_on_time ──▶ limiter_ask, …
 *
 * - There is one question for a run at a gate, and all of its exchanges that come meanwhile wait
 *   for the answer: in EXCHANGE_RESERVE, with nothing reserved. Those that have ended are not found
 *   when it comes. A run that is forgotten, with its gate or to make room, leaves the question
 *   behind, and the answer finds nobody.
 * - A beginning stays known; it can only become earlier. Any other answer is one for those that
 *   wait: they are refused, because the run is revoked or the store cannot be reached
 *   (INV-FAIL-CLOSED), and the next one asks again.
 * - Who asks says how old the run is by what any gate of this keeper has seen, and the store
 *   believes the oldest that it was ever told. What it answers counts at every gate here that knew
 *   a later beginning, and makes the run no younger than it was seen to be. Another keeper that has
 *   asked before does not hear of it: it goes by what it was told, until a gate of its own asks.
 * - Until it is known, a run counts from when its gate here first saw it, which is the latest that
 *   it can be: what waits for its body does so no longer than that allows. A gate that has gone,
 *   and a run that was forgotten to make room, are not remembered for this.
 * - Without a limit nobody is asked about a token's run. A reload may set one: then each run that
 *   has something under way is asked for, and all of that is cut off if there is no answer.
 * - A store that takes the place of another one is told when the runs began that are known here.
 */
#ifndef KEEPER_RUN_TIME_H
#define KEEPER_RUN_TIME_H

#include "keeper/exchange.h"

/* Whether there is a limit, and nobody has said since when it counts. */
bool run_time_is_unknown(const struct run *run);

/*
 * Asks the store, unless it has been asked. exchange_on_time follows, maybe from in here, for each
 * exchange of the run that waits.
 */
void run_time_ask(struct run *run, uint64_t now_ms);

/* How old a run is at least, by what the gates that are here have seen of it; 0: nothing. */
uint64_t run_time_age(const struct keeper *keeper, const char *run_id, uint64_t now_ms);

/* The store has said when it began: for all that gates have of it, also if it is at none. */
void run_time_begin(const struct keeper *keeper, struct run *run, uint64_t begun_ms,
		    uint64_t now_ms);

/* The limit, or what is known of its beginning, has changed: when it is over it is cut off. */
void run_time_watch(struct run *run);

/* There is a new charter. What can be asked only now is asked. */
void run_time_renew(struct run *run, uint64_t now_ms);

/* The run goes. */
void run_time_fini(struct run *run);

/* The keeper has another store. */
void run_time_tell(const struct keeper *keeper, uint64_t now_ms);

#endif
