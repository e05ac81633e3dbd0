/* SPDX-License-Identifier: MIT */
/*
 * Requests to LLMs: which upstream one goes to, and its body, which is read for its model.
 *
 * Without a body, or with one that nothing is to be taken out of, the head is written at once and
 * the body follows as it comes. Others are held first (keeper/held.h).
 */
#ifndef KEEPER_LLM_H
#define KEEPER_LLM_H

#include "keeper/exchange.h"

/* A body while it is held, and what an edit of a piece can be. */
#define LLM_BODY_MAX ((size_t)2 * EXCHANGE_HOLD_MAX)

/* Judges a request whose run is known, and sets the course of the rest. `payload` is OPEN's. */
void llm_judge(struct exchange *exchange, struct bytes payload, const struct link_open *open,
	       uint64_t now_ms);

/* A piece of a body whose head is written, and its end. -EINVAL when it cannot go on. */
int llm_pass_on(struct exchange *exchange, struct bytes data) must_check;
int llm_end(struct exchange *exchange) must_check;

/* ---- for held.c, too ---- */

/* Of one that has its upstream. */
bool llm_is_litellm(const struct exchange *exchange);

void llm_set_upstream(struct exchange *exchange, size_t llm);

void llm_write_head(struct exchange *exchange, const struct link_open *open, struct bytes path,
		    const struct framing *framing);

/*
 * INV-ATTRIBUTION: a body can be JSON and, for a reader that goes by its type, a form at the
 * same time. One whose type says anything else than JSON is not taken for it.
 */
bool llm_is_typed_json(const struct link_open *open);

/* The exchange owns it. */
struct exchange_body *llm_body_new(struct exchange *exchange);
void llm_body_free(struct exchange *exchange);

/* Keeps the model for the records. */
void llm_note_model(struct exchange *exchange);

/* One model has chosen the upstream, and another one might be what the upstream reads. */
bool llm_is_model_in_doubt(const struct exchange_body *body);

#endif
