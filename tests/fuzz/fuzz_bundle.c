/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 through the gate. The agent and the keeper are here, the gate's part of it is real; the
 * first byte chooses. Either the rest is what an agent sends, in HTTP/2 or HTTP/1, to a host or to
 * the LLM, and a keeper answers as it should: whatever is written on the link can be read there.
 * Or the rest is steps of an agent and a keeper that both keep the rules, in any order: then no
 * credit is exceeded, all that was sent arrives, and what was cut short never looks whole.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "gate/bundle.h"
#include "gate/call.h"
#include "gate/connection.h"
#include "gate/session.h"
#include "http/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUESTS_MAX 64
#define STEPS_MAX    500

/* One exchange, as both ends of it know it. */
struct exchange {
	/* the agent's */
	struct h2_stream *stream; /* NULL: not begun, or closed */
	size_t sent;              /* of the request's body */
	size_t received, held;    /* of the reply's */
	bool is_head;             /* the request is HEAD */
	bool is_asked;
	bool is_request_ended;
	bool is_reset; /* by the agent */
	bool has_reply;
	bool is_whole; /* the reply has ended as it should */
	/* the keeper's */
	uint32_t id;                         /* 0: it has not heard of it, or is done with it */
	size_t request_received, unanswered; /* bytes; those that it has not granted anew */
	size_t reply_sent, window;           /* bytes; how many it may send */
	uint64_t reply_left;
	bool is_opened;
	bool is_request_over;
	bool is_replied, has_body, has_length;
	bool is_ended;   /* it has said that the reply is whole */
	bool is_aborted; /* by either side */
};

static struct world {
	struct gate gate;
	struct h2 *agent; /* NULL: it is made of fuzz */
	struct bytes raw; /* what that has yet to send */
	enum endpoint_kind kind;
	size_t read_room, write_room;
	bool is_agent_gone;
	struct link_reader from_gate;
	size_t request_count;
	struct exchange exchanges[REQUESTS_MAX];
	int fds[2];
} world;

static char bodies[70000 + 256];

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

/* Every body is the same, from its number on. */
static struct bytes body_of(size_t number, size_t at, size_t len)
{
	return (struct bytes){ bodies + (number + at) % 256, len < 70000 ? len : 70000 };
}

static bool is_body(size_t number, size_t at, struct bytes data)
{
	while (data.len > 0) {
		struct bytes piece = bytes_take(&data, data.len < 256 ? data.len : 256);

		if (!bytes_equal(piece, body_of(number, at, piece.len)))
			return false;
		at += piece.len;
	}
	return true;
}

static size_t number_of(const struct exchange *exchange)
{
	return (size_t)(exchange - world.exchanges);
}

/* ---- between the agent and the gate ---- */

static ssize_t stream_take(struct stream *stream, char *data, size_t len)
{
	struct bytes pending = world.agent ? h2_pending(world.agent) : world.raw;

	if (pending.len > len)
		pending.len = len;
	if (pending.len > world.read_room)
		pending.len = world.read_room;
	if (pending.len == 0 && world.is_agent_gone)
		return 0;
	if (pending.len == 0) {
		stream->waits_for = LOOP_READ;
		return -EAGAIN;
	}
	memcpy(data, pending.data, pending.len);
	world.read_room -= pending.len;
	if (world.agent)
		h2_sent(world.agent, pending.len);
	else
		bytes_take(&world.raw, pending.len);
	return (ssize_t)pending.len;
}

static ssize_t stream_give(struct stream *stream, const char *data, size_t len)
{
	char *copy;

	if (len > world.write_room)
		len = world.write_room;
	if (len == 0) {
		stream->waits_for = LOOP_WRITE;
		return -EAGAIN;
	}
	world.write_room -= len;
	copy = malloc(len); /* its own block, so that reading beyond it is noticed */
	check(copy);
	memcpy(copy, data, len);
	if (world.agent)
		check(h2_read(world.agent, (struct bytes){ copy, len }, 0) == 0);
	free(copy);
	return (ssize_t)len;
}

static void stream_end(struct stream *stream)
{
	(void)stream;
}

static const struct stream_ops stream_ops = { stream_take, stream_give, stream_end };

