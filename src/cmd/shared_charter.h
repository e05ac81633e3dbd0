/* SPDX-License-Identifier: MIT */
/* A shared keeper's configuration, read, and the charter that is made of it. */
#ifndef CMD_SHARED_CHARTER_H
#define CMD_SHARED_CHARTER_H

#include "config/shared_config.h"
#include "keeper/charter.h"

/*
 * Reads what the command line and its file say, and opens what they name. The charter owns what
 * it was read from. Asked for help, *ret_charter is NULL. As often as the file changes.
 */
int shared_charter_read(int argc, char **argv, struct charter **ret_charter,
			struct err *err) must_check;

/* What such a charter was made of. */
const struct shared_config *shared_charter_config(const struct charter *charter);

/* The same beyond the charter's life, until it is dropped. NULL is fine. */
const struct shared_config *shared_charter_keep(const struct charter *charter);
void shared_charter_drop(const struct shared_config *config);

#endif
