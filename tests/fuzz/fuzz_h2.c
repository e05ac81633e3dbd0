/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 on any bytes. The first byte chooses: a server or a client that reads the rest, cut
 * in pieces that the second byte gives, while its owner does this and that; or both of them,
 * connected, and the rest is what their owners do: then all that is sent must arrive.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 8

/* What one owner knows of a stream. */
struct exchange {
	struct h2_stream *stream;
	int slot;
	size_t held, received, sent;
	uint64_t length;
	bool has_head, is_over, has_length, is_faulty;
};

struct side {
	struct h2 *h2;
	struct side *peer; /* of a pair; NULL when the other end is made of fuzz */
	bool is_server;
	unsigned int habits; /* what the owner does when it hears something */
	size_t exchanges;
	struct exchange *slots[SLOTS];
};

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static struct exchange *exchange_new(struct side *side)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	check(exchange);
	exchange->slot = -1;
	for (int i = 0; i < SLOTS && exchange->slot < 0; i++) {
		if (side->slots[i])
			continue;
		side->slots[i] = exchange;
		exchange->slot = i;
	}
	side->exchanges++;
	return exchange;
}

static struct exchange *exchange_of(struct side *side, struct h2_stream *stream)
{
	if (!stream->exchange) {
		check(side->is_server);
		stream->exchange = exchange_new(side);
	}
	((struct exchange *)stream->exchange)->stream = stream;
	return stream->exchange;
}

/* Every body is the same, from its stream's number on. */
static char body_byte(int32_t id, size_t at)
{
	return (char)((size_t)id + at * 7);
}

static void send_some(struct exchange *exchange, size_t len, bool is_end)
{
	static char bodies[70000 + 256];
	/* 183 * 7 is 1 more than a multiple of 256: where the stream's number comes in */
	size_t at = ((size_t)exchange->stream->id * 183 + exchange->sent) % 256;

	for (size_t i = 0; i < sizeof(bodies) && !bodies[1]; i++)
		bodies[sizeof(bodies) - 1 - i] = body_byte(0, sizeof(bodies) - 1 - i);
	if (len > sizeof(bodies) - 256)
		len = sizeof(bodies) - 256;
	exchange->sent += h2_send_data(exchange->stream, (struct bytes){ bodies + at, len },
				       is_end);
}

static void send_reply(struct exchange *exchange, bool is_end)
{
	static const struct http_field fields[] = {
		{ BYTES("x"), BYTES("y") },
		{ BYTES("Connection"), BYTES("close") },
		{ BYTES("authorization"), BYTES("key") },
	};
	struct h2_message message = { .status = exchange->sent ? 200 : 100 };
	int r;

	r = h2_send_reply(exchange->stream, &message, false);
	message.status = 200;
	message.field_count = 3;
	message.fields = fields;
	r |= h2_send_reply(exchange->stream, &message, is_end);
	check(r == 0);
}

static void send_end(struct exchange *exchange)
{
	static const struct http_field trailer = { BYTES("t"), BYTES("u") };

	check(h2_send_trailer(exchange->stream, &trailer, 1) == 0);
}

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	struct side *side = owner;
	struct exchange *exchange = exchange_of(side, stream);

	check(!exchange->has_head && !exchange->is_over && !exchange->is_faulty);
	check(head->field_count < HTTP_FIELDS_MAX);
	if (side->is_server)
		check(head->method.len > 0 && head->host.len > 0 && head->target.len > 0);
	exchange->has_head = side->is_server || head->status >= 200;
	exchange->is_over = is_end;
	exchange->has_length = head->framing == FRAMING_LENGTH;
	exchange->length = head->length;
	if (side->peer || !side->is_server)
		return;
	if (side->habits & 1)
		send_reply(exchange, side->habits & 2);
	if (side->habits & 4)
		send_some(exchange, 100000, side->habits & 8);
	if (side->habits & 16)
		h2_reset(stream, H2_CANCEL);
}

