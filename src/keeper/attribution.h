/* SPDX-License-Identifier: MIT */
/*
 * Whose request it is: what the client says about itself is removed, what the host knows is
 * set (INV-ATTRIBUTION). Everything else is kept, in its order.
 */
#ifndef KEEPER_ATTRIBUTION_H
#define KEEPER_ATTRIBUTION_H

#include "config/keeper_config.h"
#include "keeper/run.h"
#include "link/link.h"

/* How the body goes on. */
struct framing {
	enum http_framing kind; /* NONE, LENGTH or CHUNKED */
	uint64_t length;
};

#define RUN_TOKEN_HEADER "x-run-token"

/* Whether a client's field goes no further: credentials, identity, and what frames a message. */
bool attribution_is_removed(struct bytes name);

/* The run that a request is made for, and the id by which LiteLLM will log it. */
struct identity {
	const struct run *run;
	const char *call_id; /* "": it is no call of a model */
};

/* The whole head of the request as the upstream gets it. `path` has been routed; `key` may be NULL.
 */
void attribution_write(struct buf *out, const struct identity *identity,
		       const struct keeper_llm *llm, const struct secret *key,
		       const struct link_open *open, struct bytes path,
		       const struct framing *framing);

#endif
