/* SPDX-License-Identifier: MIT */
/*
 * What the upstream sends becomes what the gate gets: a reply as it was, without the secret
 * (INV-NO-REFLECTION) and without what concerns only one connection.
 */
#include <errno.h>

#include "keeper/exchange.h"
#include "keeper/origin.h"

/* ---- the head ---- */

#define INTERIM_MAX 32 /* replies before the reply */

/* The identity of the call, for the records; never shown to be more than plain text. */
static void note_text(char *ret_text, size_t most, struct bytes value)
{
	size_t len = value.len < most ? value.len : most;

	for (size_t i = 0; i < len; i++)
		ret_text[i] = value.data[i];
	ret_text[len] = '\0';
}

static void note_fields(struct exchange *exchange, const struct http_head *head)
{
	const struct http_field *field;

	if (!exchange->upstream->llm || !exchange->upstream->llm->provider->is_litellm)
		return;
	field = http_find_field(head, BYTES("x-litellm-call-id"));
	if (field && !scrub_is_in(exchange->scrubs, field->value))
		note_text(exchange->call_id, EXCHANGE_CALL_ID_MAX, field->value);
	field = http_find_field(head, BYTES("x-litellm-response-cost"));
	if (field && !scrub_is_in(exchange->scrubs, field->value))
		note_text(exchange->cost.last, COST_MAX - 1, field->value);
	/* A stream's cost comes at its end, in its last event. */
	exchange->finds_cost = !field;
}

/* A field that the secret is in goes no further: what else it may say is not worth it. */
static bool is_passed_on(const struct exchange *exchange, const struct http_head *head,
			 const struct http_field *field)
{
	return !http_is_hop_by_hop(head, field->name) &&
	       !bytes_equal_nocase(field->name, BYTES("content-length")) &&
	       !scrub_is_in(exchange->scrubs, field->value) &&
	       !scrub_is_in(exchange->scrubs, field->name);
}

static size_t copy_fields(const struct exchange *exchange, const struct http_head *head,
			  struct http_field *ret_fields)
{
	size_t count = 0;

	for (size_t i = 0; i < head->field_count; i++)
		if (is_passed_on(exchange, head, &head->fields[i]))
			ret_fields[count++] = head->fields[i];
	return count;
}

static void send_head(struct exchange *exchange, const struct http_head *head)
{
	static struct link_reply reply; /* large, and needed only in here */

	reply.status = head->status;
	reply.reason = scrub_is_in(exchange->scrubs, head->reason) ? BYTES("") : head->reason;
	reply.framing = (uint8_t)head->framing;
	reply.length = head->framing == FRAMING_LENGTH || exchange->is_head ? head->length : 0;
	reply.field_count = copy_fields(exchange, head, reply.fields);
	link_write_reply(&exchange->run->link.out, exchange->id, &reply);
}

/* INV-NO-REFLECTION: what cannot be read cannot be searched for the secret. */
static bool is_encoded(const struct exchange *exchange, const struct http_head *head)
{
	for (size_t i = 0; exchange->scrubs && i < head->field_count; i++)
		if (bytes_equal_nocase(head->fields[i].name, BYTES("content-encoding")) &&
		    !bytes_equal_nocase(head->fields[i].value, BYTES("identity")))
			return true;
	return false;
}

/* False when the reply has failed. */
static bool on_head(struct exchange *exchange, const struct http_head *head, uint64_t now_ms)
{
	if (head->status == 101) {
		exchange_fail(exchange, REFUSAL_GARBAGE, "it switched protocols", now_ms);
		return false;
	}
	if (exchange->scrubs && head->status == 206) {
		exchange_fail(exchange, REFUSAL_GARBAGE,
			      "it is a part, and the whole was asked for", now_ms);
		return false;
	}
	if (is_encoded(exchange, head)) {
		exchange_fail(exchange, REFUSAL_GARBAGE, "it is encoded, and was asked not to be",
			      now_ms);
		return false;
	}
	if (head->status < 200) {
		/* Our own 100 was enough. */
		if (++exchange->interim_count > INTERIM_MAX) {
			exchange_fail(exchange, REFUSAL_GARBAGE, "it has no end of interim replies",
				      now_ms);
			return false;
		}
		if (head->status != 100)
			send_head(exchange, head);
		h1_reader_next(&exchange->origin->reader);
		exchange->origin->reader.answers_head = exchange->is_head;
		return true;
	}
	exchange->status = head->status;
	exchange->first_byte_ms = now_ms;
	exchange->is_reply_begun = true;
	exchange->may_reuse = head->keeps_alive;
	note_fields(exchange, head);
	send_head(exchange, head);
	return true;
}

/* ---- the body ---- */

static void emit(void *owner, struct bytes data)
{
	struct exchange *exchange = owner;

	while (data.len > 0) {
		size_t len = data.len < LINK_DATA_MAX ? data.len : LINK_DATA_MAX;

		link_write_data(&exchange->run->link.out, exchange->id, bytes_take(&data, len));
	}
}

static void on_body(struct exchange *exchange, struct bytes data)
{
	exchange->credit -= (uint32_t)data.len;
	exchange->received_bytes += data.len;
	if (exchange->finds_cost)
		cost_push(&exchange->cost, data);
	scrub_push(&exchange->scrub, exchange->scrubs, data, emit, exchange);
}

static void on_reply_end(struct exchange *exchange, const struct http_head *trailer,
			 uint64_t now_ms)
{
	static struct link_end end;

	scrub_finish(&exchange->scrub, exchange->scrubs, emit, exchange);
	exchange->is_reply_over = true;
	end.field_count = trailer ? copy_fields(exchange, trailer, end.fields) : 0;
	link_write_end(&exchange->run->link.out, exchange->id, &end);
	/* Of a tunnel, the agent may have more to say. */
	if (exchange->is_tunnel && (!exchange->is_request_over || exchange->request.len > 0))
		exchange_set_interest(exchange);
	else
		exchange_finish(exchange, now_ms);
}

