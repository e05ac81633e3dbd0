/* SPDX-License-Identifier: MIT */
/*
 * WebSocket frames. The first byte chooses. Either the rest is what a peer sends: it is read in
 * pieces, and must be what a reader says that has all of it and takes a byte at a time. Or the
 * rest is messages: they are written as frames, and must be what is read of them.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "http/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX ((size_t)1 << 20)

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static size_t take_byte(struct bytes *input)
{
	return input->len > 0 ? (uint8_t)bytes_take(input, 1).data[0] : 0;
}

/* ---- what was read, as a text: opcode, what it is, payload ---- */

static void note(struct buf *out, char what, char opcode)
{
	char text[] = { what, opcode };

	buf_add(out, text, sizeof(text));
}

static void note_message(struct buf *out, const struct ws_result *result)
{
	if (result->is_end)
		note(out, ')', (char)result->opcode);
}

/* Reads in pieces. True when it did not break. */
static bool read_pieces(struct bytes input, bool is_client, size_t piece, struct buf *out)
{
	static struct ws_result result;
	struct ws_reader reader;
	uint64_t announced = 0;

	ws_reader_init(&reader, is_client);
	while (input.len > 0) {
		struct bytes part = bytes_take(&input, piece < input.len ? piece : input.len);

		while (part.len > 0) {
			size_t before = part.len;

			switch (ws_read(&reader, &part, &result)) {
			case WS_FRAME:
				check(announced == 0);
				announced = result.length;
				note(out, result.is_first ? '(' : '+', (char)result.opcode);
				note_message(out, &result);
				break;
			case WS_DATA:
				check(result.data.len > 0 && result.data.len <= announced);
				announced -= result.data.len;
				check(!result.is_end || announced == 0);
				buf_add(out, result.data.data, result.data.len);
				note_message(out, &result);
				break;
			case WS_CONTROL:
				check(announced == 0 && result.data.len <= WS_CONTROL_MAX);
				note(out, '[', (char)result.opcode);
				buf_add(out, result.data.data, result.data.len);
				break;
			case WS_BROKEN:
				check(reader.fault != WS_FAULT_NONE);
				return false;
			case WS_NEEDS_MORE:
				check(part.len == 0);
			}
			check(part.len < before);
		}
	}
	return true;
}

/* ---- the same, slowly: everything is there, and every rule is a line ---- */

