/* SPDX-License-Identifier: MIT */
/* The life of an exchange, from its record in the audit log to the next one. */
#include "keeper/exchange.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/die.h"
#include "keeper/held.h"
#include "keeper/limiter.h"
#include "keeper/llm.h"
#include "keeper/origin.h"
#include "keeper/run_time.h"
#include "keeper/verbose.h"
#include "policy/address.h"

/* What is kept of a path and a method in a record. */
#define METHOD_MAX 32
#define PATH_MAX   2048

#define RESTARTS_MAX 2

static struct keeper *keeper_of(const struct exchange *exchange)
{
	return exchange->peer->keeper;
}

/* Before a token has said whose it is, only the link may; NULL when that does not, either. */
static const struct run *find_run(const struct exchange *exchange)
{
	return exchange->run ? exchange->run : exchange->peer->run;
}

static const char *run_id_of(const struct exchange *exchange)
{
	const struct run *run = find_run(exchange);

	return run ? run->run_id : "";
}

static uint32_t attempt_of(const struct exchange *exchange)
{
	const struct run *run = find_run(exchange);

	return run ? run->attempt : 0;
}

/* ---- states ---- */

static void set_state(struct exchange *exchange, enum exchange_state state)
{
	static const unsigned int allowed[] = {
		[EXCHANGE_HOLD] = 1 << EXCHANGE_RESERVE | 1 << EXCHANGE_DECIDED |
				  1 << EXCHANGE_OVER,
		[EXCHANGE_RESERVE] = 1 << EXCHANGE_DECIDED | 1 << EXCHANGE_OVER,
		[EXCHANGE_DECIDED] = 1 << EXCHANGE_DIAL | 1 << EXCHANGE_RELAY | 1 << EXCHANGE_OVER,
		[EXCHANGE_DIAL] = 1 << EXCHANGE_RELAY | 1 << EXCHANGE_OVER,
		[EXCHANGE_RELAY] = 1 << EXCHANGE_DIAL | 1 << EXCHANGE_RELAY | 1 << EXCHANGE_OVER,
		[EXCHANGE_OVER] = 0,
	};

	assert(allowed[exchange->state] & 1U << state);
	exchange->state = state;
}

static void free_exchange(struct loop_deferred *deferred)
{
	struct exchange *exchange = (struct exchange *)(void *)deferred;

	llm_body_free(exchange);
	/* It holds the key. */
	if (exchange->request.data)
		explicit_bzero(exchange->request.data, exchange->request.size);
	buf_fini(&exchange->request);
	buf_fini(&exchange->coded);
	buf_fini(&exchange->trailer);
	free(exchange->method_path);
	free(exchange->label);
	free(exchange->place);
	free(exchange->substitute);
	websocket_free(exchange->websocket);
	recode_free(exchange->recode);
	decoder_free(exchange->decoder);
	scrub_fini(&exchange->scrub);
	terms_unref(exchange->terms);
	free(exchange);
}

/* Out of every list but that of the turn. */
static void end(struct exchange *exchange, bool is_complete, uint64_t now_ms)
{
	struct metrics *metrics = &keeper_of(exchange)->metrics;
	struct loop *loop = &keeper_of(exchange)->loop;

	metrics->exchanges--;
	metrics->bytes[METRICS_DIRECTION_SENT] += exchange->sent_bytes;
	metrics->bytes[METRICS_DIRECTION_RECEIVED] += exchange->received_bytes;
	set_state(exchange, EXCHANGE_OVER);
	if (exchange->account && exchange->has_length) /* what was announced and did not come */
		budget_give_back(&exchange->run->budget, exchange->account, exchange->body_left);
	if (exchange->connect)
		connect_cancel(exchange->connect);
	if (exchange->handshake)
		tls_handshake_cancel(exchange->handshake);
	if (exchange->origin)
		exchange->origin->wire->release(exchange, is_complete, now_ms);
	exchange->connect = NULL;
	exchange->handshake = NULL;
	exchange->origin = NULL;
	exchange->stream = NULL;
	loop_cancel(loop, &exchange->timer);
	if (exchange->upstream && !exchange->upstream->llm)
		exchange->upstream->use_count--;
	if (exchange->run)
		exchange->run->exchange_count--;
	peer_remove_exchange(exchange->peer, exchange);
	/* It may be in a list of this turn, which passes over what is over. */
	exchange->deferred.free = free_exchange;
	loop_defer(loop, &exchange->deferred);
	/* Last: it may be what the others' money was for, and they are cut off from in there. */
	limiter_settle(exchange, now_ms);
}