/* ---- the agent ---- */

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	struct exchange *exchange = stream->exchange;

	(void)owner;
	check(!exchange->has_reply && !exchange->is_whole);
	exchange->has_reply = head->status >= 200;
	exchange->is_whole = is_end;
	check(!is_end || exchange->has_reply);
	if (head->status == 200)
		check(exchange->is_replied);
	if (is_end && !exchange->is_head && head->status == 200)
		check(!exchange->has_body);
}

static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct exchange *exchange = stream->exchange;

	(void)owner;
	check(exchange->has_reply && !exchange->is_whole);
	if (exchange->is_replied) {
		check(is_body(number_of(exchange) + 1, exchange->received, data));
		check(exchange->received + data.len <= exchange->reply_sent);
	}
	exchange->received += data.len;
	exchange->held += data.len;
}

static void on_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	struct exchange *exchange = stream->exchange;

	(void)owner;
	(void)trailer;
	check(exchange->has_reply && !exchange->is_whole);
	/* Nothing that was cut short looks whole. */
	if (exchange->is_replied)
		check(exchange->is_ended && exchange->received == exchange->reply_sent);
	exchange->is_whole = true;
}

static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	(void)owner;
	(void)stream;
	(void)fault;
	(void)head;
	abort(); /* the gate sends nothing that cannot be read */
}

static void on_writable(void *owner, struct h2_stream *stream)
{
	(void)owner;
	(void)stream;
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct exchange *exchange = stream->exchange;

	(void)owner;
	(void)code;
	exchange->stream = NULL;
}

static const struct h2_callbacks agent_callbacks = { on_head,  on_data,     on_end,
						     on_fault, on_writable, on_close };

static void ask(unsigned int how)
{
	static const struct bytes methods[] = { BYTES("GET"), BYTES("POST"), BYTES("HEAD"),
						BYTES("POST") };
	struct exchange *exchange = &world.exchanges[world.request_count];
	struct h2_message message = { .method = methods[how & 3],
				      .scheme = BYTES("https"),
				      .host = how & 128 ? BYTES("other.test") : BYTES("a.test") };
	char path[16];

	if (world.request_count == REQUESTS_MAX || !h2_may_request(world.agent))
		return;
	snprintf(path, sizeof(path), "/%zu", world.request_count);
	message.path = bytes_of(path);
	exchange->is_head = (how & 3) == 2;
	exchange->is_request_ended = how & 4;
	exchange->stream = h2_request(world.agent, &message, exchange, how & 4);
	exchange->is_asked = exchange->stream != NULL;
	world.request_count++;
}

static void send_body(struct exchange *exchange, size_t len, bool is_end)
{
	size_t taken;

	if (!exchange->stream || exchange->is_request_ended)
		return;
	taken = h2_send_data(exchange->stream, body_of(number_of(exchange), exchange->sent, len),
			     is_end);
	exchange->sent += taken;
	exchange->is_request_ended = is_end && taken == len;
}

static void take_reply(struct exchange *exchange)
{
	if (exchange->stream)
		h2_consume(exchange->stream, exchange->held);
	exchange->held = 0;
}

/* ---- the keeper ---- */

static struct exchange *find_exchange(uint32_t id)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		if (world.exchanges[i].id == id)
			return &world.exchanges[i];
	return NULL;
}

static void on_open(uint32_t id, struct bytes payload)
{
	static struct link_open open;
	struct exchange *exchange = NULL;
	size_t number = 0;

	check(link_parse_open(payload, &open) == 0);
	if (world.kind == ENDPOINT_EGRESS)
		check(bytes_equal(open.host, BYTES("a.test:443")) && open.is_tls);
	if (world.agent) {
		for (size_t i = 1; i < open.path.len; i++)
			number = number * 10 + (size_t)(open.path.data[i] - '0');
		exchange = &world.exchanges[number];
		check(exchange->is_asked && !exchange->is_opened);
	} else {
		for (; number < REQUESTS_MAX && !exchange; number++)
			if (!world.exchanges[number].id)
				exchange = &world.exchanges[number];
		if (!exchange)
			return;
		*exchange = (struct exchange){ 0 };
	}
	exchange->is_opened = true;
	exchange->id = id;
	exchange->window = LINK_CREDIT_FIRST;
}

static void on_request_data(struct exchange *exchange, struct bytes data)
{
	check(!exchange->is_request_over);
	if (world.agent)
		check(is_body(number_of(exchange), exchange->request_received, data));
	exchange->request_received += data.len;
	exchange->unanswered += data.len;
	check(exchange->unanswered <= LINK_CREDIT_FIRST); /* INV-BOUNDED */
}

