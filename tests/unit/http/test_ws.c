/* SPDX-License-Identifier: MIT */
/*
 * WebSocket frames, case by case: what comes in, what comes out of it, and the rule. Every case
 * is read whole, byte by byte, and cut in two at every place, always with the same outcome.
 */
#include "unit.h"

#include <stdio.h>

#include "http/ws.h"

struct row {
	const char *input;
	size_t len;
	/*
	 * A transcript. T or B: a message begins; +: a frame that goes on with it; the length of
	 * its payload, ! when it is the last one; then ( and what there is, and ) at the end of
	 * the message. [ping x], [pong x], [close code reason]. The code of a fault. "over" when
	 * the connection may end.
	 */
	const char *expected;
	const char *rule;
};

#define ROW(input, expected, rule)                                                                 \
	{                                                                                          \
		input, sizeof(input) - 1, expected, rule                                           \
	}

#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define L125    HUNDRED TEN TEN "01234"
#define L126    L125 "5"
#define NO_KEY  "\0\0\0\0" /* masked, and readable */

static const struct row from_server[] = {
	/* what is fine */
	ROW("", "", "nothing"),
	ROW("\x81\x05Hello", "T5!(Hello)", "RFC 6455 5.7"),
	ROW("\x82\x05Hello", "B5!(Hello)", "RFC 6455 5.6"),
	ROW("\x01\x03Hel\x80\x02lo", "T3(Hel+2!(lo)", "RFC 6455 5.7: fragmented"),
	ROW("\x02\x01x\x00\x01y\x00\x01z\x80\x01!", "B1(x+1(y+1(z+1!(!)", "RFC 6455 5.4"),
	ROW("\x81\x01x\x82\x01y", "T1!(x)B1!(y)", "one after the other"),
	ROW("\x81\x00", "T0!()", "an empty message"),
	ROW("\x01\x00\x00\x00\x80\x00", "T0(+0(+0!()", "RFC 6455 5.4: empty fragments"),
	ROW("\x01\x02xy\x80\x00", "T2(xy+0!()", "the last fragment is empty"),
	ROW("\x81\x7d" L125, "T125!(" L125 ")", "RFC 6455 5.2: the longest short length"),
	ROW("\x81\x7e\x00\x7e" L126, "T126!(" L126 ")", "RFC 6455 5.2: the first of 16 bits"),
	ROW("\x01\x7f\x00\x00\x00\x00\x00\x01\x00\x00x", "T65536(x", "RFC 6455 5.2: 64 bits"),
	ROW("\x81\x7e\xff\xffx", "T65535!(x", "RFC 6455 5.2: the last of 16 bits"),
	ROW("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xffx", "T9223372036854775807!(x",
	    "RFC 6455 5.2: the longest"),
	ROW("\x89\x05Hello", "[ping Hello]", "RFC 6455 5.5.2"),
	ROW("\x8a\x05Hello", "[pong Hello]", "RFC 6455 5.5.3"),
	ROW("\x89\x00\x8a\x00", "[ping ][pong ]", "RFC 6455 5.5.2: empty"),
	ROW("\x89\x7d" L125, "[ping " L125 "]", "RFC 6455 5.5: the longest"),
	ROW("\x01\x01x\x89\x01p\x80\x01y", "T1(x[ping p]+1!(y)", "RFC 6455 5.4: in between"),
	ROW("\x88\x00", "[close 1005 ]over", "RFC 6455 5.5.1"),
	ROW("\x88\x02\x03\xe8", "[close 1000 ]over", "RFC 6455 7.4.1"),
	ROW("\x88\x05\x03\xe9"
	    "bye",
	    "[close 1001 bye]over", "RFC 6455 5.5.1: with a reason"),
	ROW("\x88\x04\x03\xe8\xc3\xa4", "[close 1000 \xc3\xa4]over", "RFC 6455 5.5.1: UTF-8"),
	ROW("\x88\x02\x03\xf6", "[close 1014 ]over", "the registry's last"),
	ROW("\x88\x02\x0b\xb8", "[close 3000 ]over", "RFC 6455 7.4.2"),
	ROW("\x88\x02\x13\x87", "[close 4999 ]over", "RFC 6455 7.4.2"),
	ROW("\x01\x01x\x88\x00", "T1(x[close 1005 ]over", "closed within a message"),
	ROW("\x88\x00\x89\x01p\x8a\x00", "[close 1005 ][ping p][pong ]over",
	    "RFC 6455 5.5.2: a ping is answered until a close has come"),
	ROW("\x88\x00\x89\x01", "[close 1005 ]", "cut short after a close"),
	ROW("\x88\x00\x8a", "[close 1005 ]", "cut short after a close"),

	/* the first byte */
	ROW("\xc1\x01x", "ws_reserved_bit", "RFC 6455 5.2: RSV1, permessage-deflate"),
	ROW("\xa1\x01x", "ws_reserved_bit", "RFC 6455 5.2: RSV2"),
	ROW("\x91\x01x", "ws_reserved_bit", "RFC 6455 5.2: RSV3"),
	ROW("\xc9\x00", "ws_reserved_bit", "RFC 6455 5.2: in a ping"),
	ROW("\x01\x01x\xc0\x01y", "T1(xws_reserved_bit", "RFC 6455 5.2: in a continuation"),
	ROW("\x83\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x84\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x85\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x86\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x87\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x8b\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x8c\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x8d\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x8e\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("\x8f\x00", "ws_bad_opcode", "RFC 6455 5.2"),
	ROW("HTTP/1.1 200", "ws_reserved_bit", "a server that speaks something else"),

	/* order */
	ROW("\x80\x01x", "ws_bad_continuation", "RFC 6455 5.4: nothing to go on with"),
	ROW("\x00\x01x", "ws_bad_continuation", "RFC 6455 5.4: nothing to go on with"),
	ROW("\x81\x01x\x80\x01y", "T1!(x)ws_bad_continuation", "RFC 6455 5.4: it was over"),
	ROW("\x01\x01x\x81\x01y", "T1(xws_interleaved", "RFC 6455 5.4"),
	ROW("\x01\x01x\x02\x01y", "T1(xws_interleaved", "RFC 6455 5.4"),
	ROW("\x01\x01x\x89\x00\x01\x01y", "T1(x[ping ]ws_interleaved", "RFC 6455 5.4"),
	ROW("\x09\x00", "ws_control_fragment", "RFC 6455 5.5"),
	ROW("\x0a\x00", "ws_control_fragment", "RFC 6455 5.5"),
	ROW("\x08\x00", "ws_control_fragment", "RFC 6455 5.5"),
	ROW("\x88\x00\x81\x01x", "[close 1005 ]ws_after_close", "RFC 6455 5.5.1"),
	ROW("\x88\x00\x88\x00", "[close 1005 ]ws_after_close", "RFC 6455 5.5.1"),
	ROW("\x01\x01x\x88\x00\x80\x00", "T1(x[close 1005 ]ws_after_close", "RFC 6455 5.5.1"),

	/* lengths */
	ROW("\x81\x85" NO_KEY "Hello", "ws_masked", "RFC 6455 5.1"),
	ROW("\x89\x80" NO_KEY, "ws_masked", "RFC 6455 5.1"),
	ROW("\x89\x7e\x00\x7e" L126, "ws_control_too_long", "RFC 6455 5.5"),
	ROW("\x89\x7e\x00\x01x", "ws_control_too_long", "RFC 6455 5.5"),
	ROW("\x88\x7f\x00\x00\x00\x00\x00\x00\x00\x01x", "ws_control_too_long", "RFC 6455 5.5"),
	ROW("\x81\x7e\x00\x00", "ws_bad_length", "RFC 6455 5.2: not the shortest"),
	ROW("\x81\x7e\x00\x7d" L125, "ws_bad_length", "RFC 6455 5.2: not the shortest"),
	ROW("\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x05Hello", "ws_bad_length",
	    "RFC 6455 5.2: not the shortest"),
	ROW("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xffx", "ws_bad_length",
	    "RFC 6455 5.2: not the shortest"),
	ROW("\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00x", "ws_bad_length",
	    "RFC 6455 5.2: the highest bit"),
	ROW("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xffx", "ws_bad_length",
	    "RFC 6455 5.2: the highest bit"),

	/* closing */
	ROW("\x88\x01\x03", "ws_bad_close", "RFC 6455 5.5.1: half a code"),
	ROW("\x88\x02\x00\x00", "ws_bad_close", "RFC 6455 7.4.2"),
	ROW("\x88\x02\x03\xe7", "ws_bad_close", "RFC 6455 7.4.2: 999"),
	ROW("\x88\x02\x03\xec", "ws_bad_close", "RFC 6455 7.4.1: 1004"),
	ROW("\x88\x02\x03\xed", "ws_bad_close", "RFC 6455 7.4.1: 1005"),
	ROW("\x88\x02\x03\xee", "ws_bad_close", "RFC 6455 7.4.1: 1006"),
	ROW("\x88\x02\x03\xf7", "ws_bad_close", "RFC 6455 7.4.1: 1015"),
	ROW("\x88\x02\x03\xf8", "ws_bad_close", "RFC 6455 7.4.2: 1016"),
	ROW("\x88\x02\x0b\xb7", "ws_bad_close", "RFC 6455 7.4.2: 2999"),
	ROW("\x88\x02\x13\x88", "ws_bad_close", "RFC 6455 7.4.2: 5000"),
	ROW("\x88\x02\xff\xff", "ws_bad_close", "RFC 6455 7.4.2: 65535"),
	ROW("\x88\x03\x03\xe8\xff", "ws_bad_reason", "RFC 6455 5.5.1"),
	ROW("\x88\x03\x03\xe8\xc3", "ws_bad_reason", "RFC 6455 5.5.1: half a character"),
};

static const struct row from_client[] = {
	ROW("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "T5!(Hello)", "RFC 6455 5.7"),
	ROW("\x89\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "[ping Hello]", "RFC 6455 5.7"),
	ROW("\x01\x83\x37\xfa\x21\x3d\x7f\x9f\x4d\x80\x82\x01\x01\x01\x01mn", "T3(Hel+2!(lo)",
	    "RFC 6455 5.3: a key for each frame"),
	ROW("\x81\x85" NO_KEY "Hello", "T5!(Hello)", "RFC 6455 5.3"),
	ROW("\x81\x80" NO_KEY, "T0!()", "RFC 6455 5.3: empty, with a key"),
	ROW("\x01\x80" NO_KEY "\x80\x80" NO_KEY, "T0(+0!()", "RFC 6455 5.4: empty fragments"),
	ROW("\x82\xfe\x00\x7e" NO_KEY L126, "B126!(" L126 ")", "RFC 6455 5.2: 16 bits"),
	ROW("\x02\xff\x00\x00\x00\x00\x00\x01\x00\x00" NO_KEY "x", "B65536(x",
	    "RFC 6455 5.2: 64 bits"),
	ROW("\x8a\x80" NO_KEY, "[pong ]", "RFC 6455 5.5.3"),
	ROW("\x88\x80" NO_KEY, "[close 1005 ]over", "RFC 6455 5.5.1"),
	ROW("\x88\x82\xff\xff\xff\xff\xfc\x17", "[close 1000 ]over", "RFC 6455 5.5.1"),
	ROW("\x88\x82\x00\x05\x00\x00\x03\xe8", "ws_bad_close", "RFC 6455 7.4.1: 1005, masked"),
	ROW("\x81\x05Hello", "ws_unmasked", "RFC 6455 5.1"),
	ROW("\x81\x00", "ws_unmasked", "RFC 6455 5.1: also when there is nothing to mask"),
	ROW("\x88\x00", "ws_unmasked", "RFC 6455 5.1"),
	ROW("\x81\xfe\x00\x7d" NO_KEY L125, "ws_bad_length", "RFC 6455 5.2: not the shortest"),
	ROW("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" NO_KEY, "ws_bad_length",
	    "RFC 6455 5.2: the highest bit"),
	ROW("\x89\xfe\x00\x7e" NO_KEY, "ws_control_too_long", "RFC 6455 5.5"),
	ROW("GET / HTTP/1.1\r\n", "ws_reserved_bit", "a client that goes on with something else"),
};

/* ---- reading in pieces ---- */

struct reading {
	struct ws_reader reader;
	struct ws_result result;
	struct buf transcript;
};

static void note(struct reading *reading, const char *format, ...) printf_like(2);

static void note(struct reading *reading, const char *format, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, format);
	assert_true(vsnprintf(text, sizeof(text), format, ap) < (int)sizeof(text));
	va_end(ap);
	buf_add_text(&reading->transcript, text);
}

static void note_payload(struct reading *reading)
{
	buf_add(&reading->transcript, reading->result.data.data, reading->result.data.len);
}

static void note_control(struct reading *reading)
{
	const struct ws_result *result = &reading->result;

	if (result->opcode == WS_CLOSE) {
		note(reading, "[close %u ", (unsigned int)result->code);
		if (result->code != WS_CODE_NONE)
			bytes_take(&reading->result.data, 2);
	} else {
		note(reading, "[%s ", result->opcode == WS_PING ? "ping" : "pong");
	}
	note_payload(reading);
	note(reading, "]");
}

static void take_event(struct reading *reading, enum ws_event event)
{
	const struct ws_result *result = &reading->result;

	switch (event) {
	case WS_FRAME:
		assert_true(result->opcode == WS_TEXT || result->opcode == WS_BINARY);
		note(reading, "%s%llu%s(",
		     !result->is_first           ? "+"
		     : result->opcode == WS_TEXT ? "T"
						 : "B",
		     (unsigned long long)result->length, result->is_fin ? "!" : "");
		break;
	case WS_DATA:
		assert_true(result->opcode == WS_TEXT || result->opcode == WS_BINARY);
		assert_true(result->data.len > 0);
		note_payload(reading);
		break;
	case WS_CONTROL:
		note_control(reading);
		return;
	case WS_BROKEN:
		note(reading, "%s", ws_fault_info(reading->reader.fault)->code);
		return;
	case WS_NEEDS_MORE:
		return;
	}
	if (result->is_end)
		note(reading, ")");
}

static bool feed(struct reading *reading, struct bytes input)
{
	enum ws_event event = WS_NEEDS_MORE;

	while (input.len > 0 && event != WS_BROKEN) {
		size_t before = input.len;

		event = ws_read(&reading->reader, &input, &reading->result);
		assert_true(input.len < before);
		assert_true(event != WS_NEEDS_MORE || input.len == 0);
		take_event(reading, event);
	}
	return event != WS_BROKEN;
}

/* Reads in pieces of the given sizes; the last size is repeated. The caller has the transcript. */
static void read_in_pieces(struct bytes text, bool is_client, size_t first, size_t others,
			   struct buf *ret_transcript)
{
	static struct reading reading;
	struct bytes nothing = { "", 0 };
	bool goes_on = true;

	ws_reader_init(&reading.reader, is_client);
	buf_init(&reading.transcript, 1 << 20);
	buf_add_text(&reading.transcript, "");
	for (size_t size = first; text.len > 0 && goes_on; size = others) {
		struct bytes piece = bytes_take(&text, size < text.len ? size : text.len);
		/* A copy of its own, so that reading beyond it is noticed. */
		char *copy = malloc(piece.len ? piece.len : 1);

		memcpy(copy, piece.data, piece.len);
		goes_on = feed(&reading, (struct bytes){ copy, piece.len });
		free(copy);
	}
	assert_int_equal(ws_read(&reading.reader, &nothing, &reading.result),
			 goes_on ? WS_NEEDS_MORE : WS_BROKEN);
	if (goes_on && ws_reader_is_over(&reading.reader))
		note(&reading, "over");
	*ret_transcript = reading.transcript;
}

static void check(const struct row *row, bool is_client, size_t first, size_t others)
{
	struct bytes expected = bytes_of(row->expected);
	struct buf got;

	read_in_pieces((struct bytes){ row->input, row->len }, is_client, first, others, &got);
	if (!bytes_equal((struct bytes){ got.data, got.len }, expected))
		fail_msg("%s: in pieces of %zu and %zu gave '%s', not '%s'", row->rule, first,
			 others, got.data, row->expected);
	buf_fini(&got);
}

static void check_all(const struct row *rows, size_t count, bool is_client)
{
	for (size_t i = 0; i < count; i++) {
		check(&rows[i], is_client, rows[i].len, 1);
		check(&rows[i], is_client, 1, 1);
		for (size_t cut = 1; cut < rows[i].len; cut++)
			check(&rows[i], is_client, cut, rows[i].len);
	}
}

static void frames_of_a_server_are_read_or_refused(void **state)
{
	(void)state;
	check_all(from_server, ARRAY_LEN(from_server), false);
}

static void frames_of_a_client_are_read_or_refused(void **state)
{
	(void)state;
	check_all(from_client, ARRAY_LEN(from_client), true);
}

/* What is not masked is not copied either. */
static void a_servers_payload_is_a_view(void **state)
{
	struct bytes input = BYTES("\x81\x05Hello");
	const char *payload = input.data + 2;
	static struct ws_result result;
	struct ws_reader reader;

	(void)state;
	ws_reader_init(&reader, false);
	assert_int_equal(ws_read(&reader, &input, &result), WS_FRAME);
	assert_int_equal(ws_read(&reader, &input, &result), WS_DATA);
	assert_ptr_equal(result.data.data, payload);
	assert_int_equal(result.data.len, 5);
}

/* ---- masking and writing ---- */

static const unsigned char key[WS_KEY_LEN] = { 0x37, 0xfa, 0x21, 0x3d };

/* At every place of a word, from every place of the key, and no byte beyond. */
static void masking_is_byte_by_byte(void **state)
{
	(void)state;
	for (size_t start = 0; start < 9; start++) {
		for (size_t len = 0; len < 40; len++) {
			for (uint64_t offset = 0; offset < 9; offset++) {
				char from[64], to[64];

				memset(to, 'x', sizeof(to));
				for (size_t i = 0; i < sizeof(from); i++)
					from[i] = (char)(i * 11);
				ws_mask(to + start, (struct bytes){ from + start, len }, key,
					offset);
				for (size_t i = 0; i < sizeof(to); i++) {
					bool is_in = i >= start && i < start + len;
					int masked = (unsigned char)from[i] ^
						     key[(offset + i - start) % WS_KEY_LEN];

					assert_int_equal(is_in ? (char)masked : 'x', to[i]);
				}
				ws_mask(to + start, (struct bytes){ to + start, len }, key, offset);
				assert_memory_equal(to + start, from + start, len);
			}
		}
	}
}

static void assert_written(struct buf *out, const char *expected, size_t len)
{
	assert_int_equal(out->len, len);
	assert_memory_equal(out->data, expected, len);
	out->len = 0;
}

#define ASSERT_WRITTEN(out, literal) assert_written(out, literal, sizeof(literal) - 1)

static void frames_are_written(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 1024);
	assert_int_equal(ws_write_frame(&out, WS_TEXT, true, NULL, BYTES("Hello")), 0);
	ASSERT_WRITTEN(&out, "\x81\x05Hello");
	assert_int_equal(ws_write_frame(&out, WS_TEXT, true, key, BYTES("Hello")), 0);
	ASSERT_WRITTEN(&out, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
	assert_int_equal(ws_write_frame(&out, WS_PING, true, NULL, BYTES("")), 0);
	ASSERT_WRITTEN(&out, "\x89\x00");
	assert_int_equal(ws_write_frame(&out, WS_BINARY, false, NULL, BYTES(L125)), 0);
	ASSERT_WRITTEN(&out, "\x02\x7d" L125);
	assert_int_equal(ws_write_frame(&out, WS_BINARY, false, NULL, BYTES(L126)), 0);
	ASSERT_WRITTEN(&out, "\x02\x7e\x00\x7e" L126);
	assert_int_equal(ws_write_close(&out, WS_CODE_PROTOCOL, NULL), 0);
	ASSERT_WRITTEN(&out, "\x88\x02\x03\xea");
	assert_int_equal(ws_write_close(&out, WS_CODE_NONE, key), 0);
	ASSERT_WRITTEN(&out, "\x88\x80\x37\xfa\x21\x3d");
	buf_fini(&out);
}

static void heads_have_the_shortest_length(void **state)
{
	static const struct {
		uint64_t length;
		struct bytes head;
	} rows[] = {
		{ 0, BYTES("\x82\x00") },
		{ 125, BYTES("\x82\x7d") },
		{ 126, BYTES("\x82\x7e\x00\x7e") },
		{ 65535, BYTES("\x82\x7e\xff\xff") },
		{ 65536, BYTES("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00") },
		{ INT64_MAX, BYTES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[WS_HEAD_MAX];
		size_t len = ws_format_head(text, WS_BINARY, true, NULL, rows[i].length);

		assert_int_equal(len, rows[i].head.len);
		assert_memory_equal(text, rows[i].head.data, len);
		assert_int_equal(ws_format_head(text, WS_BINARY, true, key, rows[i].length),
				 len + WS_KEY_LEN);
	}
}

/* What a filter gives bit by bit becomes one message, and nothing becomes no frame. */
static void pieces_are_one_message(void **state)
{
	struct ws_writer writer = { 0 };
	struct buf out;

	(void)state;
	buf_init(&out, 1024);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("")), 0);
	ASSERT_WRITTEN(&out, "");
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("a")), 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("")), 0);
	assert_int_equal(ws_write_frame(&out, WS_PONG, true, NULL, BYTES("p")), 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("bc")), 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, true, NULL, BYTES("")), 0);
	ASSERT_WRITTEN(&out, "\x01\x01"
			     "a\x8a\x01p\x00\x02"
			     "bc\x80\x00");
	assert_int_equal(ws_write_piece(&writer, &out, WS_BINARY, true, NULL, BYTES("x")), 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, true, NULL, BYTES("")), 0);
	ASSERT_WRITTEN(&out, "\x82\x01x\x81\x00");
	buf_fini(&out);
}

