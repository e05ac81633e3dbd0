/* SPDX-License-Identifier: MIT */
/*
 * The gate: it faces the agent.
 *
 * It owns the listening sockets of one run's sandbox, reads what the agent sends, strictly,
 * and turns each request into messages on the link. It holds no secret, decides nothing and
 * opens nothing: what it writes on the link is what the keeper acts on, and which link it
 * came in on is who it came from.
 */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include "event/loop.h"
#include "link/link.h"

#define GATE_SESSIONS_MAX  16384
#define GATE_LINK_OUT_MAX  (8 << 20) /* what may wait to be written to the keeper */
#define GATE_LINK_OUT_HIGH (1 << 20) /* from here on, no more is read from agents */

struct session;

struct gate {
	struct loop loop;
	struct loop_source listener;
	struct loop_source link;
	struct link_reader reader;
	struct buf out; /* to the keeper */
	size_t out_start;
	struct session *sessions; /* all of them */
	size_t session_count;
	uint32_t last_exchange;
	struct session *by_exchange[GATE_SESSIONS_MAX];
	bool is_deaf;   /* out of descriptors: no connection is taken until one ends */
	bool is_paused; /* the keeper does not keep up: agents wait */
	char run_id[72];
};

/*
 * Serves until the link ends. Both descriptors must be non-blocking, and are closed at
 * the end. Returns the exit status of the process.
 */
int gate_run(int listener_fd, int link_fd);

/* ---- for session.c ---- */

/* Gives a session the number of a new exchange, and takes it back. */
void gate_open_exchange(struct gate *gate, struct session *session);
void gate_end_exchange(struct gate *gate, struct session *session);

/* After something was added to gate->out: writes what the link takes. */
void gate_flush(struct gate *gate);

#endif