static void on_message(enum link_type type, struct exchange *exchange, struct bytes payload)
{
	uint32_t credit;

	switch (type) {
	case LINK_END:
		check(!exchange->is_request_over);
		exchange->is_request_over = true;
		if (world.agent)
			check(exchange->is_request_ended &&
			      exchange->request_received == exchange->sent);
		break;
	case LINK_CREDIT:
		check(link_parse_credit(payload, &credit) == 0);
		exchange->window += credit;
		check(exchange->window <= LINK_CREDIT_FIRST);
		break;
	case LINK_ABORT:
		exchange->is_aborted = true;
		exchange->id = 0;
		break;
	default:
		abort();
	}
}

/* Everything that the gate has written on the link. */
static void hear(void)
{
	struct buf *out = &world.gate.link.out;
	struct bytes input = { out->data, out->len }, payload;
	enum link_event event;

	check(out->len < out->max);
	while ((event = link_read(&world.from_gate, &input, &payload)) != LINK_NEEDS_MORE) {
		enum link_type type = world.from_gate.type;
		uint32_t id = world.from_gate.exchange;
		struct exchange *exchange = find_exchange(id);
		struct link_refused refused;

		check(event != LINK_BROKEN);
		if (event == LINK_PIECE && exchange)
			on_request_data(exchange, payload);
		else if (event == LINK_MESSAGE && type == LINK_OPEN)
			on_open(id, payload);
		else if (event == LINK_MESSAGE && type == LINK_REFUSED)
			check(link_parse_refused(payload, &refused) == 0);
		else if (exchange)
			on_message(type, exchange, payload);
	}
	out->len = 0;
}

/* As the gate does with what it reads from the link. */
static void tell(struct buf *message)
{
	struct bytes input = { message->data, message->len }, payload;
	struct link_reader reader;
	enum link_event event;

	link_reader_init(&reader, LINK_SIDE_KEEPER);
	while ((event = link_read(&reader, &input, &payload)) != LINK_NEEDS_MORE) {
		struct call *call = world.gate.calls[reader.exchange % LINK_EXCHANGES_MAX];

		check(event != LINK_BROKEN);
		if (call && call->id == reader.exchange)
			check(call_on_message(call, event, reader.type, payload) == 0);
	}
	link_reader_fini(&reader);
	buf_fini(message);
}

static void end_reply(struct exchange *exchange, bool has_trailer)
{
	static struct link_end end;
	struct buf message;

	if (!exchange->id || !exchange->is_replied ||
	    (exchange->has_length && exchange->reply_left > 0))
		return;
	end = (struct link_end){ .field_count = 0 };
	if (has_trailer && exchange->has_body)
		end.fields[end.field_count++] = (struct http_field){ BYTES("t"), BYTES("u") };
	buf_init(&message, 1 << 17);
	link_write_end(&message, exchange->id, &end);
	exchange->is_ended = true;
	exchange->id = 0; /* what still comes is no business of the keeper's */
	tell(&message);
}

static void reply(struct exchange *exchange, unsigned int how)
{
	static const struct http_field field = { BYTES("x"), BYTES("y") };
	static struct link_reply head;
	struct buf message;

	if (!exchange->id || exchange->is_replied)
		return;
	head = (struct link_reply){ .status = how & 1 ? 200 : 103, .reason = BYTES("-") };
	if (how & 1) {
		head.framing = (uint8_t)(exchange->is_head ? FRAMING_NONE
					 : how & 2         ? FRAMING_CHUNKED
					 : how & 4         ? FRAMING_LENGTH
							   : FRAMING_NONE);
		head.length = head.framing == FRAMING_LENGTH ? (uint64_t)how * 300 : 0;
		exchange->is_replied = true;
		exchange->has_body = head.framing != FRAMING_NONE;
		exchange->has_length = head.framing == FRAMING_LENGTH;
		exchange->reply_left = head.length;
	}
	head.fields[head.field_count++] = field;
	buf_init(&message, 1 << 17);
	link_write_reply(&message, exchange->id, &head);
	tell(&message);
	if (exchange->is_replied && !exchange->has_body)
		end_reply(exchange, false); /* nothing else is to be waited for */
}

