/* SPDX-License-Identifier: MIT */
/* Where requests go: an upstream of the LLM route, or a host of the policy; with its connections.
 */
#ifndef KEEPER_UPSTREAM_H
#define KEEPER_UPSTREAM_H

#include "config/keeper_config.h"
#include "keeper/secret.h"
#include "policy/host.h"

#define UPSTREAM_HOST_MAX 255

struct origin;

#define UPSTREAM_HOSTS_MAX 256 /* at once; one that nobody uses makes room */

struct upstream {
	const struct keeper_llm *llm; /* NULL: a host of the policy */
	bool is_tls;
	bool is_mapped;                   /* the operator says where it is: any address will do */
	char host[UPSTREAM_HOST_MAX + 1]; /* who it is: verified, and in Host */
	uint16_t port;
	const char *dial_host; /* where it is: the operator may have mapped it */
	uint16_t dial_port;
	char label[AUTHORITY_TEXT_MAX]; /* host:port, for the log */
	struct secret *key;             /* or NULL */
	struct origin *idle;            /* connections that wait for a request, the latest first */
	size_t idle_count;
	struct origin *shared; /* connections with HTTP/2 */
	bool is_http1_only;    /* as it has said */
	size_t use_count;      /* exchanges under way */
	struct upstream *next; /* of hosts, the latest first */
};

/* Opens the key. upstream_close is owed in any case. */
int upstream_open(struct upstream *upstream, const struct keeper_config *config,
		  const struct keeper_llm *llm, struct err *err) must_check;
void upstream_close(struct upstream *upstream);

/*
 * A host of the policy: one that is known already, or a new one. NULL when there are too many,
 * all in use.
 */
struct upstream *upstream_find(struct upstream **hosts, const struct keeper_config *config,
			       const struct authority *authority, bool is_tls);

/* Frees every host. */
void upstream_close_hosts(struct upstream **hosts);

#endif
