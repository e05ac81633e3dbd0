/* SPDX-License-Identifier: MIT */
/* Requests to hosts: judged by the policy, written anew, and carried as they are otherwise. */
#ifndef KEEPER_EGRESS_H
#define KEEPER_EGRESS_H

#include "keeper/exchange.h"

/* Judges a request to a host, or a connection that nobody looks into. */
void egress_judge(struct exchange *exchange, const struct link_open *open, uint64_t now_ms);

/* ---- egress_head.c ---- */

/* Writes the head, and prepares for what follows it. Nothing has gone out when it is refused. */
enum refusal egress_write_request(struct exchange *exchange, const struct link_open *open,
				  const struct authority *authority);

#endif
