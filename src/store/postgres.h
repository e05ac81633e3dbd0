/* SPDX-License-Identifier: MIT */
/*
 * The store in PostgreSQL: several keepers, one truth (store/store.h is the contract).
 *
 * Nothing blocks the loop, with one exception that is libpq's: a host that is given by name is
 * looked up when a connection is made. Give its address (hostaddr), or a unix socket, where that
 * may take long.
 *
 * What is asked goes out at the end of the turn, one statement for each kind, and what is asked
 * while those are under way goes together after them. So nothing overtakes anything, and an answer
 * takes at most twice STORE_ANSWER_MS.
 *
 * The schema "warder" is made where it is missing; the role needs the right to, or its owner has
 * made it before. Poolers must hand out sessions, not transactions.
 */
#ifndef STORE_POSTGRES_H
#define STORE_POSTGRES_H

#include "store/store.h"

/*
 * `url` is postgresql://[user[:password]@][host][:port]/database[?parameter=value...]. Only a URL
 * that cannot be read is an error, which does not repeat it; a server that is not there yet is
 * tried again and again.
 */
struct store *store_postgres_new(struct loop *loop, const char *url, struct err *err) must_check;

/* For tests: in place of STORE_ANSWER_MS and STORE_ALIVE_MS. Before the first turn. */
void store_postgres_set_times(struct store *store, uint64_t answer_ms, uint64_t alive_ms);

#endif
