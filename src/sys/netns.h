/* SPDX-License-Identifier: MIT */
/*
 * The network namespace of a run, and the gate's sockets in it. They do not block and are closed
 * at exec. `family` is AF_INET or AF_INET6, and a socket is of that family only: over one socket
 * for both, replies to IPv4 come from the wrong source. -EAFNOSUPPORT or -EADDRNOTAVAIL: there
 * is no IPv6 here.
 */
#ifndef SYS_NETNS_H
#define SYS_NETNS_H

#include <stdint.h>

#include "base/attr.h"

/* The resolver's address; and one of IPv6, so that names of both families are asked for. */
#define NETNS_RESOLVER    "198.18.0.1"
#define NETNS_RESOLVER_V6 "fd77:6172:6465:7200::1"

/* Brings up the loopback interface of the current namespace. */
int netns_loopback_up(void) must_check;

/*
 * Gives the loopback interface the addresses above: programs that look at which families have an
 * address beside the loopback's ask for no others. Without IPv6, only the first.
 */
int netns_add_addresses(void) must_check;

/*
 * A TCP listener on this port of the loopback address, or -errno: for services of the loopback,
 * and for what nft_redirect() sends there, which net/origdst.h knows the destination of.
 */
int netns_listen(int family, uint16_t port) must_check;

/*
 * A TCP listener on this port of every address, or -errno: the fallback without nftables, with
 * the routes of sys/route.h. The destination of a connection is its getsockname().
 */
int netns_listen_port(int family, uint16_t port) must_check;

/*
 * The first of the two on a port that the second may take as well: who connects to the loopback
 * address gets here.
 */
int netns_listen_beside(int family, uint16_t port) must_check;

/*
 * A UDP socket on this port of the loopback address, or -errno: for what nft_redirect() sends
 * there. Replies from it reach the sender from the address and port that was asked.
 */
int netns_bind_udp(int family, uint16_t port) must_check;

/*
 * A UDP socket on this port of every address, or -errno: the fallback without nftables. Every
 * datagram comes with IP_PKTINFO or IPV6_PKTINFO, and the reply must be sent with the same
 * (ipi_spec_dst or ipi6_addr; the interface index 0), or it comes from a wrong source.
 */
int netns_bind_udp_port(int family, uint16_t port) must_check;

#endif
