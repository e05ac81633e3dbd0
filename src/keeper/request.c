/* SPDX-License-Identifier: MIT */
/*
 * What the gate sends becomes what the upstream gets.
 *
 * Without a body, or with one that nothing is to be taken out of, the head is written at
 * once and the body follows as it comes. A body that decides the route is held until its
 * model is known. One that is edited is held as long as it is small, because its length
 * changes and not every server takes a body without one; a large one goes out in chunks.
 *
 * From here on the bytes may be the agent's: the gate that sent them may no longer be ours.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "http/path.h"
#include "keeper/egress.h"
#include "keeper/limiter.h"
#include "keeper/origin.h"
#include "keeper/route.h"
#include "keeper/verbose.h"

/* The head, a body within its credit, and what frames it. */
#define REQUEST_MAX (1 << 20)

/* A body while it is held, and what an edit of a piece can be. */
#define BODY_MAX ((size_t)2 * EXCHANGE_HOLD_MAX)

/* What outranks headers in LiteLLM (DESIGN: INV-ATTRIBUTION), or keeps a call out of its log. */
static const struct json_edit_rule identity_members[] = {
	{ NULL, "user" },   { NULL, "litellm_metadata" }, { NULL, "safety_identifier" },
	{ NULL, "no-log" }, { "metadata", "user_id" },    { NULL, NULL },
};

static const struct json_edit_rule no_members[] = { { NULL, NULL } };

/* ---- bytes for the upstream ---- */

static void add_body(struct exchange *exchange, struct bytes data)
{
	if (data.len == 0)
		return;
	if (exchange->state == EXCHANGE_RELAY)
		exchange->origin->wire->add_body(exchange, data);
	else
		buf_add(&exchange->request, data.data, data.len);
}

static bool is_litellm(const struct exchange *exchange)
{
	return exchange->upstream->llm->provider->is_litellm;
}

static void write_head(struct exchange *exchange, const struct link_open *open, struct bytes path,
		       const struct framing *framing)
{
	const struct identity identity = { exchange->run, exchange->call_id };

	exchange->is_chunked = framing->kind == FRAMING_CHUNKED;
	/* What asks nothing of a model is in no log. */
	if (is_litellm(exchange) && framing->kind != FRAMING_NONE &&
	    runid_new(exchange->call_id) < 0)
		exchange->call_id[0] = '\0';
	attribution_write(&exchange->request, &identity, exchange->upstream->llm,
			  exchange->upstream->key, open, path, framing);
	exchange->head_len = exchange->request.len;
}

/* ---- who asks ---- */

static enum refusal read_token(const struct exchange *exchange, const struct link_open *open,
			       struct token *ret_token)
{
	const struct http_field *found = NULL;
	const struct run *run = exchange->peer->run;

	for (size_t i = 0; i < open->field_count; i++) {
		if (!bytes_equal_nocase(open->fields[i].name, BYTES(RUN_TOKEN_HEADER)))
			continue;
		if (found)
			return REFUSAL_TOKEN_INVALID;
		found = &open->fields[i];
	}
	if (!found)
		return REFUSAL_TOKEN_MISSING;
	switch (keyring_verify(&exchange->peer->keeper->charter->token_keys, found->value,
			       clock_ms(CLOCK_REALTIME) / 1000, ret_token, NULL)) {
	case TOKEN_VALID:
		break;
	case TOKEN_EXPIRED:
		return REFUSAL_TOKEN_EXPIRED;
	default:
		return REFUSAL_TOKEN_INVALID;
	}
	if (run && strcmp(run->run_id, ret_token->run_id) != 0)
		return REFUSAL_TOKEN_FOREIGN;
	return REFUSAL_NONE;
}

static void count_token(const struct exchange *exchange, enum refusal refusal)
{
	uint64_t *tokens = exchange->peer->keeper->metrics.tokens;

	tokens[refusal == REFUSAL_NONE            ? METRICS_TOKEN_ACCEPTED
	       : refusal == REFUSAL_TOKEN_MISSING ? METRICS_TOKEN_MISSING
	       : refusal == REFUSAL_TOKEN_EXPIRED ? METRICS_TOKEN_EXPIRED
	       : refusal == REFUSAL_TOKEN_FOREIGN ? METRICS_TOKEN_FOREIGN
						  : METRICS_TOKEN_INVALID]++;
}