/* ---- records ---- */

static void add_decision(struct exchange *exchange, struct bytes method, struct bytes path,
			 enum refusal refusal)
{
	struct audit_decision decision = {
		.run_id = bytes_of(run_id_of(exchange)),
		.attempt = attempt_of(exchange),
		.exchange = exchange->id,
		.method = bytes_cut(method, METHOD_MAX),
		.path = bytes_cut(path, PATH_MAX),
		.is_allowed = refusal == REFUSAL_NONE,
	};

	if (refusal != REFUSAL_NONE)
		decision.reason = bytes_of(refusal_code(refusal));
	else
		decision.reason = bytes_of(exchange->rule        ? exchange->rule
					   : exchange->is_tunnel ? "tunnel"
								 : "llm");
	/* Should its outcome never be written, its cost is still found in the upstream's log. */
	if (refusal == REFUSAL_NONE && exchange->call_id[0])
		decision.call_id = bytes_of(exchange->call_id);
	if (exchange->place)
		decision.host = bytes_of(exchange->place);
	else if (exchange->upstream)
		decision.host = bytes_of(exchange->upstream->label);
	audit_add_decision(&keeper_of(exchange)->audit, &decision);
	keeper_of(exchange)->has_decision = true;
	keeper_after_record(keeper_of(exchange));
}

static struct bytes text_or_none(const char *text)
{
	return text && text[0] ? bytes_of(text) : (struct bytes){ NULL, 0 };
}

static void add_outcome(struct exchange *exchange, const char *ended, const char *detail,
			uint64_t now_ms)
{
	struct audit_outcome outcome = {
		.run_id = bytes_of(run_id_of(exchange)),
		.attempt = attempt_of(exchange),
		.exchange = exchange->id,
		.status = exchange->status ? exchange->status : AUDIT_UNSET,
		.sent_bytes = (int64_t)exchange->sent_bytes,
		.received_bytes = (int64_t)exchange->received_bytes,
		.first_byte_ms = exchange->first_byte_ms
					 ? (int64_t)(exchange->first_byte_ms - exchange->start_ms)
					 : AUDIT_UNSET,
		.duration_ms = (int64_t)(now_ms - exchange->start_ms),
		.ended = bytes_of(ended),
		.account = text_or_none(exchange->run ? exchange->run->account : NULL),
		.model = text_or_none(exchange->model),
		.call_id = text_or_none(exchange->call_id),
		.cost = text_or_none(exchange->cost.last),
	};

	audit_add_outcome(&keeper_of(exchange)->audit, &outcome);
	keeper_after_record(keeper_of(exchange));
	verbose_outcome(exchange, ended, detail, now_ms);
}

/* ---- refusals ---- */

