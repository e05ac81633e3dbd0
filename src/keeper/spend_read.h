/* SPDX-License-Identifier: MIT */
/* The spend logs of every LiteLLM of a configuration, read one after the other by a loop of its
 * own: for verbs, which have nothing else to do meanwhile. */
#ifndef KEEPER_SPEND_READ_H
#define KEEPER_SPEND_READ_H

#include "config/keeper_config.h"
#include "keeper/spend_rows.h"

struct spend_reading {
	uint64_t since_s, until_s; /* as in keeper/spend_log.h, like these: */
	const char *end_user;
	spend_on_row *on_row;
	void *owner;
};

/* Opens the keys, and forgets them. 0, or -errno with *err set. */
int spend_read(const struct keeper_config *config, const struct spend_reading *reading,
	       struct err *err) must_check;

#endif