static bool is_close_valid(struct bytes payload)
{
	unsigned int code;

	if (payload.len == 0)
		return true;
	if (payload.len == 1)
		return false;
	code = (unsigned int)((uint8_t)payload.data[0] * 256 + (uint8_t)payload.data[1]);
	if (code < 1000 || code > 4999 || (code > 1014 && code < 3000) ||
	    (code >= 1004 && code <= 1006))
		return false;
	for (size_t i = 2; i < payload.len;) {
		size_t len = utf8_sequence(payload.data + i, payload.len - i);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

struct slow {
	bool is_client, is_open, has_closed;
	char message;
};

enum outcome {
	FINE,
	CUT,
	BROKEN
};

/* A frame's first two bytes. */
static bool is_start_valid(const struct slow *slow, uint8_t first, uint8_t second)
{
	unsigned int opcode = first & 15;
	bool is_fin = first >> 7, is_data = opcode < 3;

	if (first & 0x70 || (opcode > 2 && opcode < 8) || opcode > 10)
		return false;
	if (!is_data && (!is_fin || (second & 127) > 125))
		return false;
	if (slow->has_closed && (is_data || opcode == 8))
		return false;
	if (is_data && slow->is_open != (opcode == 0))
		return false;
	return second >> 7 == slow->is_client;
}

static enum outcome read_frame(struct slow *slow, struct bytes *input, struct buf *out)
{
	const uint8_t *p = (const uint8_t *)input->data, *key;
	size_t size = 2, extra;
	uint64_t length;
	char payload[4096];
	bool is_fin, is_whole;

	/* One byte may say enough. */
	if (!is_start_valid(slow, p[0], slow->is_client ? 0x80 : 0))
		return BROKEN;
	if (input->len < 2)
		return CUT;
	if (!is_start_valid(slow, p[0], p[1]))
		return BROKEN;
	length = p[1] & 127;
	extra = length == 126 ? 2 : length == 127 ? 8 : 0;
	if (input->len < size + extra + (slow->is_client ? 4 : 0))
		return CUT;
	if (extra > 0)
		length = 0;
	for (size_t i = 0; i < extra; i++)
		length = length * 256 + p[size++];
	if ((extra == 2 && length < 126) || (extra == 8 && (length < 65536 || length >> 63)))
		return BROKEN;
	key = slow->is_client ? p + size : (const uint8_t *)"\0\0\0";
	size += slow->is_client ? 4 : 0;
	bytes_take(input, size);
	is_whole = input->len >= length;
	is_fin = p[0] >> 7;
	if (!is_whole)
		length = input->len;
	check(length <= sizeof(payload));
	for (size_t i = 0; i < length; i++)
		payload[i] = (char)((uint8_t)bytes_take(input, 1).data[0] ^ key[i % 4]);
	if (p[0] & 8) {
		if (!is_whole)
			return CUT;
		if ((p[0] & 15) == 8 && !is_close_valid((struct bytes){ payload, length }))
			return BROKEN;
		slow->has_closed |= (p[0] & 15) == 8;
		note(out, '[', (char)(p[0] & 15));
		buf_add(out, payload, length);
		return FINE;
	}
	if (p[0] & 15)
		slow->message = (char)(p[0] & 15);
	note(out, p[0] & 15 ? '(' : '+', slow->message);
	buf_add(out, payload, length);
	if (!is_whole)
		return CUT;
	if (is_fin)
		note(out, ')', slow->message);
	slow->is_open = !is_fin;
	return FINE;
}

static bool read_slowly(struct bytes input, bool is_client, struct buf *out)
{
	struct slow slow = { .is_client = is_client };
	enum outcome outcome = FINE;

	while (outcome == FINE && input.len > 0)
		outcome = read_frame(&slow, &input, out);
	return outcome != BROKEN;
}

static void check_reading(struct bytes input, bool is_client, size_t piece)
{
	struct buf expected, got;
	bool is_fine;

	buf_init(&expected, OUT_MAX);
	buf_init(&got, OUT_MAX);
	is_fine = read_slowly(input, is_client, &expected);
	check(read_pieces(input, is_client, piece, &got) == is_fine);
	check(bytes_equal((struct bytes){ got.data, got.len },
			  (struct bytes){ expected.data, expected.len }));
	buf_fini(&expected);
	buf_fini(&got);
}

/* ---- writing ---- */

static const char zeros[70000];

/* Each step: what it is, how long; a key. Frames into `frames`, what they say into `said`. */
static void write_steps(struct bytes input, bool is_client, struct buf *frames, struct buf *said)
{
	struct ws_writer writer = { 0 };
	enum ws_opcode message = WS_TEXT;

	while (input.len > 0) {
		size_t what = take_byte(&input), len = take_byte(&input);
		struct bytes payload;
		unsigned char key[WS_KEY_LEN];

		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = (unsigned char)take_byte(&input);
		/* Few inputs are long enough for a long frame. */
		if (what & 128)
			payload = (struct bytes){ zeros, len * 270 };
		else
			payload = bytes_take(&input, len < input.len ? len : input.len);
		if (what & 1) {
			enum ws_opcode opcode = what & 2 ? WS_PING : WS_PONG;

			payload = bytes_cut(payload, WS_CONTROL_MAX);
			if (ws_write_frame(frames, opcode, true, is_client ? key : NULL, payload) <
			    0)
				return;
			note(said, '[', (char)opcode);
			buf_add(said, payload.data, payload.len);
			continue;
		}
		if (!writer.is_in_message)
			message = what & 2 ? WS_TEXT : WS_BINARY;
		if (payload.len > 0 || what & 4) {
			bool is_first = !writer.is_in_message;

			if (ws_write_piece(&writer, frames, message, what & 4,
					   is_client ? key : NULL, payload) < 0)
				return;
			note(said, is_first ? '(' : '+', (char)message);
			buf_add(said, payload.data, payload.len);
			if (what & 4)
				note(said, ')', (char)message);
		} else {
			check(ws_write_piece(&writer, frames, message, false, NULL, payload) == 0);
		}
	}
}

static void check_writing(struct bytes input, bool is_client, size_t piece)
{
	struct buf frames, said, got;

	buf_init(&frames, OUT_MAX / 4);
	buf_init(&said, OUT_MAX);
	buf_init(&got, OUT_MAX);
	write_steps(input, is_client, &frames, &said);
	check(read_pieces((struct bytes){ frames.data, frames.len }, is_client, piece, &got));
	check(bytes_equal((struct bytes){ got.data, got.len },
			  (struct bytes){ said.data, said.len }));
	buf_fini(&frames);
	buf_fini(&said);
	buf_fini(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size };
	size_t choice = take_byte(&input), piece = take_byte(&input) + 1;

	if (size > 4096)
		return 0;
	if (choice & 1)
		check_writing(input, choice & 2, choice & 4 ? 1000 * piece : piece);
	else
		check_reading(input, choice & 2, piece);
	return 0;
}
