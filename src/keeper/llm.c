/* SPDX-License-Identifier: MIT */
#include "keeper/llm.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "http/path.h"
#include "keeper/held.h"
#include "keeper/request.h"
#include "keeper/route.h"

static const struct json_edit_rule no_members[] = { { NULL, NULL } };

bool llm_is_litellm(const struct exchange *exchange)
{
	return exchange->upstream->llm->provider->is_litellm;
}

void llm_write_head(struct exchange *exchange, const struct link_open *open, struct bytes path,
		    const struct framing *framing)
{
	const struct identity identity = { exchange->run, exchange->call_id };

	exchange->is_chunked = framing->kind == FRAMING_CHUNKED;
	/* What asks nothing of a model is in no log. */
	if (llm_is_litellm(exchange) && framing->kind != FRAMING_NONE &&
	    runid_new(exchange->call_id) < 0)
		exchange->call_id[0] = '\0';
	attribution_write(&exchange->request, &identity, exchange->upstream->llm,
			  exchange->upstream->key, open, path, framing);
	exchange->head_len = exchange->request.len;
}

void llm_set_upstream(struct exchange *exchange, size_t llm)
{
	exchange->upstream = &exchange->terms->llms[llm];
	exchange->scrubs = exchange->terms->scrubs;
}

/* ---- bodies ---- */

/* "application/json", with "charset=utf-8" at most behind it. */
static bool is_json_type(struct bytes value)
{
	struct bytes type;

	if (!bytes_split(&value, ';', &type))
		return bytes_equal_nocase(value, BYTES("application/json"));
	while (type.len > 0 && type.data[type.len - 1] == ' ')
		type.len--;
	while (value.len > 0 && value.data[0] == ' ')
		bytes_take(&value, 1);
	return bytes_equal_nocase(type, BYTES("application/json")) &&
	       bytes_equal_nocase(value, BYTES("charset=utf-8"));
}

bool llm_is_typed_json(const struct link_open *open)
{
	size_t count = 0;

	for (size_t i = 0; i < open->field_count; i++) {
		if (!bytes_equal_nocase(open->fields[i].name, BYTES("content-type")))
			continue;
		if (++count > 1 || !is_json_type(open->fields[i].value))
			return false;
	}
	return true;
}

struct exchange_body *llm_body_new(struct exchange *exchange)
{
	struct exchange_body *body = malloc(sizeof(*body));

	if (!body)
		die_no_memory();
	body->is_edited = body->is_by_model = false;
	body->open = NULL;
	body->open_len = 0;
	json_edit_init(&body->edit, no_members);
	buf_init(&body->held, LLM_BODY_MAX);
	exchange->body = body;
	return body;
}

void llm_body_free(struct exchange *exchange)
{
	if (!exchange->body)
		return;
	free(exchange->body->open);
	buf_fini(&exchange->body->held);
	free(exchange->body);
	exchange->body = NULL;
}

void llm_note_model(struct exchange *exchange)
{
	const struct json_edit *edit = &exchange->body->edit;

	memcpy(exchange->model, edit->model, edit->model_len);
	exchange->model[edit->model_len] = '\0';
}

bool llm_is_model_in_doubt(const struct exchange_body *body)
{
	return body->is_by_model && body->edit.model_count > 1;
}

int llm_pass_on(struct exchange *exchange, struct bytes data)
{
	struct exchange_body *body = exchange->body;
	struct buf edited;
	int r;

	if (!body->is_edited) {
		/* Only read for its model: what is no JSON has none. */
		if (json_edit_push(&body->edit, data, NULL) < 0)
			body->edit.model_len = 0;
		request_add_body(exchange, data);
		return llm_is_model_in_doubt(body) ? -EINVAL : 0;
	}
	buf_init(&edited, LLM_BODY_MAX);
	r = json_edit_push(&body->edit, data, &edited);
	if (r == 0)
		request_add_body(exchange, (struct bytes){ edited.data, edited.len });
	buf_fini(&edited);
	return llm_is_model_in_doubt(body) || r < 0 ? -EINVAL : 0;
}

int llm_end(struct exchange *exchange)
{
	if (exchange->body->is_edited && json_edit_finish(&exchange->body->edit) < 0)
		return -EINVAL;
	llm_note_model(exchange);
	llm_body_free(exchange);
	return 0;
}

/* ---- judging ---- */

/* A method that the gate refuses too; but the gate may not be ours any more. */
static bool is_refused_method(struct bytes method)
{
	return bytes_equal(method, BYTES("TRACE")) || bytes_equal(method, BYTES("CONNECT"));
}

/* Whether a body can be looked into, where that must be done. */
static enum refusal judge_body(const struct exchange *exchange, const struct link_open *open)
{
	bool is_by_model = !exchange->upstream;

	if (open->framing == FRAMING_NONE || (!is_by_model && !llm_is_litellm(exchange)))
		return REFUSAL_NONE;
	if (request_find_field(open, "content-encoding"))
		return REFUSAL_ENCODED;
	return is_by_model || llm_is_typed_json(open) ? REFUSAL_NONE : REFUSAL_NOT_TYPED;
}

/* What can be judged by the head. */
static enum refusal judge_head(struct exchange *exchange, const struct link_open *open,
			       struct bytes path, struct route *ret_route)
{
	struct bytes no_model = { open->framing != FRAMING_NONE ? NULL : "", 0 };
	enum refusal refusal;

	if (is_refused_method(open->method))
		return REFUSAL_METHOD;
	refusal = route_find(exchange->terms->charter->config, path, no_model, ret_route);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (!ret_route->needs_model)
		llm_set_upstream(exchange, ret_route->llm);
	return judge_body(exchange, open);
}

void llm_judge(struct exchange *exchange, struct bytes payload, const struct link_open *open,
	       uint64_t now_ms)
{
	struct framing framing = { (enum http_framing)open->framing, open->length };
	struct bytes query, path = http_path_split(open->path, &query);
	bool has_body = open->framing != FRAMING_NONE;
	struct route route = { .llm = 0 };
	enum refusal refusal = judge_head(exchange, open, path, &route);

	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, open->method, path, now_ms);
		return;
	}
	request_expect_body(exchange, open);
	if (has_body && (route.needs_model || llm_is_litellm(exchange))) {
		held_begin(exchange, payload, !route.needs_model);
		return;
	}
	if (has_body)
		llm_body_new(exchange); /* for its model */
	llm_write_head(exchange, open, route.path, &framing);
	exchange_allow(exchange, open->method, path, now_ms);
}
