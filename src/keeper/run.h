/* SPDX-License-Identifier: MIT */
/*
 * A run as the keeper knows it: one link, its exchanges, and who it is. Identity is which
 * link a message came in on; nothing in a message can change it (INV-RUN-IDENTITY). Only a
 * link that many runs share tells them apart, by tokens that the host has signed.
 */
#ifndef KEEPER_RUN_H
#define KEEPER_RUN_H

#include "base/runid.h"
#include "keeper/keeper.h"
#include "link/port.h"

#define RUN_OUT_MAX (32 << 20) /* what may wait to be written to the gate */

struct run {
	struct link_port link;
	struct keeper *keeper;
	bool is_stalled; /* the gate does not keep up: origins wait */
	char run_id[RUNID_MAX + 1];
	uint32_t attempt;
	struct exchange *by_id[LINK_EXCHANGES_MAX];
};

/* Takes the link over and says hello on it. */
int run_open(struct keeper *keeper, int link_fd, struct run **ret_run) must_check;

/* Ends every exchange. */
void run_close(struct run *run);

/* Writes what the link takes. */
void run_flush(struct run *run, uint64_t now_ms);

#endif