static void send_reply_body(struct exchange *exchange, size_t len)
{
	struct buf message;

	if (!exchange->id || !exchange->has_body)
		return;
	if (len > exchange->window)
		len = exchange->window;
	if (exchange->has_length && len > exchange->reply_left)
		len = (size_t)exchange->reply_left;
	if (len > LINK_DATA_MAX)
		len = LINK_DATA_MAX;
	if (len == 0)
		return;
	buf_init(&message, 1 << 17);
	link_write_data(&message, exchange->id,
			body_of(number_of(exchange) + 1, exchange->reply_sent, len));
	exchange->reply_sent += len;
	exchange->window -= len;
	exchange->reply_left -= exchange->has_length ? len : 0;
	tell(&message);
}

static void grant(struct exchange *exchange, size_t most)
{
	size_t credit = exchange->unanswered < most ? exchange->unanswered : most;
	struct buf message;

	if (!exchange->id || credit == 0)
		return;
	buf_init(&message, 64);
	link_write_credit(&message, exchange->id, (uint32_t)credit);
	exchange->unanswered -= credit;
	tell(&message);
}

static void give_up(struct exchange *exchange)
{
	struct buf message;

	if (!exchange->id)
		return;
	buf_init(&message, 64);
	link_write_abort(&message, exchange->id);
	exchange->is_aborted = true;
	exchange->id = 0;
	tell(&message);
}

/* ---- the gate ---- */

/* As gate.c does it, but that the link is read by hear(). */
static void on_turn_end(struct loop *loop, uint64_t now_ms)
{
	struct gate *gate = OWNER_OF(loop, struct gate, loop);

	while (gate->dirty) {
		struct connection *connection = gate->dirty;

		gate->dirty = connection->next_dirty;
		connection->is_dirty = false;
		connection->ops->finish_turn(connection, now_ms);
	}
}

static void turn(void)
{
	struct gate *gate = &world.gate;

	if (gate->is_paused && !link_port_is_behind(&gate->link)) {
		gate->is_paused = false;
		if (gate->connections)
			gate->connections->ops->resume(gate->connections, 0);
	}
	check(loop_turn(&gate->loop, 0) == 0);
	check(gate->call_count <= H2_STREAMS_MAX);
}

static void open_world(bool is_raw, bool is_session, enum endpoint_kind kind)
{
	static const struct h2_options options = { .is_server = false };
	static const struct bytes nothing;
	struct endpoint endpoint = { .kind = kind, .is_tls = true };
	struct stream stream = { .ops = &stream_ops };
	int fds[2] = { world.fds[0], world.fds[1] };

	for (size_t i = 0; i < sizeof(bodies) && !bodies[1]; i++)
		bodies[sizeof(bodies) - 1 - i] = (char)((sizeof(bodies) - 1 - i) * 7);
	memset(&world, 0, sizeof(world));
	/* A descriptor that is always ready; what is read and written has nothing to do with it. */
	if (fds[0] == fds[1])
		check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && write(fds[1], "", 1) == 1);
	memcpy(world.fds, fds, sizeof(fds));
	check(loop_init(&world.gate.loop) == 0);
	world.gate.loop.on_turn_end = on_turn_end;
	world.gate.connection_max = 10;
	buf_init(&world.gate.link.out, GATE_LINK_OUT_MAX);
	link_reader_init(&world.from_gate, LINK_SIDE_GATE);
	if (!is_raw)
		world.agent = h2_new(&options, &agent_callbacks, NULL);
	check(authority_parse(BYTES("a.test"), 443, &endpoint.authority) == 0);
	stream.fd = fds[0];
	world.kind = kind;
	if (is_session)
		session_open(&world.gate, &stream, &endpoint, nothing, 0);
	else
		bundle_open(&world.gate, &stream, &endpoint, 0);
}

static void close_world(void)
{
	if (world.gate.connections)
		world.gate.connections->ops->reset(world.gate.connections);
	turn();
	hear();
	check(world.gate.connection_count == 0 && world.gate.call_count == 0);
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		check(world.exchanges[i].id == 0);
	h2_free(world.agent);
	link_reader_fini(&world.from_gate);
	buf_fini(&world.gate.link.out);
	loop_fini(&world.gate.loop);
}

/* ---- what happens ---- */

/* A keeper that echoes. */
static void answer_all(void)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		struct exchange *exchange = &world.exchanges[i];

		reply(exchange, 3);
		send_reply_body(exchange, exchange->unanswered);
		grant(exchange, SIZE_MAX);
		if (exchange->is_request_over)
			end_reply(exchange, true);
	}
}

