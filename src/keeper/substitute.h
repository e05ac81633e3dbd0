/* SPDX-License-Identifier: MIT */
/*
 * Puts secrets in the place of their placeholders, on the way out: only those that the request
 * may have, only where they may stand (INV-HOST-SCOPED), and encoded as it is done there, so that
 * a value can never be more than a value. A placeholder anywhere else is found and left alone:
 * the request is then to be refused.
 */
#ifndef KEEPER_SUBSTITUTE_H
#define KEEPER_SUBSTITUTE_H

#include "base/buf.h"
#include "config/keeper_config.h"
#include "keeper/automaton.h"

#define SUBSTITUTE_SECRETS_MAX KEEPER_SECRETS_MAX /* a mask has a bit for each */

/* How text is written there. */
enum syntax {
	SYNTAX_RAW,
	SYNTAX_JSON,
	SYNTAX_PERCENT, /* a form; a target has a function of its own */
};

struct substitute_secret {
	struct bytes placeholder; /* not empty, no two alike */
	struct bytes value;
	unsigned int places; /* of enum keeper_place */
};

/* All secrets of a run; made once. */
struct substitute_set;

/*
 * The secrets are not needed any more afterwards. No secrets make a set of NULL, which finds
 * nothing. 0, -EINVAL (an empty placeholder or value) or -E2BIG.
 */
int substitute_set_new(const struct substitute_secret *secrets, size_t count,
		       struct substitute_set **ret_set) must_check;
void substitute_set_free(struct substitute_set *set);

/* Whether text of that syntax always stays as long as it is. */
bool substitute_keeps_length(const struct substitute_set *set, enum syntax syntax);

/* What was found, each a mask by the number of the secret. */
struct substitute_found {
	uint64_t used;    /* the value went out */
	uint64_t refused; /* it may not be there: the request must not go on */
};

/* One text at one place: a stream's state. */
struct substitute {
	const struct automaton *automaton; /* or NULL */
	uint64_t allowed;
	struct matcher matcher;
	struct substitute_found found;
};

typedef void substitute_emit(void *owner, struct bytes data);

/* `bound` is the mask of secrets that may go where the request goes. */
void substitute_init(struct substitute *substitute, const struct substitute_set *set,
		     uint64_t bound, enum keeper_place place, enum syntax syntax);

/* After each of these `found` says whether what was emitted may be sent. */
void substitute_push(struct substitute *substitute, struct bytes data, substitute_emit *emit,
		     void *owner);
void substitute_finish(struct substitute *substitute, substitute_emit *emit, void *owner);

/*
 * Whole texts, added to `out`; `found` is added to. 0, or -E2BIG when `out` is full, or -EPERM
 * when a placeholder was found that may not be there.
 */

/* The value of a field; what Authorization: Basic has is looked into. */
int substitute_header(const struct substitute_set *set, uint64_t bound, struct bytes name,
		      struct bytes value, struct buf *out,
		      struct substitute_found *found) must_check;

/* Origin-form: path, and query if there is one; each byte of a placeholder encoded or not. */
int substitute_target(const struct substitute_set *set, uint64_t bound, struct bytes target,
		      struct buf *out, struct substitute_found *found) must_check;

/* Fields that servers are known to send back or to write down: no placeholder may be there. */
bool substitute_is_reflected(struct bytes field_name);

/* How a body of that Content-Type is written. */
enum syntax substitute_syntax_of(struct bytes content_type);

#endif