static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct side *side = owner;
	struct exchange *exchange = exchange_of(side, stream);

	check(exchange->has_head && !exchange->is_over && !exchange->is_faulty && data.len > 0);
	if (side->peer)
		for (size_t i = 0; i < data.len; i++)
			check(data.data[i] == body_byte(stream->id, exchange->received + i));
	exchange->received += data.len;
	exchange->held += data.len;
	check(exchange->held <= H2_WINDOW);
	check(!exchange->has_length || exchange->received <= exchange->length);
	if (side->habits & 32) {
		h2_consume(stream, exchange->held);
		exchange->held = 0;
	}
	if (!side->peer && side->habits & 64)
		send_some(exchange, data.len, false);
}

static void on_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	struct side *side = owner;
	struct exchange *exchange = exchange_of(side, stream);

	check(exchange->has_head && !exchange->is_over && !exchange->is_faulty);
	check(trailer->field_count < HTTP_FIELDS_MAX);
	check(!exchange->has_length || exchange->received == exchange->length);
	exchange->is_over = true;
	if (!side->peer && side->habits & 128)
		send_end(exchange);
}

static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	struct side *side = owner;
	struct exchange *exchange = exchange_of(side, stream);

	check(!side->peer && fault && head && !exchange->is_faulty);
	exchange->is_faulty = true;
	if (side->is_server && side->habits & 2)
		send_reply(exchange, side->habits & 1);
}

static void on_writable(void *owner, struct h2_stream *stream)
{
	struct side *side = owner;

	if (side->habits & 256)
		send_some(exchange_of(side, stream), 30000, side->habits & 512);
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct side *side = owner;
	struct exchange *exchange = exchange_of(side, stream);

	(void)code;
	if (exchange->slot >= 0)
		side->slots[exchange->slot] = NULL;
	side->exchanges--;
	stream->exchange = NULL;
	free(exchange);
}

static const struct h2_callbacks callbacks = { on_head,  on_data,     on_end,
					       on_fault, on_writable, on_close };

static void open_side(struct side *side, bool is_server, unsigned int habits)
{
	struct h2_options options = { .is_server = is_server, .has_extended_connect = habits & 1 };

	*side = (struct side){ .is_server = is_server, .habits = habits };
	side->h2 = h2_new(&options, &callbacks, side);
}

static void close_side(struct side *side)
{
	h2_free(side->h2);
	check(side->exchanges == 0);
}

static void send_request(struct side *side, unsigned int kind)
{
	static const struct bytes methods[] = { BYTES("GET"), BYTES("HEAD"), BYTES("POST"),
						BYTES("CONNECT") };
	struct h2_message message = { .method = methods[kind & (side->peer ? 1 : 3)],
				      .scheme = BYTES("https"),
				      .host = BYTES("a:443"),
				      .path = BYTES("/x") };
	struct exchange *exchange = exchange_new(side);

	exchange->stream = h2_request(side->h2, &message, exchange, kind & 4);
	if (exchange->stream)
		return;
	if (exchange->slot >= 0)
		side->slots[exchange->slot] = NULL;
	side->exchanges--;
	free(exchange);
}

/* ---- one side, and bytes ---- */

static void write_some(struct side *side, size_t most)
{
	struct bytes pending = h2_pending(side->h2);

	check(pending.len <= (size_t)2 * H2_OUT_MAX);
	h2_sent(side->h2, pending.len < most ? pending.len : most);
}

static void read_all(struct side *side, const uint8_t *data, size_t size, size_t piece)
{
	/* Those that take little of what they are sent are not read when it is too much. */
	size_t takes = side->habits & 1024 ? 10 : SIZE_MAX;

	for (size_t at = 0; at < size; at += piece) {
		size_t len = size - at < piece ? size - at : piece;

		if (h2_read(side->h2, (struct bytes){ (const char *)data + at, len }, at) < 0)
			break;
		write_some(side, takes);
		while (h2_is_full(side->h2))
			write_some(side, takes * 1000 < takes ? takes : takes * 1000);
	}
	write_some(side, SIZE_MAX);
}

