/* SPDX-License-Identifier: MIT */
/*
 * nftables by netlink. Nothing here allocates: it runs in the cloned child of a program that
 * may have threads.
 */
#ifndef SYS_NFT_H
#define SYS_NFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* Where the gate listens on the loopback addresses, on both families. */
struct nft_ports {
	uint16_t tcp; /* every TCP connection but the next */
	uint16_t dns; /* port 53, UDP and TCP */
};

/*
 * Loads one table into the current network namespace, all of it or nothing. Whatever is not
 * addressed to 127.0.0.0/8 or ::1 and is
 *   TCP or UDP to port 53   goes to `ports->dns` of the loopback address of its family;
 *   other TCP               goes to `ports->tcp` there;
 *   anything else           is rejected at once: the sender gets EPERM.
 * Loopback stays the agent's own, port 53 included. The routes of sys/route.h make the rest of
 * the addresses reachable to begin with. 0 or -errno: -EEXIST when it was loaded before.
 */
int nft_redirect(const struct nft_ports *ports) must_check;

/*
 * Whether that is what nft_redirect() returns where the kernel has no nftables, no NAT or no
 * connection tracking: nothing is wrong then, but it has to be done in another way.
 */
bool nft_is_missing(int r);

/*
 * Loads the same for no use into the current network namespace, a new one: 0 when the kernel
 * can do it, or -errno.
 */
int nft_try_nat(void) must_check;

#endif
