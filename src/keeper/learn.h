/* SPDX-License-Identifier: MIT */
/*
 * What the policy refused in a run, as rules that would allow it: a draft for an operator to read.
 * It is what the agent asked for, so nothing here changes what is refused.
 */
#ifndef KEEPER_LEARN_H
#define KEEPER_LEARN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"

#define LEARN_RULES_MAX 512 /* the first of them; others are counted */
#define LEARN_TEXT_MAX  ((size_t)1024 * 1024)

/* How a draft begins, by which it is known. */
#define LEARN_MARK "// warder policy draft"

struct learn;

struct learn *learn_new(void);
void learn_free(struct learn *learn);

/*
 * Notes a request, or, without a method, a connection. `place` is host[:port] as a rule has it,
 * `path` has no query. What was refused by a rule that denies is noted as that.
 */
void learn_note(struct learn *learn, struct bytes method, const char *place, struct bytes path,
		bool is_denied);

/* How many rules there are. */
size_t learn_count(const struct learn *learn);

/* The draft: a configuration file with comments. */
void learn_write(const struct learn *learn, const char *run_id, struct buf *out);

#endif
