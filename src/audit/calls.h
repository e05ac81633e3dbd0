/* SPDX-License-Identifier: MIT */
/* The calls of LLMs that an audit log has, read while its chain is verified. */
#ifndef AUDIT_CALLS_H
#define AUDIT_CALLS_H

#include "audit/verify.h"

/*
 * A request that has ended; or before that, when its id was known beforehand, that it may be made.
 * Of what a killed keeper had under way that is all there is. Texts last for the call; one that the
 * record lacks is "".
 */
struct audit_call {
	bool is_decided;           /* the latter: there is no account, model, cost or status */
	uint64_t end_ms, start_ms; /* since 1970 */
	const char *run_id;
	uint32_t attempt;
	const char *account, *model, *call_id;
	const char *cost; /* as the upstream reported it */
	int status;       /* 0: the agent got none */
};

struct audit_call_visitor {
	void (*on_fault)(void *owner, const struct audit_fault *fault); /* or NULL */
	void (*on_call)(void *owner, const struct audit_call *call);
	void *owner;
};

/* As audit_walk. What names neither a model nor a call is none of an LLM's. */
int audit_read_calls(FILE *file, const struct audit_call_visitor *visitor,
		     struct audit_summary *ret_summary) must_check;

#endif