/* A token's run begins with its first request; it has no end that could be waited for. */
static bool may_begin(const struct peer *peer, const struct run_spec *spec)
{
	const struct keeper *keeper = peer->keeper;

	return !keeper->is_draining || keeper->is_replaced || peer_knows_run(peer, spec);
}

/* INV-RUN-IDENTITY: the link's run, or the one that a token was signed for. */
static enum refusal identify(struct exchange *exchange, const struct link_open *open,
			     uint64_t now_ms)
{
	struct run *run = exchange->peer->run;
	struct token token;
	enum refusal refusal;

	if (exchange->peer->kind == PEER_OPEN) {
		struct run_spec spec = { .run_id = token.run_id };
		struct err err;

		refusal = read_token(exchange, open, &token);
		count_token(exchange, refusal);
		if (refusal != REFUSAL_NONE)
			return refusal;
		spec.attempt = token.attempt;
		if (!may_begin(exchange->peer, &spec)) {
			exchange->retry_s = 1; /* there may be another keeper then */
			return REFUSAL_DRAINING;
		}
		run = peer_find_run(exchange->peer, &spec, now_ms, &err);
		if (!run)
			return REFUSAL_TOO_MANY_RUNS;
	}
	exchange->run = run;
	exchange->terms = terms_ref(run->terms);
	run->exchange_count++;
	return REFUSAL_NONE;
}

/* ---- where it goes ---- */

static void set_upstream(struct exchange *exchange, size_t llm)
{
	exchange->upstream = &exchange->terms->llms[llm];
	exchange->scrubs = exchange->terms->scrubs;
}

static const struct http_field *find_field(const struct link_open *open, const char *name)
{
	for (size_t i = 0; i < open->field_count; i++)
		if (bytes_equal_nocase(open->fields[i].name, bytes_of(name)))
			return &open->fields[i];
	return NULL;
}

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

/*
 * INV-ATTRIBUTION: a body can be JSON and, for a reader that goes by its type, a form at the
 * same time. One whose type says anything else than JSON is not taken for it.
 */
static bool is_typed_json(const struct link_open *open)
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

static struct exchange_body *body_new(struct exchange *exchange)
{
	struct exchange_body *body = malloc(sizeof(*body));

	if (!body)
		die_no_memory();
	body->is_edited = body->is_by_model = false;
	body->open = NULL;
	body->open_len = 0;
	json_edit_init(&body->edit, no_members);
	buf_init(&body->held, BODY_MAX);
	exchange->body = body;
	return body;
}

static void body_free(struct exchange *exchange)
{
	if (!exchange->body)
		return;
	free(exchange->body->open);
	buf_fini(&exchange->body->held);
	free(exchange->body);
	exchange->body = NULL;
}

/* Keeps the model for the records. */
static void note_model(struct exchange *exchange)
{
	const struct json_edit *edit = &exchange->body->edit;

	memcpy(exchange->model, edit->model, edit->model_len);
	exchange->model[edit->model_len] = '\0';
}

/* One model has chosen the upstream, and another one might be what the upstream reads. */
static bool is_model_in_doubt(const struct exchange_body *body)
{
	return body->is_by_model && body->edit.model_count > 1;
}

/* ---- held requests ---- */

static void refuse_held(struct exchange *exchange, enum refusal refusal,
			const struct link_open *open, uint64_t now_ms)
{
	struct bytes query, path = http_path_split(open->path, &query);

	exchange_refuse(exchange, refusal, open->method, path, now_ms);
}

static void parse_held(const struct exchange *exchange, struct link_open *ret_open)
{
	const struct exchange_body *body = exchange->body;

	if (link_parse_open((struct bytes){ body->open, body->open_len }, ret_open) < 0)
		abort(); /* it was parsed before */
}

void exchange_refuse_held(struct exchange *exchange, enum refusal refusal, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */

	parse_held(exchange, &open);
	refuse_held(exchange, refusal, &open, now_ms);
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
	set_upstream(exchange, route.llm);
	return REFUSAL_NONE;
}

void exchange_renew_held(struct exchange *exchange, uint64_t now_ms)
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
	parse_held(exchange, &open);
	refusal = route_again(exchange, &open);
	if (refusal != REFUSAL_NONE)
		refuse_held(exchange, refusal, &open, now_ms);
}