/* A whole reply of our own. */
static void answer(struct exchange *exchange, enum refusal refusal, const char *detail)
{
	static struct link_reply reply; /* large, and needed only in here */
	static const struct link_end no_trailer;
	struct peer *peer = exchange->peer;
	char retry[24];
	struct buf body;

	buf_init(&body, LINK_DATA_MAX);
	refusal_format(refusal, detail, exchange->hint, run_id_of(exchange), &body);
	reply.status = exchange->status = refusal_status(refusal);
	reply.reason = BYTES(""); /* as it is usually called */
	reply.framing = exchange->is_head ? FRAMING_NONE : FRAMING_LENGTH;
	reply.length = body.len;
	reply.fields[0] = (struct http_field){ BYTES("content-type"), BYTES("application/json") };
	reply.field_count = 1;
	if (exchange->retry_s) {
		snprintf(retry, sizeof(retry), "%" PRIu64, exchange->retry_s);
		reply.fields[reply.field_count++] = (struct http_field){ BYTES("retry-after"),
									 bytes_of(retry) };
	}
	link_write_reply(peer_out(peer), exchange->id, &reply);
	if (!exchange->is_head)
		link_write_data(peer_out(peer), exchange->id,
				(struct bytes){ body.data, body.len });
	link_write_end(peer_out(peer), exchange->id, &no_trailer);
	buf_fini(&body);
}

static void count_end(const struct exchange *exchange, int how)
{
	keeper_of(exchange)->metrics.exchanges_ended[how]++;
}

void exchange_refuse(struct exchange *exchange, enum refusal refusal, struct bytes method,
		     struct bytes path, uint64_t now_ms)
{
	exchange->peer->refused++;
	count_end(exchange, METRICS_END_REFUSED);
	keeper_of(exchange)->metrics.refusals[refusal]++;
	add_decision(exchange, method, path, refusal);
	answer(exchange, refusal, NULL);
	verbose_outcome(exchange, refusal_code(refusal), NULL, now_ms);
	end(exchange, false, now_ms);
}

void exchange_give_up(struct exchange *exchange, uint64_t now_ms)
{
	exchange->peer->refused++;
	count_end(exchange, METRICS_END_REFUSED);
	keeper_of(exchange)->metrics.refusals[REFUSAL_AUDIT_FAILED]++;
	answer(exchange, REFUSAL_AUDIT_FAILED, NULL);
	verbose_outcome(exchange, refusal_code(REFUSAL_AUDIT_FAILED), NULL, now_ms);
	end(exchange, false, now_ms);
}

/* What the upstream does wrong is told; where it is, and how it is reached, is not. */
static bool is_for_agents(enum refusal refusal)
{
	return refusal == REFUSAL_TLS || refusal == REFUSAL_GARBAGE;
}

void exchange_fail(struct exchange *exchange, enum refusal refusal, const char *detail,
		   uint64_t now_ms)
{
	if (exchange->state == EXCHANGE_RESERVE) { /* nothing has been decided yet */
		struct bytes method = bytes_of(exchange->method_path);

		exchange_refuse(exchange, refusal, method,
				bytes_of(exchange->method_path + method.len + 1), now_ms);
		return;
	}
	/* Half a reply must not look like a whole one: the agent's connection is reset. */
	if (exchange->is_reply_begun && exchange->websocket)
		exchange_close_websocket(exchange, refusal);
	else if (exchange->is_reply_begun)
		link_write_abort(peer_out(exchange->peer), exchange->id);
	else
		answer(exchange, refusal, is_for_agents(refusal) ? detail : NULL);
	count_end(exchange, exchange->is_cut ? METRICS_END_CUT : METRICS_END_FAILED);
	keeper_of(exchange)->metrics.failures[refusal]++;
	add_outcome(exchange, refusal_code(refusal), detail, now_ms);
	end(exchange, false, now_ms);
}

/* A last event, whole, if there is room for it; then the connection breaks. */
static void send_error_event(struct exchange *exchange, enum refusal refusal)
{
	bool is_between = memcmp(exchange->tail, "\n\n", 2) == 0;
	struct buf event;

	buf_init(&event, LINK_DATA_MAX);
	buf_add_text(&event, is_between ? "event: error\ndata: " : "\n\nevent: error\ndata: ");
	refusal_format(refusal, NULL, exchange->hint, run_id_of(exchange), &event);
	buf_add_text(&event, "\n\n");
	if (event.len <= exchange->credit)
		link_write_data(peer_out(exchange->peer), exchange->id,
				(struct bytes){ event.data, event.len });
	buf_fini(&event);
}

