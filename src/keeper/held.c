/* SPDX-License-Identifier: MIT */
#include "keeper/held.h"

#include <stdlib.h>

#include "base/die.h"
#include "http/path.h"
#include "keeper/llm.h"
#include "keeper/request.h"
#include "keeper/route.h"

/* What outranks headers in LiteLLM (DESIGN: INV-ATTRIBUTION), or keeps a call out of its log. */
static const struct json_edit_rule identity_members[] = {
	{ NULL, "user" },   { NULL, "litellm_metadata" }, { NULL, "safety_identifier" },
	{ NULL, "no-log" }, { "metadata", "user_id" },    { NULL, NULL },
};

static void refuse(struct exchange *exchange, enum refusal refusal, const struct link_open *open,
		   uint64_t now_ms)
{
	struct bytes query, path = http_path_split(open->path, &query);

	exchange_refuse(exchange, refusal, open->method, path, now_ms);
}

static void parse(const struct exchange *exchange, struct link_open *ret_open)
{
	const struct exchange_body *body = exchange->body;

	if (link_parse_open((struct bytes){ body->open, body->open_len }, ret_open) < 0)
		abort(); /* it was parsed before */
}

void held_refuse(struct exchange *exchange, enum refusal refusal, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */

	parse(exchange, &open);
	refuse(exchange, refusal, &open, now_ms);
}

/* The same route, or another one, by new terms. It was edited for LiteLLM, and stays so. */
static enum refusal route_again(struct exchange *exchange, const struct link_open *open)
{
	const struct exchange_body *body = exchange->body;
	const struct keeper_config *config = exchange->terms->charter->config;
	struct bytes query, path = http_path_split(open->path, &query), model = { NULL, 0 };
	struct route route;
	enum refusal refusal;

	if (body->is_by_model)
		model = (struct bytes){ body->edit.model, body->edit.model_len };
	refusal = route_find(config, path, model, &route);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (route.needs_model || !config->llms[route.llm].provider->is_litellm)
		return REFUSAL_WITHDRAWN;
	llm_set_upstream(exchange, route.llm);
	return REFUSAL_NONE;
}

void held_renew(struct exchange *exchange, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	bool has_route = exchange->upstream != NULL;
	enum refusal refusal = REFUSAL_NONE;

	/* With the terms goes the key that it would have used. */
	exchange->upstream = NULL;
	exchange->scrubs = NULL;
	terms_unref(exchange->terms);
	exchange->terms = terms_ref(exchange->run->terms);
	if (!has_route)
		return; /* it is found when its model is */
	parse(exchange, &open);
	refusal = route_again(exchange, &open);
	if (refusal != REFUSAL_NONE)
		refuse(exchange, refusal, &open, now_ms);
}

/* Edits what was held raw while the route was not known. */
static int edit(struct exchange *exchange)
{
	struct exchange_body *body = exchange->body;
	struct buf raw = body->held;
	int r = 0;

	json_edit_init(&body->edit, identity_members);
	body->is_edited = true;
	buf_init(&body->held, LLM_BODY_MAX);
	if (raw.len > 0)
		r = json_edit_push(&body->edit, (struct bytes){ raw.data, raw.len }, &body->held);
	buf_fini(&raw);
	return r;
}

/* Finds the upstream once the model is known, or cannot become known any more. */
static enum refusal find_route(struct exchange *exchange, const struct link_open *open,
			       bool *ret_waits)
{
	struct exchange_body *body = exchange->body;
	struct bytes query, path = http_path_split(open->path, &query);
	struct bytes model = { body->edit.model, body->edit.model_len };
	bool is_known = json_edit_has_model(&body->edit);
	struct route route;
	enum refusal refusal;

	*ret_waits = !is_known && !exchange->is_request_over && body->held.len < EXCHANGE_HOLD_MAX;
	if (*ret_waits)
		return REFUSAL_NONE;
	if (!is_known && !exchange->is_request_over)
		return REFUSAL_MODEL_LATE;
	if (body->edit.model_count > 1)
		return REFUSAL_MODEL_TWICE;
	body->is_by_model = true;
	refusal = route_find(exchange->terms->charter->config, path, model, &route);
	if (refusal != REFUSAL_NONE)
		return refusal;
	llm_set_upstream(exchange, route.llm);
	if (llm_is_litellm(exchange) && !llm_is_typed_json(open))
		return REFUSAL_NOT_TYPED;
	if (llm_is_litellm(exchange) && edit(exchange) < 0)
		return REFUSAL_NOT_JSON;
	return REFUSAL_NONE;
}

