/* SPDX-License-Identifier: MIT */
/* How a run begins at a shared keeper, of this machine or of another. */
#ifndef CMD_RUN_KEEPER_H
#define CMD_RUN_KEEPER_H

#include "cmd/run_gateway.h"

/*
 * Registers the run at the control socket, or shows its token; and completes its settings by what
 * the keeper says. The words of that are the gateway's, and who the run is may have changed.
 */
int run_keeper_begin(struct run_gateway *gateway, struct run_config *config,
		     struct err *err) must_check;

#endif
