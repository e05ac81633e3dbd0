/* SPDX-License-Identifier: MIT */
/*
 * The gate: it faces the agent.
 *
 * It owns the listening sockets of one run, reads what the agent sends, strictly, and turns
 * each request into messages on the link. It holds no secret, decides nothing and opens
 * nothing: what it writes on the link is what the keeper acts on, and which link it came in
 * on is who it came from.
 *
 * Its listeners come in over a control socket, because they are made elsewhere: inside the
 * sandbox's network namespace, or by whoever serves a socket on the host. When that socket
 * or the link ends, so does the gate, and every connection with it.
 *
 * A turn of the loop reads from whoever is ready, gathers what that means for the others,
 * and writes once to each of them at its end.
 */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include "event/loop.h"
#include "gate/dns_server.h"
#include "gate/known.h"
#include "gate/names.h"
#include "http/h1_read.h"
#include "link/port.h"
#include "policy/host.h"
#include "tls/authority.h"

#define GATE_CONNECTIONS   1024 /* connections at once, unless told otherwise */
#define GATE_LISTENERS_MAX 136  /* a few, and 64 ports of both families */
/* When all places are taken, one that has said nothing for so long makes room. */
#define GATE_SPARE_MS     10000
#define GATE_INPUT_SIZE   65536     /* of one read */
#define GATE_LINK_OUT_MAX (8 << 20) /* what may wait to be written to the keeper */

struct call;
struct connection;
struct front;
struct gate;

/* What comes in over the control socket. */
enum gate_tag {
	GATE_TAG_LLM = 'L',      /* a listener: the LLM endpoint */
	GATE_TAG_CAPTURED = 'T', /* a listener: connections on their way to anywhere */
	GATE_TAG_DIRECT = 'A',  /* the same, where each connection has the address it was made to */
	GATE_TAG_PROXY = 'P',   /* a listener: the explicit proxy */
	GATE_TAG_DNS_UDP = 'D', /* the resolver's sockets */
	GATE_TAG_DNS_TCP = 'd',
};

struct listener {
	struct loop_source source;
	struct gate *gate;
	char tag; /* enum gate_tag */
};

struct gate {
	struct loop loop;
	struct loop_source control; /* listeners come in here, once the keeper has begun */
	int control_fd;
	struct listener listeners[GATE_LISTENERS_MAX];
	size_t listener_count;
	struct link_port link;
	struct connection *connections; /* all whose protocol is known */
	struct connection *dirty;       /* those with something to write at the end of the turn */
	struct front *fronts;           /* connections that have not said what they speak */
	size_t connection_count, connection_max;
	uint32_t last_exchange;
	size_t call_count;
	struct call *calls[LINK_EXCHANGES_MAX]; /* by number */
	struct loop_timer deaf_timer;
	bool is_deaf;   /* no descriptor or no place is free: none is taken until one is */
	bool is_paused; /* the keeper does not keep up: agents wait */
	struct names *names;
	struct dns_policy dns_policy;
	struct known known; /* what the keeper has rules about */
	struct dns_server *dns;
	struct tls_authority *authority;            /* or NULL: only the LLM */
	struct authority tunnels[LINK_TUNNELS_MAX]; /* hosts that nobody looks into */
	size_t tunnel_count;
	char run_id[72];             /* empty on a socket that many runs share */
	struct h1_result result;     /* of the request being read; for one event only */
	char input[GATE_INPUT_SIZE]; /* of the read being handled */
};

/*
 * Serves until the link or the control socket ends. Both must be non-blocking, and are
 * closed at the end; the authority (or NULL) is freed. Returns the exit status of the process.
 */
int gate_run(int control_fd, int link_fd, size_t connection_max, struct tls_authority *authority);

/* A connection has ended: those who wait are heard again. */
void gate_hear(struct gate *gate);

#endif
