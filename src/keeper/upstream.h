/* SPDX-License-Identifier: MIT */
/* Where requests go: an upstream of the LLM route, with its key and its connections. */
#ifndef KEEPER_UPSTREAM_H
#define KEEPER_UPSTREAM_H

#include "config/keeper_config.h"
#include "keeper/scrub.h"
#include "keeper/secret.h"

#define UPSTREAM_HOST_MAX 255

struct origin;

struct upstream {
	const struct keeper_llm *llm;
	bool is_tls;
	char host[UPSTREAM_HOST_MAX + 1]; /* who it is: verified, and in Host */
	uint16_t port;
	const char *dial_host; /* where it is: the operator may have mapped it */
	uint16_t dial_port;
	char label[UPSTREAM_HOST_MAX + 10]; /* host:port, for the log */
	struct secret *key;                 /* or NULL */
	struct scrub_pattern *pattern;      /* of the key, or NULL */
	struct origin *idle; /* connections that wait for a request, the latest first */
	size_t idle_count;
};

/* Opens the key. upstream_close is owed in any case. */
int upstream_open(struct upstream *upstream, const struct keeper_config *config,
		  const struct keeper_llm *llm, struct err *err) must_check;
void upstream_close(struct upstream *upstream);

#endif