/* Edits what was held raw while the route was not known. */
static int edit_held(struct exchange *exchange)
{
	struct exchange_body *body = exchange->body;
	struct buf raw = body->held;
	int r = 0;

	json_edit_init(&body->edit, identity_members);
	body->is_edited = true;
	buf_init(&body->held, BODY_MAX);
	if (raw.len > 0)
		r = json_edit_push(&body->edit, (struct bytes){ raw.data, raw.len }, &body->held);
	buf_fini(&raw);
	return r;
}

/* Finds the upstream once the model is known, or cannot become known any more. */
static enum refusal route_held(struct exchange *exchange, const struct link_open *open,
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
	set_upstream(exchange, route.llm);
	if (is_litellm(exchange) && !is_typed_json(open))
		return REFUSAL_NOT_TYPED;
	if (is_litellm(exchange) && edit_held(exchange) < 0)
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

	note_model(exchange);
	write_head(exchange, open, path, &framing);
	add_body(exchange, (struct bytes){ body->held.data, body->held.len });
	buf_fini(&body->held);
	exchange_allow(exchange, open->method, whole_path, now_ms);
	if (exchange->is_request_over)
		body_free(exchange);
}

/* Goes on as far as what has come allows. */
static void advance_held(struct exchange *exchange, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	struct exchange_body *body = exchange->body;
	struct bytes query, path;
	struct route route;
	bool waits = false;
	enum refusal refusal = REFUSAL_NONE;

	if (exchange->upstream && waits_for_end(exchange))
		return;
	parse_held(exchange, &open);
	if (!exchange->upstream)
		refusal = route_held(exchange, &open, &waits);
	if (refusal == REFUSAL_NONE && is_model_in_doubt(body))
		refusal = REFUSAL_MODEL_TWICE;
	if (refusal == REFUSAL_NONE && !waits && body->is_edited && exchange->is_request_over &&
	    json_edit_finish(&body->edit) < 0)
		refusal = REFUSAL_NOT_JSON;
	if (refusal != REFUSAL_NONE) {
		refuse_held(exchange, refusal, &open, now_ms);
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

/* ---- messages ---- */

static void hold(struct exchange *exchange, struct bytes payload, bool is_edited)
{
	struct exchange_body *body = body_new(exchange);

	body->open = malloc(payload.len);
	if (!body->open)
		die_no_memory();
	memcpy(body->open, payload.data, payload.len);
	body->open_len = payload.len;
	body->is_edited = is_edited;
	if (is_edited)
		json_edit_init(&body->edit, identity_members);
}

static void say_continue(struct exchange *exchange)
{
	static struct link_reply reply;

	reply.status = 100;
	reply.reason = BYTES("Continue");
	link_write_reply(peer_out(exchange->peer), exchange->id, &reply);
}

/* A method that the gate refuses too; but the gate may not be ours any more. */
static bool is_refused_method(struct bytes method)
{
	return bytes_equal(method, BYTES("TRACE")) || bytes_equal(method, BYTES("CONNECT"));
}

/* Whether a body can be looked into, where that must be done. */
static enum refusal judge_body(const struct exchange *exchange, const struct link_open *open)
{
	bool is_by_model = !exchange->upstream;

	if (open->framing == FRAMING_NONE || (!is_by_model && !is_litellm(exchange)))
		return REFUSAL_NONE;
	if (find_field(open, "content-encoding"))
		return REFUSAL_ENCODED;
	return is_by_model || is_typed_json(open) ? REFUSAL_NONE : REFUSAL_NOT_TYPED;
}

/* What can be judged by the head. */
static enum refusal judge_head(struct exchange *exchange, const struct link_open *open,
			       struct bytes path, uint64_t now_ms, struct route *ret_route)
{
	struct bytes no_model = { open->framing != FRAMING_NONE ? NULL : "", 0 };
	enum refusal refusal = identify(exchange, open, now_ms);

	if (refusal == REFUSAL_NONE && is_refused_method(open->method))
		refusal = REFUSAL_METHOD;
	if (refusal == REFUSAL_NONE)
		refusal = route_find(exchange->terms->charter->config, path, no_model, ret_route);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (!ret_route->needs_model)
		set_upstream(exchange, ret_route->llm);
	return judge_body(exchange, open);
}

/* Judges a request to an LLM, and sets the course of the rest. */
static void judge(struct exchange *exchange, struct bytes payload, const struct link_open *open,
		  uint64_t now_ms)
{
	struct framing framing = { (enum http_framing)open->framing, open->length };
	struct bytes query, path = http_path_split(open->path, &query);
	bool has_body = open->framing != FRAMING_NONE;
	struct route route = { .llm = 0 };
	enum refusal refusal = judge_head(exchange, open, path, now_ms, &route);

	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, open->method, path, now_ms);
		return;
	}
	if (has_body && find_field(open, "expect"))
		say_continue(exchange);
	if (has_body && (route.needs_model || is_litellm(exchange))) {
		hold(exchange, payload, !route.needs_model);
		return;
	}
	if (has_body)
		body_new(exchange); /* for its model */
	write_head(exchange, open, route.path, &framing);
	exchange_allow(exchange, open->method, path, now_ms);
}