void exchange_cut(struct exchange *exchange, enum refusal refusal, uint64_t now_ms)
{
	if (exchange->state == EXCHANGE_OVER)
		return;
	if (exchange->state == EXCHANGE_HOLD) { /* nothing has been decided yet */
		held_refuse(exchange, refusal, now_ms);
		return;
	}
	exchange->is_cut = true;
	exchange->credit += exchange->kept_credit; /* the gate has granted it, whatever for */
	exchange->kept_credit = 0;
	if (exchange->is_events && exchange->is_reply_begun)
		send_error_event(exchange, refusal);
	exchange_fail(exchange, refusal, NULL, now_ms);
}

void exchange_finish(struct exchange *exchange, uint64_t now_ms)
{
	struct metrics *metrics = &keeper_of(exchange)->metrics;

	count_end(exchange, METRICS_END_COMPLETE);
	metrics_observe(&metrics->exchange_seconds, (now_ms - exchange->start_ms) * 1000);
	if (exchange->first_byte_ms)
		metrics_observe(&metrics->first_byte_seconds,
				(exchange->first_byte_ms - exchange->start_ms) * 1000);
	add_outcome(exchange, "complete", NULL, now_ms);
	end(exchange, true, now_ms);
}

void exchange_cancel(struct exchange *exchange, const char *why, uint64_t now_ms)
{
	count_end(exchange, METRICS_END_ABANDONED);
	if (exchange->state != EXCHANGE_HOLD && exchange->state != EXCHANGE_RESERVE)
		add_outcome(exchange, why, NULL, now_ms);
	end(exchange, false, now_ms);
}

/* ---- starting ---- */

/* Everything is in order: it goes on when that is written. */
static void decide(struct exchange *exchange, struct bytes method, struct bytes path)
{
	struct keeper *keeper = keeper_of(exchange);

	set_state(exchange, EXCHANGE_DECIDED);
	add_decision(exchange, method, path, REFUSAL_NONE);
	if (keeper->decided)
		keeper->last_decided->next_decided = exchange;
	else
		keeper->decided = exchange;
	keeper->last_decided = exchange;
}

/* What is needed for the record once the store has answered. */
static void keep_method_path(struct exchange *exchange, struct bytes method, struct bytes path)
{
	method = bytes_cut(method, METHOD_MAX);
	path = bytes_cut(path, PATH_MAX);
	exchange->method_path = malloc(method.len + path.len + 2);
	if (!exchange->method_path)
		die_no_memory();
	memcpy(exchange->method_path, method.data, method.len);
	exchange->method_path[method.len] = '\0';
	memcpy(exchange->method_path + method.len + 1, path.data, path.len);
	exchange->method_path[method.len + 1 + path.len] = '\0';
}

/* What was decided about the run itself, whatever it asks for. */
static enum refusal judge_run(const struct run *run, uint64_t now_ms)
{
	uint64_t ends_ms = run_ends_ms(run);

	if (run->is_revoked)
		return REFUSAL_REVOKED;
	return ends_ms && now_ms >= ends_ms ? REFUSAL_DURATION : REFUSAL_NONE;
}

void exchange_allow(struct exchange *exchange, struct bytes method, struct bytes path,
		    uint64_t now_ms)
{
	enum refusal refusal = judge_run(exchange->run, now_ms);

	if (refusal != REFUSAL_NONE) {
		exchange_refuse(exchange, refusal, method, path, now_ms);
	} else if (run_time_is_unknown(exchange->run)) {
		set_state(exchange, EXCHANGE_RESERVE);
		keep_method_path(exchange, method, path);
		run_time_ask(exchange->run, now_ms);
	} else if (limiter_ask(exchange)) {
		set_state(exchange, EXCHANGE_RESERVE);
		keep_method_path(exchange, method, path);
	} else {
		decide(exchange, method, path);
	}
}

