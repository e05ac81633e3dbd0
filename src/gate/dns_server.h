/* SPDX-License-Identifier: MIT */
/*
 * The resolver's sockets: datagrams, and connections on which queries follow one another, each
 * with its length in front (RFC 7766).
 *
 * A reply by UDP leaves from the address that was asked, else the client would not take it: a
 * socket is of one family and may be bound to the wildcard address. Replies by TCP are in the
 * order of the queries; a client that does not take them is not read from. A connection ends
 * when nothing was asked for DNS_SERVER_IDLE_MS; beyond DNS_SERVER_CONNECTIONS those who
 * connect wait until one ends.
 */
#ifndef GATE_DNS_SERVER_H
#define GATE_DNS_SERVER_H

#include <stdint.h>

#include "base/attr.h"
#include "event/loop.h"
#include "gate/dns.h"

#define DNS_SERVER_SOCKETS     4 /* of each kind: two families, and as many to spare */
#define DNS_SERVER_CONNECTIONS 64
#define DNS_SERVER_IDLE_MS     10000
#define DNS_SERVER_QUERY_MAX   4096 /* a longer one is not answered; over TCP it is the end */

struct dns_server;

/* The loop, the names and the policy must live longer. */
struct dns_server *dns_server_new(struct loop *loop, struct names *names,
				  const struct dns_policy *policy);

/* Closes every socket. Not from within a callback of the loop. */
void dns_server_free(struct dns_server *server);

/* Take a bound datagram socket and a listener; 0, or -errno and it is still the caller's. */
int dns_server_add_udp(struct dns_server *server, int fd) must_check;
int dns_server_add_tcp(struct dns_server *server, int fd) must_check;

#endif