/* A host: whose request it is, is known in the same way. */
static void judge_host(struct exchange *exchange, const struct link_open *open, uint64_t now_ms)
{
	struct bytes query, path = http_path_split(open->path, &query);
	enum refusal refusal = identify(exchange, open, now_ms);

	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, open->method, path, now_ms);
		return;
	}
	if (open->framing != FRAMING_NONE && find_field(open, "expect"))
		say_continue(exchange);
	egress_judge(exchange, open, now_ms);
}

static_assert((int)LINK_KIND_TUNNEL == (int)METRICS_KIND_TUNNEL &&
		      (int)LINK_KIND_WEBSOCKET == (int)METRICS_KIND_WEBSOCKET,
	      "kinds are counted by their number");

int exchange_open(struct peer *peer, uint32_t id, struct bytes payload, uint64_t now_ms)
{
	static struct link_open open; /* large, and needed only in here */
	struct exchange *exchange;

	if (link_parse_open(payload, &open) < 0)
		return -EPROTO;
	exchange = calloc(1, sizeof(*exchange));
	if (!exchange)
		die_no_memory();
	exchange->peer = peer;
	exchange->id = id;
	if (peer_add_exchange(peer, exchange) < 0) {
		free(exchange);
		return -EPROTO;
	}
	exchange->start_ms = exchange->last_ms = now_ms;
	exchange->credit = exchange->granted = LINK_CREDIT_FIRST;
	exchange->is_head = bytes_equal(open.method, BYTES("HEAD"));
	exchange->has_length = open.framing != FRAMING_CHUNKED;
	exchange->body_left = open.length;
	buf_init(&exchange->request, REQUEST_MAX);
	buf_init(&exchange->coded, KEEPER_INPUT_SIZE);
	buf_init(&exchange->trailer, HTTP_HEAD_MAX);
	peer->keeper->metrics.exchanges++;
	peer->keeper->metrics.exchanges_begun[open.kind]++;
	verbose_open(exchange, &open);
	if (open.kind == LINK_KIND_LLM)
		judge(exchange, payload, &open, now_ms);
	else
		judge_host(exchange, &open, now_ms);
	return 0;
}

static void emit_body(void *owner, struct bytes data)
{
	add_body(owner, data);
}

/* What a failure of a body's pieces means to the agent. */
static enum refusal refusal_of_body(int error)
{
	switch (error) {
	case -EPERM:
		return REFUSAL_MISPLACED;
	case -EBADMSG:
		return REFUSAL_BAD_ENCODING;
	case -E2BIG:
		return REFUSAL_BODY_TOO_LARGE;
	case -EPROTO:
		return REFUSAL_NO_FRAMES;
	case -EDQUOT:
		return REFUSAL_EGRESS_BUDGET;
	default:
		return REFUSAL_NOT_JSON;
	}
}

/* -EPERM when a placeholder was found that must not be there; -E2BIG when it grows too much. */
static int check_body(const struct exchange *exchange)
{
	if (exchange->substitute->found.refused)
		return -EPERM;
	return exchange->request.len == exchange->request.max ? -E2BIG : 0;
}

