/* SPDX-License-Identifier: MIT */
/* Which upstream a request is for: a pure decision on path and model. */
#ifndef KEEPER_ROUTE_H
#define KEEPER_ROUTE_H

#include "base/bytes.h"
#include "config/keeper_config.h"
#include "keeper/refusal.h"

struct route {
	size_t llm;        /* its index in the configuration */
	struct bytes path; /* without query, and without the prefix that chose the upstream */
	bool needs_model;  /* not decided yet: ask again with the model */
};

/*
 * `model` has no data while it is not known and an empty text when there is none. Returns
 * REFUSAL_NONE, or why there is no route.
 */
enum refusal route_find(const struct keeper_config *config, struct bytes path, struct bytes model,
			struct route *ret_route);

#endif
