/* SPDX-License-Identifier: MIT */
/*
 * A connection whose protocol is not known yet: captured on its way to somewhere, or made to
 * the explicit proxy. Its first bytes say what it speaks:
 *
 *   TLS        the handshake is made with a certificate of the run's authority, then HTTP
 *   HTTP       a session
 *   SOCKS5     (on the proxy) says where it goes, and begins anew there
 *   otherwise  bytes that nobody looks into, where a rule allows that
 *
 * So does a connection on which the agent says nothing, because the server is to begin.
 */
#ifndef GATE_FRONT_H
#define GATE_FRONT_H

#include "gate/endpoint.h"
#include "gate/gate.h"

#define FRONT_SILENT_MS    5000  /* then it is the server's turn to speak */
#define FRONT_SNIFF_MS     30000 /* for the first bytes to be whole */
#define FRONT_HANDSHAKE_MS 30000

/*
 * A connection that was captured: where it was going is asked of the kernel. One that was not
 * redirected has come to the address it was made to.
 */
void front_open_captured(struct gate *gate, int fd, bool is_redirected, uint64_t now_ms);

/* A connection to the explicit proxy. */
void front_open_proxy(struct gate *gate, int fd, uint64_t now_ms);

/* A connection on which the agent was told that it is connected to `target`; `first` has come
 * already. */
void front_open_target(struct gate *gate, int fd, const struct authority *target,
		       struct bytes first, uint64_t now_ms);

/* Ends it at once. */
struct front;
void front_close(struct front *front);

#endif
