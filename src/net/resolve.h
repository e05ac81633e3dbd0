/* SPDX-License-Identifier: MIT */
/*
 * Names to addresses: literals at once, then localhost and the hosts file, then DNS by c-ares,
 * which no other directory knows.
 *
 * A and AAAA are asked for separately, so that a server that drops one of them holds nobody
 * up (RFC 8305, section 3). What was found is kept for its time to live, within bounds; two
 * who ask for the same name share one lookup.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "event/loop.h"

#define RESOLVE_FAMILY_MAX 8     /* addresses per family; what exceeds it is not used */
#define RESOLVE_CACHE_MAX  64    /* names */
#define RESOLVE_KEEP_MS    60000 /* at most, whatever the time to live says */
#define RESOLVE_NAME_MAX   253   /* RFC 1035, as text */

struct resolver;

/* In the order in which the server gave them. */
struct resolve_answer {
	struct in6_addr v6[RESOLVE_FAMILY_MAX];
	struct in_addr v4[RESOLVE_FAMILY_MAX];
	size_t v6_count, v4_count;
};

/* A question; a part of whoever asks it. Zeroed, it is no question. */
struct resolve {
	struct lookup *lookup; /* NULL: not waiting for an answer */
	struct resolve *next, **at;
	/*
	 * Called when there is something to begin with, with everything known so far, and
	 * once more, with `is_final`, when nothing else will come. A final answer without an
	 * address has a `code`, ENOENT (there is no such name, or it has no address) or EAGAIN
	 * (no server would say), and `why` in words. May be called from resolve_start. It may
	 * cancel its own question, and no other.
	 */
	void (*on_answer)(struct resolve *question, const struct resolve_answer *answer,
			  bool is_final, int code, const char *why, uint64_t now_ms);
};

/* Nothing is opened or read before the first name that needs it. */
struct resolver *resolver_new(struct loop *loop);

/* No question may be waiting any more. */
void resolver_free(struct resolver *resolver);

/* Names are taken as they are: none is tried with a domain of the system's search list. */
void resolver_set_no_search(struct resolver *resolver);

/* "ADDRESS[:PORT][,...]", asked with little patience, instead of the system's: for tests. */
void resolver_set_servers(struct resolver *resolver, const char *servers);

/* on_answer must be set; the question must stay where it is until it is final or cancelled. */
void resolve_start(struct resolver *resolver, struct resolve *question, const char *name,
		   uint64_t now_ms);
void resolve_cancel(struct resolve *question);

/*
 * An address in words, IPv6 with or without brackets: writes its 4 or 16 bytes and returns
 * how many they are; 0 for what is not an address.
 */
size_t resolve_literal(const char *text, unsigned char ret_bytes[16]);

#endif