/* INV-BOUNDED: a frame that does not fit is not begun, and the message can go on later. */
static void a_frame_is_written_whole_or_not_at_all(void **state)
{
	struct ws_writer writer = { 0 };
	struct buf out;

	(void)state;
	buf_init(&out, 7);
	assert_int_equal(ws_write_frame(&out, WS_TEXT, true, NULL, BYTES("123456")), -E2BIG);
	assert_int_equal(ws_write_frame(&out, WS_TEXT, true, key, BYTES("12")), -E2BIG);
	assert_int_equal(out.len, 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("123456")),
			 -E2BIG);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, false, NULL, BYTES("12345")), 0);
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, true, NULL, BYTES("")), -E2BIG);
	ASSERT_WRITTEN(&out, "\x01\x05"
			     "12345");
	assert_int_equal(ws_write_piece(&writer, &out, WS_TEXT, true, NULL, BYTES("")), 0);
	ASSERT_WRITTEN(&out, "\x80\x00");
	buf_fini(&out);
}

/* Larger than what is unmasked at once, with a length of each kind, cut oddly. */
static void what_is_written_is_read(void **state)
{
	static const size_t lengths[] = { 126, 65535, 65536, 3 * WS_PIECE_MAX + 5 };
	static char payload[65536];

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct bytes data = { payload, lengths[i] };
		struct buf frame, got, expected;
		char head[32];

		buf_init(&frame, 1 << 20);
		buf_init(&expected, 1 << 20);
		assert_int_equal(ws_write_frame(&frame, WS_TEXT, true, key, data), 0);
		snprintf(head, sizeof(head), "T%zu!(", lengths[i]);
		buf_add_text(&expected, head);
		buf_add(&expected, data.data, data.len);
		buf_add_text(&expected, ")");
		read_in_pieces((struct bytes){ frame.data, frame.len }, true, 1021, 20011, &got);
		assert_int_equal(got.len, expected.len);
		assert_memory_equal(got.data, expected.data, got.len);
		buf_fini(&frame);
		buf_fini(&got);
		buf_fini(&expected);
	}
}

int main(void)
{
	RUN_TESTS(TEST(frames_of_a_server_are_read_or_refused),
		  TEST(frames_of_a_client_are_read_or_refused), TEST(a_servers_payload_is_a_view),
		  TEST(masking_is_byte_by_byte), TEST(frames_are_written),
		  TEST(heads_have_the_shortest_length), TEST(pieces_are_one_message),
		  TEST(a_frame_is_written_whole_or_not_at_all), TEST(what_is_written_is_read));
}