/* A piece for a host, with secrets in place. */
static int pass_on_to_host(struct exchange *exchange, struct bytes data)
{
	int r = 0;

	if (exchange->websocket)
		return websocket_read_agent(exchange->websocket, data, &exchange->request);
	if (!exchange->substitute) {
		add_body(exchange, data);
		return 0;
	}
	if (exchange->recode)
		r = recode_push(exchange->recode, data, exchange->substitute, emit_body, exchange);
	else
		substitute_push(exchange->substitute, data, emit_body, exchange);
	return r < 0 ? r : check_body(exchange);
}

static int end_for_host(struct exchange *exchange)
{
	int r = 0;

	if (!exchange->substitute)
		return 0;
	if (exchange->recode)
		r = recode_finish(exchange->recode, exchange->substitute, emit_body, exchange);
	else
		substitute_finish(exchange->substitute, emit_body, exchange);
	return r < 0 ? r : check_body(exchange);
}

/* A piece of a body whose head is written. */
static int pass_on(struct exchange *exchange, struct bytes data)
{
	struct exchange_body *body = exchange->body;
	struct buf edited;
	int r;

	if (!body) /* of a host */
		return pass_on_to_host(exchange, data);
	if (!body->is_edited) {
		/* Only read for its model: what is no JSON has none. */
		if (json_edit_push(&body->edit, data, NULL) < 0)
			body->edit.model_len = 0;
		add_body(exchange, data);
		return is_model_in_doubt(body) ? -EINVAL : 0;
	}
	buf_init(&edited, BODY_MAX);
	r = json_edit_push(&body->edit, data, &edited);
	if (r == 0)
		add_body(exchange, (struct bytes){ edited.data, edited.len });
	buf_fini(&edited);
	return is_model_in_doubt(body) || r < 0 ? -EINVAL : 0;
}

static void on_held_data(struct exchange *exchange, struct bytes data, uint64_t now_ms)
{
	struct exchange_body *body = exchange->body;
	int r = json_edit_push(&body->edit, data, body->is_edited ? &body->held : NULL);

	if (!body->is_edited)
		buf_add(&body->held, data.data, data.len);
	if (r < 0)
		exchange_refuse_held(exchange, REFUSAL_NOT_JSON, now_ms);
	else
		advance_held(exchange, now_ms);
}

int exchange_on_data(struct exchange *exchange, struct bytes data, uint64_t now_ms)
{
	int r;

	if (data.len > exchange->granted || exchange->is_request_over ||
	    (exchange->has_length && data.len > exchange->body_left))
		return -EPROTO;
	exchange->granted -= (uint32_t)data.len;
	exchange->body_left -= exchange->has_length ? data.len : 0;
	exchange->sent_bytes += data.len;
	exchange->owed += (uint32_t)data.len;
	if (exchange->state == EXCHANGE_HOLD) {
		on_held_data(exchange, data, now_ms);
		return 0;
	}
	limiter_count(exchange);
	if (limiter_is_out(exchange, 0)) {
		exchange_run_out(exchange, limiter_last_word(exchange), now_ms);
		return 0;
	}
	if (exchange->account && !exchange->has_length &&
	    !budget_take(&exchange->run->budget, exchange->account, data.len))
		r = -EDQUOT;
	else
		r = pass_on(exchange, data);
	if (r < 0)
		exchange_fail(exchange, refusal_of_body(r), NULL, now_ms);
	else
		exchange_mark_dirty(exchange);
	return 0;
}

int exchange_on_end(struct exchange *exchange, uint64_t now_ms)
{
	struct exchange_body *body = exchange->body;
	int r;

	if (exchange->is_request_over || (exchange->has_length && exchange->body_left > 0))
		return -EPROTO;
	exchange->is_request_over = true;
	if (exchange->state == EXCHANGE_HOLD) {
		advance_held(exchange, now_ms);
		return 0;
	}
	if (body && body->is_edited && json_edit_finish(&body->edit) < 0) {
		exchange_fail(exchange, REFUSAL_NOT_JSON, NULL, now_ms);
		return 0;
	}
	if (body) {
		note_model(exchange);
		body_free(exchange);
	}
	r = end_for_host(exchange);
	if (r < 0) {
		exchange_fail(exchange, refusal_of_body(r), NULL, now_ms);
		return 0;
	}
	if (exchange->state == EXCHANGE_RELAY)
		exchange->origin->wire->end_body(exchange);
	exchange_mark_dirty(exchange);
	return 0;
}