/* Whose limit it is, for whoever reads the refusal. */
static void set_limit_hint(struct exchange *exchange, const struct store_reservation *asked)
{
	static char hint[160]; /* until the refusal is written, which is next */
	const char *meter = asked->claims[asked->refused_claim].meter;

	snprintf(hint, sizeof(hint), "it is a limit of the %.*s", (int)strcspn(meter, ":"), meter);
	exchange->hint = hint;
}

/* For the operator: that a limit was reached, and which. */
static void note_limit(const struct exchange *exchange, const struct store_reservation *asked,
		       const char *code, uint64_t now_ms)
{
	static const char scopes[METRICS_SCOPE_COUNT] = { 'r', 'a', 'h' };
	const char *meter = asked->claims[asked->refused_claim].meter;

	for (size_t i = 0; i < METRICS_SCOPE_COUNT; i++)
		if (scopes[i] == meter[0])
			keeper_of(exchange)->metrics.limited[i][asked->verdict - STORE_NO_RATE]++;
	keeper_notice(
		keeper_of(exchange), NOTICE_LIMIT_REACHED, now_ms,
		&(struct notice){ .run_id = run_id_of(exchange), .meter = meter, .code = code });
}

/* What the store has said, for whoever asked. */
static enum refusal explain(struct exchange *exchange, const struct store_reservation *asked,
			    uint64_t now_ms)
{
	static const struct {
		enum refusal refusal;
		bool is_limit;
		uint64_t retry_s; /* when the store does not know */
	} refusals[] = {
		[STORE_NO_RATE] = { REFUSAL_RATE, true, 1 },
		[STORE_NO_PLACE] = { REFUSAL_PLACES, true, 1 },
		[STORE_NO_BYTES] = { REFUSAL_BYTES, true, 3600 },
		[STORE_NO_MONEY] = { REFUSAL_MONEY, true, 3600 },
		[STORE_IS_REVOKED] = { REFUSAL_REVOKED, false, 0 },
		[STORE_HAS_LINK] = { REFUSAL_STORE, false, 1 },
		[STORE_UNREACHABLE] = { REFUSAL_STORE, false, 1 },
	};
	enum refusal refusal = refusals[asked->verdict].refusal;

	exchange->retry_s = asked->retry_ms ? (asked->retry_ms + 999) / 1000
					    : refusals[asked->verdict].retry_s;
	if (refusals[asked->verdict].is_limit) {
		set_limit_hint(exchange, asked);
		note_limit(exchange, asked, refusal_code(refusal), now_ms);
	}
	return refusal;
}

void exchange_on_time(struct exchange *exchange, enum store_verdict verdict, uint64_t now_ms)
{
	const struct store_reservation asked = { .verdict = verdict };
	struct bytes method = bytes_of(exchange->method_path);
	struct bytes path = bytes_of(exchange->method_path + method.len + 1);
	enum refusal refusal = run_time_is_unknown(exchange->run)
				       ? explain(exchange, &asked, now_ms)
				       : judge_run(exchange->run, now_ms);

	if (refusal != REFUSAL_NONE)
		exchange_refuse(exchange, refusal, method, path, now_ms);
	else if (!limiter_ask(exchange))
		decide(exchange, method, path);
}

void exchange_on_reserved(struct exchange *exchange, uint64_t now_ms)
{
	const struct store_reservation *hold = exchange->hold;
	struct bytes method = bytes_of(exchange->method_path);
	struct bytes path = bytes_of(exchange->method_path + method.len + 1);

	if (hold->verdict == STORE_GRANTED) {
		decide(exchange, method, path);
		return;
	}
	exchange_refuse(exchange, explain(exchange, hold, now_ms), method, path, now_ms);
}