static void fuzz_server(const uint8_t *data, size_t size, unsigned int habits, bool has_preface,
			size_t piece)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	struct side side;

	open_side(&side, true, habits);
	if (!has_preface)
		check(h2_read(side.h2, BYTES(preface), 0) == 0);
	read_all(&side, data, size, piece);
	close_side(&side);
}

static void fuzz_client(const uint8_t *data, size_t size, unsigned int habits, size_t piece)
{
	struct side side;

	open_side(&side, false, habits);
	for (unsigned int i = 0; i < 5; i++) {
		send_request(&side, i + (habits >> 2));
		if (side.slots[i] && !(habits & 2))
			send_some(side.slots[i], habits * 100, habits & 1);
	}
	if (side.slots[2] && habits & 4)
		h2_reset(side.slots[2]->stream, H2_CANCEL);
	write_some(&side, SIZE_MAX);
	read_all(&side, data, size, piece);
	close_side(&side);
}

/* ---- a pair ---- */

static bool carry(struct side *from, struct side *to, size_t most)
{
	struct bytes pending = h2_pending(from->h2);
	char *copy;
	int r;

	if (pending.len > most)
		pending.len = most;
	if (pending.len == 0)
		return false;
	copy = malloc(pending.len);
	check(copy);
	memcpy(copy, pending.data, pending.len);
	h2_sent(from->h2, pending.len);
	r = h2_read(to->h2, (struct bytes){ copy, pending.len }, 0);
	check(r == 0);
	free(copy);
	return true;
}

static void act(struct side *side, unsigned int what, unsigned int which, unsigned int how)
{
	struct exchange *exchange = side->slots[which % SLOTS];

	if (what == 0 && !side->is_server)
		send_request(side, how);
	if (!exchange)
		return;
	if (what == 1 && side->is_server)
		send_reply(exchange, how & 1);
	if (what == 2)
		send_some(exchange, (size_t)how * how, how & 1);
	if (what == 3)
		send_end(exchange);
	if (what == 4 && how < 32)
		h2_reset(exchange->stream, H2_CANCEL);
	if (what == 5) {
		h2_consume(exchange->stream, exchange->held);
		exchange->held = 0;
	}
}

static void fuzz_pair(const uint8_t *data, size_t size, unsigned int habits)
{
	struct side client, server;
	unsigned int steps = 0;

	open_side(&client, false, habits & 32);
	open_side(&server, true, habits & 32);
	client.peer = &server;
	server.peer = &client;
	for (size_t at = 0; at + 1 < size && at < 800; at += 2) {
		struct side *side = data[at] & 128 ? &server : &client;
		unsigned int what = data[at] >> 4 & 7;

		if (what == 6 && data[at + 1] == 255)
			h2_shutdown(side->h2);
		else if (what >= 6)
			carry(side, side->peer, 1 + (size_t)data[at + 1] * (what == 6 ? 1 : 200));
		else
			act(side, what, data[at] & 15, data[at + 1]);
	}
	/* Everything that was taken arrives, whatever the order was. */
	client.habits = server.habits = 32;
	while (carry(&client, &server, 5000) || carry(&server, &client, 5000))
		check(++steps < 100000);
	close_side(&client);
	close_side(&server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int habits;
	size_t piece;

	if (size < 3)
		return 0;
	habits = (unsigned int)data[1] << 4 | data[0] >> 4;
	piece = data[2] ? data[2] : size;
	switch (data[0] & 3) {
	case 0:
		fuzz_server(data + 3, size - 3, habits, false, piece);
		break;
	case 1:
		fuzz_client(data + 3, size - 3, habits, piece);
		break;
	case 2:
		fuzz_pair(data + 3, size - 3, habits);
		break;
	default:
		fuzz_server(data + 3, size - 3, habits, true, piece);
	}
	return 0;
}
