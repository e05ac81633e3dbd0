/* SPDX-License-Identifier: MIT */
/*
 * The resolver of the sandbox: the bytes of a query in, those of a reply out. Nothing is ever
 * forwarded, so no data can leave in a name; the keeper resolves for real what is allowed.
 *
 *   A, AAAA          the name's synthetic addresses (names.h)
 *   localhost        and what is below it: the loopback addresses
 *   PTR              the name of a synthetic address; of any other: there is none
 *   anything else    nothing, at once: what a name has besides addresses is not known here
 *
 * Names of the local network (of one label, or below .local) exist only if the policy allows
 * them: a service is found, a search list or a printer is not waited for. Some names never do:
 * those that look like addresses, those that other systems than DNS answer for, and the one
 * by which browsers ask whether they may use a resolver of their own.
 */
#ifndef GATE_DNS_H
#define GATE_DNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "gate/names.h"

/* Every reply fits into the smallest datagram of DNS: none is ever cut short. */
#define DNS_REPLY_MAX 512

enum dns_mode {
	DNS_EXPLAIN, /* what is not allowed resolves, and the connection gets an explanation */
	DNS_DENY,    /* what is not allowed does not exist */
};

struct dns_policy {
	enum dns_mode mode;
	bool has_v6; /* else there are no AAAA records: the sandbox cannot connect to them */
	/* Whether any rule or service is about this name (lower case, no final dot); or NULL:
	 * none is. */
	bool (*is_allowed)(void *owner, const char *name);
	void *owner;
};

/*
 * Answers one query (over TCP: without its length). Returns the length of the reply, or 0:
 * there is none, because the query is too short to be one, or is a reply itself.
 */
size_t dns_answer(struct names *names, const struct dns_policy *policy, struct bytes query,
		  char reply[static DNS_REPLY_MAX]) must_check;

#endif
