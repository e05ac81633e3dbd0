/* SPDX-License-Identifier: MIT */
/* Refusals that an agent can act on. */
#ifndef KEEPER_REFUSAL_H
#define KEEPER_REFUSAL_H

#include "base/buf.h"
#include "base/bytes.h"

enum refusal {
	REFUSAL_NONE,
#define REFUSAL(name, status, code, message, hint) REFUSAL_##name,
#include "keeper/refusal.def"
#undef REFUSAL
};

int refusal_status(enum refusal refusal);
const char *refusal_code(enum refusal refusal);

/*
 * {"error":{"code":…,"message":…,"hint":…,"runId":…}}; `detail` (or NULL) follows the message,
 * `hint` (or NULL, or empty) stands in for the table's.
 */
void refusal_format(enum refusal refusal, const char *detail, const char *hint, const char *run_id,
		    struct buf *out);

#endif
