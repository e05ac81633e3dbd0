/* SPDX-License-Identifier: MIT */
/* Answers of our own: refusals that an agent can act on, and /health. */
#ifndef GATE_REFUSE_H
#define GATE_REFUSE_H

#include <stdbool.h>

#include "base/buf.h"

/* A whole reply: {"error":{"code":…,"message":…,"runId":…}}. */
void refuse_format(struct buf *out, int status, const char *code, const char *message,
		   const char *run_id, bool keeps_alive);

/* {"status":"ok","runId":…}; without the body when only the head was asked for. */
void refuse_format_health(struct buf *out, const char *run_id, bool keeps_alive, bool is_head);

#endif
