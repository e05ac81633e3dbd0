/* SPDX-License-Identifier: MIT */
/*
 * A request's body that is encoded: decoded, secrets put in place, and encoded again, as it
 * streams. What a few bytes may grow to meanwhile is bounded.
 */
#ifndef KEEPER_RECODE_H
#define KEEPER_RECODE_H

#include "http/encoding.h"
#include "keeper/substitute.h"

#define RECODE_BYTES_MAX (UINT64_C(1) << 30) /* of one body, decoded */
#define RECODE_RATIO_MAX 1100                /* more than gzip can do with anything real */

struct recode;

struct recode *recode_new(enum encoding encoding);
void recode_free(struct recode *recode);

/*
 * A piece, and the end. What comes out of it goes to `emit` at once. 0, -EBADMSG (not of that
 * coding) or -E2BIG (beyond the limits); what was found is in `substitute`.
 */
int recode_push(struct recode *recode, struct bytes data, struct substitute *substitute,
		substitute_emit *emit, void *owner) must_check;
int recode_finish(struct recode *recode, struct substitute *substitute, substitute_emit *emit,
		  void *owner) must_check;

#endif