/* ---- reading ---- */

static bool is_in_body(const struct h1_reader *reader)
{
	return reader->state == H1_STATE_BODY || reader->state == H1_STATE_CHUNK_DATA ||
	       reader->state == H1_STATE_BODY_CLOSE;
}

/* Not beyond the credit; without any, what frames a body byte by byte, to stop at the body. */
static size_t readable_len(const struct exchange *exchange, size_t len)
{
	if (len <= exchange->credit)
		return len;
	return exchange->credit || is_in_body(&exchange->origin->reader) ? exchange->credit : 1;
}

/* Reads as far as the credit allows; false when it is to wait, or is over. */
static bool step(struct exchange *exchange, struct bytes *input, uint64_t now_ms)
{
	struct h1_result *result = &exchange->run->keeper->result;
	struct h1_reader *reader = &exchange->origin->reader;
	size_t len = readable_len(exchange, input->len);
	struct bytes part = { input->data, len };
	enum h1_event event;

	if (len == 0 && reader->state != H1_STATE_OVER)
		return false;
	event = h1_read(reader, &part, result);
	bytes_take(input, len - part.len);
	switch (event) {
	case H1_HEAD:
		return on_head(exchange, &result->head, now_ms);
	case H1_DATA:
		on_body(exchange, result->data);
		return true;
	case H1_END:
		/* More than one reply is one too many: the connection is not used again. */
		if (input->len > 0)
			exchange->may_reuse = false;
		on_reply_end(exchange, &result->head, now_ms);
		return false;
	case H1_BROKEN:
		exchange_fail(exchange, REFUSAL_GARBAGE, http_fault_info(reader->fault)->text,
			      now_ms);
		return false;
	case H1_NEEDS_MORE:
		break;
	}
	return part.len < len;
}

/* As much as the credit allows, as it is. */
static void process_tunnel(struct exchange *exchange, struct bytes input)
{
	size_t len = input.len < exchange->credit ? input.len : exchange->credit;

	if (len > 0)
		on_body(exchange, bytes_take(&input, len));
	buf_keep(&exchange->origin->in, input);
}

static void process(struct exchange *exchange, struct bytes input, uint64_t now_ms)
{
	if (exchange->is_tunnel) {
		process_tunnel(exchange, input);
		return;
	}
	while (exchange->state == EXCHANGE_RELAY && step(exchange, &input, now_ms))
		;
	if (exchange->state == EXCHANGE_RELAY)
		buf_keep(&exchange->origin->in, input);
}

/* The upstream has closed: the end of a reply that ends so, or of one that is cut short. */
static void on_input_end(struct exchange *exchange, int error, uint64_t now_ms)
{
	struct h1_reader *reader = &exchange->origin->reader;
	/* A write that failed has taken the socket's error: what looks like an end is none. */
	enum h1_event event = error || exchange->has_write_failed ? H1_BROKEN
			      : exchange->is_tunnel               ? H1_END
								  : h1_read_end(reader);

	if (event == H1_END)
		on_reply_end(exchange, NULL, now_ms);
	else
		exchange_fail(exchange, REFUSAL_RESET, NULL, now_ms);
}

static void read_origin(struct exchange *exchange, uint64_t now_ms)
{
	struct keeper *keeper = exchange->run->keeper;
	struct origin *origin = exchange->origin;

	do {
		ssize_t n = stream_read(&origin->stream, keeper->input, KEEPER_INPUT_SIZE);

		origin->read_waits = n == -EAGAIN ? origin->stream.waits_for : 0;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			on_input_end(exchange, (int)n, now_ms);
			return;
		}
		exchange->last_ms = now_ms;
		process(exchange, (struct bytes){ keeper->input, (size_t)n }, now_ms);
	} while (exchange->state == EXCHANGE_RELAY && origin->stream.has_pending &&
		 origin->in.len == 0);
}

static bool may_read(const struct exchange *exchange)
{
	return exchange->origin->in.len == 0 && !exchange->run->is_stalled &&
	       !exchange->is_reply_over;
}

void exchange_on_ready(struct exchange *exchange, unsigned int ready, uint64_t now_ms)
{
	/* TLS may have to write to read, and the other way round: both are tried. */
	(void)ready;
	if (exchange->request.len > 0)
		exchange_mark_dirty(exchange);
	if (may_read(exchange))
		read_origin(exchange, now_ms);
	if (exchange->state == EXCHANGE_RELAY)
		exchange_set_interest(exchange);
}

void exchange_on_credit(struct exchange *exchange, uint32_t credit, uint64_t now_ms)
{
	struct origin *origin = exchange->origin;

	exchange->credit += credit;
	if (exchange->state != EXCHANGE_RELAY)
		return;
	if (origin->in.len > 0)
		process(exchange, (struct bytes){ origin->in.data, origin->in.len }, now_ms);
	if (exchange->state != EXCHANGE_RELAY)
		return;
	/* What TLS has read ahead raises no event. */
	if (origin->stream.has_pending && may_read(exchange))
		read_origin(exchange, now_ms);
	if (exchange->state == EXCHANGE_RELAY)
		exchange_set_interest(exchange);
}

void exchange_begin_tunnel(struct exchange *exchange, uint64_t now_ms)
{
	static struct link_reply reply;

	reply.status = exchange->status = 200;
	reply.reason = BYTES("Connected");
	reply.framing = FRAMING_CLOSE;
	exchange->is_reply_begun = true;
	exchange->first_byte_ms = now_ms;
	link_write_reply(&exchange->run->link.out, exchange->id, &reply);
}
