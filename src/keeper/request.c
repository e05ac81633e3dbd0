/* SPDX-License-Identifier: MIT */
/*
 * What the gate sends becomes what the upstream gets: whose request it is, and how its body
 * moves. Where it may go is judged elsewhere (keeper/llm.h, keeper/egress.h).
 *
 * From here on the bytes may be the agent's: the gate that sent them may no longer be ours.
 */
#include "keeper/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "http/path.h"
#include "keeper/egress.h"
#include "keeper/held.h"
#include "keeper/limiter.h"
#include "keeper/llm.h"
#include "keeper/origin.h"
#include "keeper/verbose.h"

/* The head, a body within its credit, and what frames it. */
#define REQUEST_MAX (1 << 20)

/* ---- bytes for the upstream ---- */

void request_add_body(struct exchange *exchange, struct bytes data)
{
	if (data.len == 0)
		return;
	if (exchange->state == EXCHANGE_RELAY)
		exchange->origin->wire->add_body(exchange, data);
	else
		buf_add(&exchange->request, data.data, data.len);
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

const struct http_field *request_find_field(const struct link_open *open, const char *name)
{
	for (size_t i = 0; i < open->field_count; i++)
		if (bytes_equal_nocase(open->fields[i].name, bytes_of(name)))
			return &open->fields[i];
	return NULL;
}

/* ---- messages ---- */

void request_expect_body(struct exchange *exchange, const struct link_open *open)
{
	static struct link_reply reply;

	if (open->framing == FRAMING_NONE || !request_find_field(open, "expect"))
		return;
	reply.status = 100;
	reply.reason = BYTES("Continue");
	link_write_reply(peer_out(exchange->peer), exchange->id, &reply);
}

static void judge(struct exchange *exchange, struct bytes payload, const struct link_open *open,
		  uint64_t now_ms)
{
	struct bytes query, path = http_path_split(open->path, &query);
	enum refusal refusal = identify(exchange, open, now_ms);

	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, open->method, path, now_ms);
		return;
	}
	if (open->kind == LINK_KIND_LLM) {
		llm_judge(exchange, payload, open, now_ms);
		return;
	}
	request_expect_body(exchange, open);
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
	judge(exchange, payload, &open, now_ms);
	return 0;
}

static void emit_body(void *owner, struct bytes data)
{
	request_add_body(owner, data);
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
		request_add_body(exchange, data);
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
		held_on_data(exchange, data, now_ms);
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
		r = exchange->body ? llm_pass_on(exchange, data) : pass_on_to_host(exchange, data);
	if (r < 0)
		exchange_fail(exchange, refusal_of_body(r), NULL, now_ms);
	else
		exchange_mark_dirty(exchange);
	return 0;
}

int exchange_on_end(struct exchange *exchange, uint64_t now_ms)
{
	int r;

	if (exchange->is_request_over || (exchange->has_length && exchange->body_left > 0))
		return -EPROTO;
	exchange->is_request_over = true;
	if (exchange->state == EXCHANGE_HOLD) {
		held_on_end(exchange, now_ms);
		return 0;
	}
	r = exchange->body ? llm_end(exchange) : end_for_host(exchange);
	if (r < 0) {
		exchange_fail(exchange, refusal_of_body(r), NULL, now_ms);
		return 0;
	}
	if (exchange->state == EXCHANGE_RELAY)
		exchange->origin->wire->end_body(exchange);
	exchange_mark_dirty(exchange);
	return 0;
}