static void fuzz_raw(struct bytes input, size_t piece, unsigned int choice)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	bool is_session = choice & 4;
	struct bytes sent = choice & 6 ? (struct bytes){ NULL, 0 } : BYTES(preface);

	open_world(true, is_session, choice & 8 ? ENDPOINT_LLM : ENDPOINT_EGRESS);
	while (world.gate.connections && (sent.len > 0 || input.len > 0)) {
		world.raw = sent.len ? sent
				     : bytes_take(&input, piece < input.len ? piece : input.len);
		sent.len = 0;
		/* A gate that is full reads no more before it has written. */
		for (int i = 0; i < 20 && world.gate.connections && world.raw.len > 0; i++) {
			world.read_room = world.write_room = SIZE_MAX;
			turn();
			hear();
			answer_all();
		}
	}
	close_world();
}

static void step(unsigned int what, unsigned int which, unsigned int how)
{
	struct exchange *exchange = &world.exchanges[which];

	switch (what) {
	case 0:
		ask(how);
		break;
	case 1:
		send_body(exchange, (size_t)how * how, how & 1);
		break;
	case 2:
		exchange->is_reset |= exchange->stream != NULL;
		if (exchange->stream)
			h2_reset(exchange->stream, H2_CANCEL);
		break;
	case 3:
		take_reply(exchange);
		break;
	case 4:
		world.read_room = (size_t)how * how + 1;
		turn();
		break;
	case 5:
		world.write_room = (size_t)how * how + 1;
		turn();
		break;
	case 6:
		hear();
		break;
	case 7:
		reply(exchange, how);
		break;
	case 8:
		send_reply_body(exchange, (size_t)how * how);
		break;
	case 9:
		end_reply(exchange, how & 1);
		break;
	case 10:
		grant(exchange, (size_t)how * how);
		break;
	case 11:
		give_up(exchange);
		break;
	default: /* most of what happens is that things move */
		world.read_room = world.write_room = (size_t)how * 1000 + 1;
		turn();
		hear();
	}
}

static bool is_anything_open(void)
{
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		if (world.exchanges[i].stream || world.exchanges[i].id)
			return true;
	return false;
}

/* Both do all that they may; then all is over. */
static void finish(void)
{
	for (unsigned int i = 0; i == 0 || is_anything_open(); i++) {
		check(i < 1000);
		for (size_t k = 0; k < REQUESTS_MAX; k++) {
			struct exchange *exchange = &world.exchanges[k];

			send_body(exchange, 0, true);
			take_reply(exchange);
			reply(exchange, 3);
			grant(exchange, SIZE_MAX);
			if (exchange->has_length)
				send_reply_body(exchange, SIZE_MAX);
			end_reply(exchange, k & 1);
		}
		world.read_room = world.write_room = SIZE_MAX;
		turn();
		hear();
	}
}

/* What arrives, unless one of them has given it up. */
static void check_outcomes(void)
{
	for (size_t i = 0; i < world.request_count; i++) {
		const struct exchange *exchange = &world.exchanges[i];

		check(!exchange->stream);
		if (!exchange->is_asked || exchange->is_reset)
			continue;
		if (exchange->is_ended)
			check(exchange->is_whole && exchange->received == exchange->reply_sent);
		else if (exchange->is_opened)
			check(!exchange->is_whole);
	}
}

static void fuzz_steps(struct bytes input)
{
	open_world(false, false, ENDPOINT_EGRESS);
	for (size_t i = 0; i < STEPS_MAX && input.len >= 2; i++) {
		unsigned int first = (uint8_t)bytes_take(&input, 1).data[0];

		step(first >> 4, first & 15, (uint8_t)bytes_take(&input, 1).data[0]);
	}
	finish();
	check(world.gate.connection_count == 1); /* nobody has broken a rule */
	check_outcomes();
	world.is_agent_gone = true;
	for (unsigned int i = 0; i < 10; i++)
		turn();
	check(world.gate.connection_count == 0);
	close_world();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size };
	unsigned int choice, piece;

	if (size < 2)
		return 0;
	choice = (uint8_t)bytes_take(&input, 1).data[0];
	if (choice & 1) {
		fuzz_steps(input);
		return 0;
	}
	piece = (uint8_t)bytes_take(&input, 1).data[0];
	fuzz_raw(input, piece ? piece : SIZE_MAX, choice);
	return 0;
}