void exchange_on_room(struct exchange *exchange, uint64_t now_ms)
{
	if (!exchange->is_request_over)
		exchange_mark_dirty(exchange); /* the gate may be granted more */
	exchange_on_credit(exchange, 0, now_ms);
}

void exchange_run_out(struct exchange *exchange, const struct store_reservation *asked,
		      uint64_t now_ms)
{
	exchange_cut(exchange, explain(exchange, asked, now_ms), now_ms);
}

static void on_silence(struct loop_timer *timer, uint64_t now_ms)
{
	struct exchange *exchange = OWNER_OF(timer, struct exchange, timer);
	const struct keeper_config *config = exchange->terms->charter->config;
	uint64_t limit_ms = exchange->is_reply_begun ? config->idle_ms : config->first_byte_ms;
	/* It is the agent who is slow when the upstream is not even read. */
	bool is_waiting = exchange->credit == 0 || exchange->peer->is_stalled;

	if (is_waiting)
		exchange->last_ms = now_ms;
	if (now_ms >= exchange->last_ms + limit_ms)
		exchange_fail(exchange, REFUSAL_TIMEOUT, NULL, now_ms);
	else
		loop_set_timer(&keeper_of(exchange)->loop, timer, exchange->last_ms + limit_ms);
}

static void begin_relay(struct exchange *exchange, struct origin *origin, uint64_t now_ms)
{
	const struct keeper_config *config = exchange->terms->charter->config;
	uint64_t limit_ms = config->first_byte_ms < config->idle_ms ? config->first_byte_ms
								    : config->idle_ms;

	set_state(exchange, EXCHANGE_RELAY);
	exchange->was_sent = true;
	exchange->origin = origin;
	exchange->last_ms = now_ms;
	origin_set_busy(origin);
	exchange->timer.on_due = on_silence;
	loop_set_timer(&keeper_of(exchange)->loop, &exchange->timer, now_ms + limit_ms);
	if (!origin->wire->begin(exchange)) {
		exchange_fail(exchange, REFUSAL_TOO_LARGE, NULL, now_ms);
		return;
	}
	if (exchange->is_tunnel)
		exchange_begin_tunnel(exchange, now_ms);
	exchange_mark_dirty(exchange);
}

static void on_stream(struct exchange *exchange, const struct stream *stream, enum tls_alpn alpn,
		      uint64_t now_ms)
{
	struct origin *origin = origin_new(exchange->peer, exchange->upstream, stream,
					   alpn == TLS_ALPN_H2 ? &wire_h2 : &wire_h1);

	if (!origin) {
		exchange_fail(exchange, REFUSAL_UNREACHABLE, NULL, now_ms);
		return;
	}
	if (alpn == TLS_ALPN_H2)
		origin_start_h2(origin);
	begin_relay(exchange, origin, now_ms);
}

static enum refusal refusal_of(int error)
{
	switch (error) {
	case EACCES:
		return REFUSAL_ADDRESS;
	case ENOENT:
	case EAGAIN:
		return REFUSAL_UNRESOLVED;
	case ECONNREFUSED:
		return REFUSAL_REFUSED;
	case ETIMEDOUT:
		return REFUSAL_TIMEOUT;
	case EKEYREJECTED:
	case EPROTO:
		return REFUSAL_TLS;
	case ECONNRESET:
	case EPIPE:
		return REFUSAL_RESET;
	default:
		return REFUSAL_UNREACHABLE;
	}
}

static void on_handshake(void *owner, struct stream *stream, enum tls_alpn alpn,
			 const struct err *err, uint64_t now_ms)
{
	struct exchange *exchange = owner;

	exchange->handshake = NULL;
	if (err)
		exchange_fail(exchange, refusal_of(err->code), err->text, now_ms);
	else
		on_stream(exchange, stream, alpn, now_ms);
}

