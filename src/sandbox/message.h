/* SPDX-License-Identifier: MIT */
/* What the supervisor and the sandbox's first process say to each other. */
#ifndef SANDBOX_MESSAGE_H
#define SANDBOX_MESSAGE_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum message_type {
	/* to the sandbox */
	MESSAGE_MAPPED = 1, /* its ids are mapped (sent only by a privileged supervisor) */
	MESSAGE_GO,         /* it is in its control group */
	MESSAGE_SIGNAL,     /* pass this signal on to the agent; value: its number */
	/* to the supervisor */
	MESSAGE_TTY,    /* the master of the agent's terminal comes with this */
	MESSAGE_FAILED, /* the agent was not started; value: the exit status, and a text */
	MESSAGE_EXITED, /* the agent has ended; value: its wait status */
};

/* Sent over a sequenced-packet socket: one message, one packet, of this size. */
struct message {
	uint32_t type;
	int32_t value;
	struct err err; /* FAILED only */
};

/* `fd` is passed along unless it is -1. 0 or -errno. */
int message_send(int socket_fd, const struct message *message, int fd);

/*
 * Waits for one message. *ret_fd is a descriptor that came with it, or -1; the
 * caller owns it. 0, -EPIPE when the other side is gone, or -errno.
 */
int message_receive(int socket_fd, struct message *ret_message, int *ret_fd) must_check;

#endif
