/* SPDX-License-Identifier: MIT */
/* Which of the operator's files lie where the agent could read or change them. */
#ifndef CMD_EXPOSURE_H
#define CMD_EXPOSURE_H

#include "base/err.h"
#include "config/settings.h"

/*
 * Refuses an audit log that the agent is shown, a key file likewise, and a configuration or a
 * bundle of certificates that it could change: in this run, or as another run of the same
 * workspace could have done before.
 */
int exposure_check(const struct run_config *config, struct err *err) must_check;

/*
 * The name of a configuration file that lies in the workspace itself, under no other name: one
 * that can be covered there. NULL when it is not so.
 */
const char *exposure_find_name(const struct run_config *config);

#endif
