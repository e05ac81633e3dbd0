/* SPDX-License-Identifier: MIT */
/* A shared keeper's configuration, read, and the charter that is made of it. */
#ifndef CMD_SHARED_CHARTER_H
#define CMD_SHARED_CHARTER_H

#include "config/shared_config.h"
#include "keeper/charter.h"

struct loop;

/*
 * Reads what the command line and its file say, and opens what they name. The charter owns what
 * it was read from. Asked for help, *ret_charter is NULL. As often as the file changes.
 */
int shared_charter_read(int argc, char **argv, struct charter **ret_charter,
			struct err *err) must_check;

/* One that is being read. */
struct shared_reading;

/* A charter is the callee's; NULL, and `err` says why. */
typedef void shared_on_read(void *owner, struct charter *charter, const struct err *err,
			    uint64_t now_ms);

/*
 * The same beside whatever else the loop does: commands that print secrets run meanwhile, all at
 * once. *place is the reading until it is over; then it is NULL and `on_read` is called, which
 * may be at once. What commands have printed counts until that returns: whoever opens more of the
 * configuration's secrets in there does not wait, either.
 */
void shared_charter_start(struct loop *loop, int argc, char **argv, shared_on_read *on_read,
			  void *owner, struct shared_reading **place, uint64_t now_ms);

/* It is not heard of any more. NULL is fine. */
void shared_charter_cancel(struct shared_reading *reading);

/* What such a charter was made of. */
const struct shared_config *shared_charter_config(const struct charter *charter);

/* The same beyond the charter's life, until it is dropped. NULL is fine. */
const struct shared_config *shared_charter_keep(const struct charter *charter);
void shared_charter_drop(const struct shared_config *config);

#endif
