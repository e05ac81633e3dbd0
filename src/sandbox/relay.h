/* SPDX-License-Identifier: MIT */
/* Bytes from one descriptor to another, or into memory, within a budget. */
#ifndef SANDBOX_RELAY_H
#define SANDBOX_RELAY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define RELAY_CHUNK ((size_t)64 * 1024)

/* The bytes of output that may still be passed on; shared by the relays of a run. */
struct budget {
	bool is_limited;
	uint64_t left;
	bool is_exceeded;
};

struct relay {
	int from; /* owned when owns_from; -1 once it has ended */
	int to;   /* -1: into `into` */
	struct buf *into;
	struct budget *budget; /* NULL: none */
	bool owns_from;
	bool closes_to;    /* `to` is ours, and its reader is to see the end */
	bool sends_eof;    /* `to` is a terminal: its end-of-file character follows the last byte */
	bool was_blocking; /* `to` shares its flags with the caller, and gets them back */
	bool is_mid_line;  /* the last byte was not the end of a line */
	bool is_bounded;   /* only `left` more bytes are taken in */
	uint64_t left;
	bool has_position; /* a file whose position others share: */
	int file_fd;       /* ... the file, borrowed */
	int pipe_fd;       /* ... the agent's end of the pipe; owned */
	int64_t position;  /* ... where it was before the run */
	bool must_finish;  /* the run is not over while this one has not ended */
	char chunk[RELAY_CHUNK];
	size_t start, end; /* read but not yet written */
};

/*
 * Leads the relay to the same pipe, terminal or file as `fd`, which stays open, so that
 * writing a chunk to it does not block us. 0 or -errno.
 */
int relay_open_output(struct relay *relay, int fd) must_check;

/* What to poll for; fd is -1 when there is nothing. */
struct pollfd relay_want(const struct relay *relay);

/* Does what poll said is possible. */
void relay_move(struct relay *relay);

void relay_end(struct relay *relay);

/*
 * Those who could write have ended: what is in the pipe now is the last of it. Whoever
 * else may have got hold of the other end is not listened to.
 */
void relay_bound(struct relay *relay);

/*
 * Where `from` is a file, its position goes back at the end of the run by what was read
 * but not by the agent, whose end of the pipe this is.
 */
void relay_keep_position(struct relay *relay, int pipe_fd);
void relay_give_back(struct relay *relay);

#endif
