/* SPDX-License-Identifier: MIT */
/*
 * Synthetic addresses: each name that the agent resolves gets a number, and with it one address
 * of each family, so that the name behind a connection is known from where it goes to.
 *
 *   198.18.0.0/15            number n is 198.18.0.0 + n, from 198.18.0.2 up
 *   fd77:6172:6465:7200::/64 the same n as the host part
 *
 * 198.18.0.1 (and fd77:6172:6465:7200::1) is the resolver itself.
 *
 * The table is bounded. When it is full, the name that was not used for the longest time
 * (neither asked for, nor connected to) makes room. The address of the old name is not given to
 * the new one: a place's numbers go around through NAMES_ROUNDS of them, and an address of an
 * earlier round has no name any more. A connection to it is refused instead of reaching a host
 * it was not meant for.
 */
#ifndef GATE_NAMES_H
#define GATE_NAMES_H

#include <netinet/in.h>
#include <sys/socket.h>

#define NAMES_MAX      8192
#define NAMES_ROUNDS   15  /* so many times NAMES_MAX addresses are in the range */
#define NAMES_NAME_MAX 253 /* of a name in dotted form */

struct names;

struct names *names_new(void);
void names_free(struct names *names);

/*
 * The addresses of a name, which is in lower case, not empty, at most NAMES_NAME_MAX long and
 * without a final dot. A new name takes a place: pointers of names_of_address end here.
 */
void names_address(struct names *names, const char *name, struct in_addr *ret_v4,
		   struct in6_addr *ret_v6);

/*
 * The name behind an AF_INET or AF_INET6 address (IPv4 in IPv6 form too), or NULL: it was never
 * given out, or its name had to make room. Good until the next names_address.
 */
const char *names_of_address(struct names *names, const struct sockaddr *address);

#endif
