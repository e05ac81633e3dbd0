/* SPDX-License-Identifier: MIT */
/*
 * Packets of sys/status.h for somebody who may be slow to read: what the socket does not take waits
 * here, in its order and up to a limit.
 */
#ifndef SYS_OUTBOX_H
#define SYS_OUTBOX_H

#include "base/buf.h"
#include "sys/status.h"

#define OUTBOX_MAX (8 << 20) /* a list of all the runs that a keeper can have */

struct outbox {
	struct buf packets; /* each after its length */
	size_t start;
};

void outbox_init(struct outbox *outbox);
void outbox_fini(struct outbox *outbox);

static inline size_t outbox_len(const struct outbox *outbox)
{
	return outbox->packets.len - outbox->start;
}

/* Sends a packet, or keeps it for outbox_flush. 0, or -errno: -E2BIG when too much waits. */
int outbox_send(struct outbox *outbox, int fd, enum status_type type, struct bytes text) must_check;

/* Sends what waits, as far as the socket takes it. 0 or -errno. */
int outbox_flush(struct outbox *outbox, int fd) must_check;

#endif
