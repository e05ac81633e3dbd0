/* SPDX-License-Identifier: MIT */
/* Bytes that nobody looks into, to and from a host that a rule names; never with a secret. */
#ifndef GATE_TUNNEL_H
#define GATE_TUNNEL_H

#include "gate/endpoint.h"
#include "gate/gate.h"

/* Takes the descriptor over; `first` has been read from it already. */
void tunnel_open(struct gate *gate, int fd, const struct authority *target, struct bytes first,
		 uint64_t now_ms);

struct tunnel;
void tunnel_close(struct tunnel *tunnel);

/* The next one of all, and of those with something to write. */
struct tunnel *tunnel_next(const struct tunnel *tunnel);
struct tunnel *tunnel_next_dirty(const struct tunnel *tunnel);

/* Writes what the turn has brought. */
void tunnel_finish_turn(struct tunnel *tunnel);

/* Goes on after the gate was paused. */
void tunnel_resume(struct tunnel *tunnel);

#endif
