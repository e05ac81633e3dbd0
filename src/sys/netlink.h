/* SPDX-License-Identifier: MIT */
/*
 * Netlink requests in a buffer of fixed size: nothing is allocated. What goes in is the caller's
 * own, so that a request that does not fit is a mistake in the program.
 */
#ifndef SYS_NETLINK_H
#define SYS_NETLINK_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define NETLINK_BATCH_MAX 8192

/* Messages that are sent together. */
struct netlink_batch {
	_Alignas(struct nlmsghdr) unsigned char data[NETLINK_BATCH_MAX];
	size_t len;
	struct nlmsghdr *message; /* the one under construction */
};

/* Empties it; the bytes themselves need no initial value. */
void netlink_init(struct netlink_batch *batch);

/* Begins a message with the fixed part that its type has. */
void netlink_begin(struct netlink_batch *batch, uint16_t type, uint16_t flags, const void *head,
		   size_t len);

/* Attributes of the message; numbers in the order of bytes of the host, or of the network. */
void netlink_put(struct netlink_batch *batch, uint16_t type, const void *value, size_t len);
void netlink_put_text(struct netlink_batch *batch, uint16_t type, const char *text);
void netlink_put_u32(struct netlink_batch *batch, uint16_t type, uint32_t value);
void netlink_put_be32(struct netlink_batch *batch, uint16_t type, uint32_t value);

/* What is put between the two is inside the attribute; netlink_nest returns where it begins. */
size_t netlink_nest(struct netlink_batch *batch, uint16_t type);
void netlink_unnest(struct netlink_batch *batch, size_t nest);

/*
 * Sends the batch over a socket of its own and reads what the kernel says: the first error, or
 * 0 after `acks` acknowledgements, which is how many messages asked for one (NLM_F_ACK).
 */
int netlink_talk(int protocol, const struct netlink_batch *batch, int acks) must_check;

#endif