/* An LLM's upstream keeps a connection for each exchange: its streams are long and few. So does
 * WebSocket, which not every server speaks in HTTP/2. */
static unsigned int offer(const struct exchange *exchange)
{
	const struct upstream *upstream = exchange->upstream;

	if (upstream->llm || upstream->is_http1_only || exchange->websocket)
		return TLS_ALPN_HTTP1;
	return TLS_ALPN_HTTP1 | TLS_ALPN_H2;
}

static void on_connected(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct exchange *exchange = owner;
	struct keeper *keeper = keeper_of(exchange);
	struct stream stream;

	exchange->connect = NULL;
	if (fd < 0) {
		exchange_fail(exchange, refusal_of(err->code), err->text, now_ms);
	} else if (exchange->upstream->is_tls) {
		exchange->handshake = tls_handshake_start(
			exchange->terms->charter->tls, &keeper->loop, fd, exchange->upstream->host,
			offer(exchange), exchange->terms->charter->config->connect_ms, now_ms,
			on_handshake, exchange);
	} else {
		stream_init_plain(&stream, fd);
		on_stream(exchange, &stream, TLS_ALPN_NONE, now_ms);
	}
}

static void start(struct exchange *exchange, uint64_t now_ms)
{
	struct keeper *keeper = keeper_of(exchange);
	struct upstream *upstream = exchange->upstream;
	bool is_alone = exchange->is_tunnel || exchange->websocket;
	struct origin *origin = is_alone ? NULL : origin_find(upstream);

	if (origin) {
		begin_relay(exchange, origin, now_ms);
		return;
	}
	set_state(exchange, EXCHANGE_DIAL);
	/* What the operator names may be anywhere; a name that the agent chose leads nowhere but
	 * out. */
	exchange->connect = connect_start_if(
		upstream->llm ? keeper->net : keeper->host_net, upstream->dial_host,
		upstream->dial_port,
		upstream->llm || upstream->is_mapped ? NULL : address_is_public,
		exchange->terms->charter->config->connect_ms, now_ms, on_connected, exchange);
}

void exchange_start(struct exchange *exchange, uint64_t now_ms)
{
	if (exchange->state == EXCHANGE_OVER)
		return;
	exchange->peer->allowed++;
	start(exchange, now_ms);
}

void exchange_restart(struct exchange *exchange, uint64_t now_ms)
{
	exchange->origin = NULL;
	exchange->request_start = 0;
	if (++exchange->restart_count > RESTARTS_MAX)
		exchange_fail(exchange, REFUSAL_RESET, NULL, now_ms);
	else
		start(exchange, now_ms);
}

/* ---- sending ---- */

void exchange_mark_dirty(struct exchange *exchange)
{
	struct keeper *keeper = keeper_of(exchange);

	if (exchange->is_dirty || exchange->state != EXCHANGE_RELAY)
		return;
	exchange->is_dirty = true;
	exchange->next_dirty = NULL;
	if (keeper->dirty)
		keeper->last_dirty->next_dirty = exchange;
	else
		keeper->dirty = exchange;
	keeper->last_dirty = exchange;
}

void exchange_wipe_request(struct exchange *exchange)
{
	if (exchange->request.data)
		explicit_bzero(exchange->request.data, exchange->request.len);
	buf_fini(&exchange->request);
	exchange->request_start = exchange->head_len = 0;
}

void exchange_grant(struct exchange *exchange)
{
	if (exchange->owed < LINK_CREDIT_FIRST / 4 || exchange->is_request_over ||
	    limiter_waits(exchange))
		return;
	link_write_credit(peer_out(exchange->peer), exchange->id, exchange->owed);
	exchange->granted += exchange->owed;
	exchange->owed = 0;
}

void exchange_flush(struct exchange *exchange, uint64_t now_ms)
{
	exchange->is_dirty = false;
	if (exchange->state == EXCHANGE_RELAY)
		exchange->origin->wire->flush(exchange, now_ms);
}
