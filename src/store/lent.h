/* SPDX-License-Identifier: MIT */
/*
 * A store that another process has: what a keeper counts by after it has handed its listeners,
 * and with them its store, over to its successor. Its own runs go on until they end, and count
 * as if they were the successor's.
 *
 * Both ends of a socket for packets: a letter, then words, each with its NUL; numbers in decimal.
 *
 *   reserve   r SEQ ID RUN ACCOUNT ATTEMPT MONEY BYTES SPEND MORE ONLY-MORE
 *               {METER RATE BURST CONCURRENT BYTES SPEND}…
 *             ◀ a SEQ VERDICT CLAIM RETRY GRANTED
 *   open      o SEQ RUN ACCOUNT ATTEMPT NO-LINK AGE    ◀ a SEQ VERDICT BEGUN
 *   meter     m SEQ METER                      ◀ a SEQ VERDICT BYTES SPENT RESERVED CONCURRENT
 *   revoke    x SEQ RUN                        ◀ a SEQ VERDICT
 *   call      k SEQ CALL RUN ACCOUNT ATTEMPT COST   ◀ a SEQ VERDICT KNOWN COUNTED
 *   settle    s ID BYTES KNOWN COST CALL       close   c RUN       release   b LOGS SINCE BEFORE
 *             ◀ n NEWS ABOUT
 */
#ifndef STORE_LENT_H
#define STORE_LENT_H

#include "store/store.h"

/*
 * The borrower's end. Takes the descriptor, which does not block. The lender may never serve:
 * until store_lent_go everything is held back, and store_lent_return has `to` do it instead, as
 * if it had been asked in the first place, and closes the lent one.
 */
struct store *store_lent_new(struct loop *loop, int fd);
void store_lent_go(struct store *store, uint64_t now_ms);
void store_lent_return(struct store *store, struct store *to, uint64_t now_ms);

/*
 * What lives is told to a store that does not know it yet: a run, and when it began, in
 * milliseconds since 1970; and a reservation that was granted, which has its place again. Neither
 * is waited for, and neither is given up: a lender that takes its time to serve, or to answer, is
 * told all the same. To one that has no older beginning the run is younger by how long it took.
 */
void store_reopen_run(struct store *store, const char *run_id, uint64_t begun_ms, bool has_no_link,
		      uint64_t now_ms);
void store_retake(struct store *store, const struct store_reservation *reservation,
		  uint64_t now_ms);

/* ---- the lender's end ---- */

struct lender;

/*
 * Does on `store` what comes in at `fd`, which it takes. When the borrower is gone, its runs are
 * closed, what it has reserved is kept, and the lender frees itself.
 */
struct lender *lender_new(struct store *store, int fd);

/* The store is another one from now on; it is told of what the borrower has there. */
void lender_set_store(struct lender *lender, struct store *store);

/* Passes on what the store tells. */
void lender_tell(struct lender *lender, enum store_news news, const char *about);
void lender_free(struct lender *lender);

/* Set by the owner, or NULL: it is about to free itself. */
void lender_set_on_over(struct lender *lender, void (*on_over)(void *owner), void *owner);

#endif
