/* SPDX-License-Identifier: MIT */
/* Bytes that nobody looks into, to and from a host that a rule names; never with a secret. */
#ifndef GATE_TUNNEL_H
#define GATE_TUNNEL_H

#include "gate/endpoint.h"
#include "gate/gate.h"

/* Takes the descriptor over; `first` has been read from it already. */
void tunnel_open(struct gate *gate, int fd, const struct authority *target, struct bytes first,
		 uint64_t now_ms);

#endif
