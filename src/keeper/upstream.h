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
	const struct secret *key;       /* the charter's, or NULL */
	struct origin *idle;            /* connections that wait for a request, the latest first */
	size_t idle_count;
	struct origin *shared; /* connections with HTTP/2 */
	bool is_http1_only;    /* as it has said */
	bool keeps_none;       /* no connection waits for another request */
	size_t use_count;      /* exchanges under way */
	struct upstream *next; /* of hosts, the latest first */
};

/* One of the LLM route; `key` may be NULL. */
void upstream_init_llm(struct upstream *upstream, const struct keeper_config *config,
		       const struct keeper_llm *llm, const struct secret *key);

/* Closes its connections: all of them, or each as soon as nobody uses it. */
void upstream_close(struct upstream *upstream);
void upstream_keep_none(struct upstream *upstream);

/*
 * A host of the policy: one that is known already, or a new one. NULL when there are too many,
 * all in use.
 */
struct upstream *upstream_find(struct upstream **hosts, const struct keeper_config *config,
			       const struct authority *authority, bool is_tls);

/* Frees every host. */
void upstream_close_hosts(struct upstream **hosts);

#endif
