/* SPDX-License-Identifier: MIT */
/* Parts of a configuration in plain words, a line each, on standard output. */
#ifndef CMD_EXPLAIN_H
#define CMD_EXPLAIN_H

#include "config/shared_config.h"

/* A source as it may be shown: a command may have anything in it. */
const char *explain_source(const char *source);

void explain_limits(const struct keeper_config *config);
void explain_shared(const struct shared_config *config);

#endif