static struct framing choose_framing(const struct exchange *exchange, const struct link_open *open)
{
	size_t held = exchange->body->held.len;

	if (exchange->is_request_over)
		return (struct framing){ held ? FRAMING_LENGTH : FRAMING_NONE, held };
	if (!exchange->body->is_edited && open->framing == FRAMING_LENGTH)
		return (struct framing){ FRAMING_LENGTH, open->length };
	return (struct framing){ FRAMING_CHUNKED, 0 };
}

/* Whether an edited body is better read to its end first. */
static bool waits_for_end(const struct exchange *exchange)
{
	return exchange->body->is_edited && !exchange->is_request_over &&
	       exchange->body->held.len < EXCHANGE_HOLD_MAX && exchange->granted > 0 &&
	       (!exchange->has_length ||
		exchange->sent_bytes + exchange->body_left <= EXCHANGE_HOLD_MAX);
}

/* The request goes on: its head, and what was held of its body. */
static void release(struct exchange *exchange, const struct link_open *open, struct bytes path,
		    uint64_t now_ms)
{
	struct exchange_body *body = exchange->body;
	struct framing framing = choose_framing(exchange, open);
	struct bytes query, whole_path = http_path_split(open->path, &query);

	llm_note_model(exchange);
	llm_write_head(exchange, open, path, &framing);
	request_add_body(exchange, (struct bytes){ body->held.data, body->held.len });
	buf_fini(&body->held);
	exchange_allow(exchange, open->method, whole_path, now_ms);
	if (exchange->is_request_over)
		llm_body_free(exchange);
}

/* Goes on as far as what has come allows. */
static void advance(struct exchange *exchange, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	struct exchange_body *body = exchange->body;
	struct bytes query, path;
	struct route route;
	bool waits = false;
	enum refusal refusal = REFUSAL_NONE;

	if (exchange->upstream && waits_for_end(exchange))
		return;
	parse(exchange, &open);
	if (!exchange->upstream)
		refusal = find_route(exchange, &open, &waits);
	if (refusal == REFUSAL_NONE && llm_is_model_in_doubt(body))
		refusal = REFUSAL_MODEL_TWICE;
	if (refusal == REFUSAL_NONE && !waits && body->is_edited && exchange->is_request_over &&
	    json_edit_finish(&body->edit) < 0)
		refusal = REFUSAL_NOT_JSON;
	if (refusal != REFUSAL_NONE) {
		refuse(exchange, refusal, &open, now_ms);
		return;
	}
	if (waits || waits_for_end(exchange))
		return;
	path = http_path_split(open.path, &query);
	/* The route again, for its path: the prefix may have been taken off. */
	if (route_find(exchange->terms->charter->config, path,
		       (struct bytes){ body->edit.model, body->edit.model_len },
		       &route) != REFUSAL_NONE)
		route.path = path;
	release(exchange, &open, route.path, now_ms);
}

void held_begin(struct exchange *exchange, struct bytes payload, bool is_edited)
{
	struct exchange_body *body = llm_body_new(exchange);

	body->open = malloc(payload.len);
	if (!body->open)
		die_no_memory();
	memcpy(body->open, payload.data, payload.len);
	body->open_len = payload.len;
	body->is_edited = is_edited;
	if (is_edited)
		json_edit_init(&body->edit, identity_members);
}

void held_on_data(struct exchange *exchange, struct bytes data, uint64_t now_ms)
{
	struct exchange_body *body = exchange->body;
	int r = json_edit_push(&body->edit, data, body->is_edited ? &body->held : NULL);

	if (!body->is_edited)
		buf_add(&body->held, data.data, data.len);
	if (r < 0)
		held_refuse(exchange, REFUSAL_NOT_JSON, now_ms);
	else
		advance(exchange, now_ms);
}

void held_on_end(struct exchange *exchange, uint64_t now_ms)
{
	advance(exchange, now_ms);
}
