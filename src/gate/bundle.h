/* SPDX-License-Identifier: MIT */
/*
 * A bundle: a connection of the agent that speaks HTTP/2, many exchanges at once. Each of its
 * streams is a strand here, and carries one call.
 *
 * The window of a stream and the credit of its call begin alike and grow alike, so that what the
 * agent sends always finds credit and nothing of a request is held. Of a reply, a strand holds
 * what its stream does not take, at most LINK_CREDIT_FIRST; a slow stream does not hold up the
 * others.
 */
#ifndef GATE_BUNDLE_H
#define GATE_BUNDLE_H

#include "gate/endpoint.h"
#include "gate/gate.h"
#include "net/stream.h"

/* Takes a new connection over. */
void bundle_open(struct gate *gate, const struct stream *stream, const struct endpoint *endpoint,
		 uint64_t now_ms);

#endif
