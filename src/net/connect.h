/* SPDX-License-Identifier: MIT */
/*
 * Connecting to a host by name: looks it up and tries its addresses as RFC 8305 has it
 * ("happy eyeballs"): families in turn, IPv6 first, a new attempt every 250 ms or as soon as one
 * fails; the first that is connected wins and the others are closed. One deadline for all of it.
 */
#ifndef NET_CONNECT_H
#define NET_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/err.h"
#include "event/loop.h"

struct net; /* what a process needs for it: the loop, and the resolver */

struct net *net_new(struct loop *loop);

/* No attempt may be under way any more. */
void net_free(struct net *net);

/*
 * For names that somebody else has judged: none is tried with a domain of the system's search
 * list, where it would be another's.
 */
void net_set_no_search(struct net *net);

/* "ADDRESS[:PORT][,...]" instead of the system's name servers: for tests. */
void net_set_servers(struct net *net, const char *servers);

struct connect; /* one attempt under way */

/*
 * With a descriptor (TCP, not blocking, close-on-exec, no delay), which is the callee's from
 * then on; or with -1 and an error: ENOENT (no such name), EAGAIN (no name server would say),
 * ETIMEDOUT, ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, or what else connect(2) failed with.
 * The attempt is gone when it is called.
 */
typedef void connect_done(void *owner, int fd, const struct err *err, uint64_t now_ms);

/*
 * `host` is a name, or an address (IPv6 with or without brackets). `done` is never called
 * from here, only from the loop, even if the attempt fails at once.
 */
struct connect *connect_start(struct net *net, const char *host, uint16_t port, uint64_t timeout_ms,
			      uint64_t now_ms, connect_done *done, void *owner) must_check;

/*
 * The same, but addresses that `may_dial` (or NULL) says no to are passed over; EACCES when
 * there are no others.
 */
typedef bool connect_judge(const struct sockaddr *address);
struct connect *connect_start_if(struct net *net, const char *host, uint16_t port,
				 connect_judge *may_dial, uint64_t timeout_ms, uint64_t now_ms,
				 connect_done *done, void *owner) must_check;

/* `done` is not called any more. */
void connect_cancel(struct connect *connect);

#endif
