/* SPDX-License-Identifier: MIT */
/*
 * WebSocket frames, strictly. A head is collected, at most 14 bytes; each rule is checked with the
 * byte that may break it, so that it makes no difference how the bytes are cut.
 */
#include "http/ws.h"

#include <assert.h>
#include <errno.h>

#include "base/utf8.h"

#define BIT_FIN      0x80
#define BITS_RSV     0x70
#define BITS_OPCODE  0x0f
#define BIT_CONTROL  0x08
#define BIT_MASK     0x80
#define BITS_LENGTH  0x7f
#define LENGTH_SHORT 125 /* what fits into the second byte itself ... */
#define LENGTH_16    126 /* ... else it says how many follow */
#define LENGTH_64    127

static const struct ws_fault_info faults[] = {
	{ 0, "", "", "" },
#define WS_FAULT(name, close, code, text, rule) { close, code, text, rule },
#include "http/ws_fault.def"
#undef WS_FAULT
};

const struct ws_fault_info *ws_fault_info(enum ws_fault fault)
{
	return &faults[fault];
}

/* ---- masking ---- */

void ws_mask(char *to, struct bytes from, const unsigned char *key, uint64_t offset)
{
	unsigned char turned[sizeof(uint64_t)];
	uint64_t mask, word;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(turned); k++)
		turned[k] = key[(offset + k) % WS_KEY_LEN];
	memcpy(&mask, turned, sizeof(mask));
	for (; from.len - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, from.data + i, sizeof(word));
		word ^= mask;
		memcpy(to + i, &word, sizeof(word));
	}
	for (size_t k = 0; i < from.len; i++, k++)
		to[i] = (char)((unsigned char)from.data[i] ^ turned[k]);
}

/* ---- reading ---- */

void ws_reader_init(struct ws_reader *reader, bool is_client)
{
	*reader = (struct ws_reader){ .is_client = is_client };
}

static bool is_control(enum ws_opcode opcode)
{
	return opcode & BIT_CONTROL;
}

/* Fragments of a message follow each other; control frames have none (RFC 6455 5.4). */
static enum ws_fault check_order(const struct ws_reader *reader)
{
	if (is_control(reader->opcode)) {
		if (!reader->is_fin)
			return WS_FAULT_FRAGMENT;
		return reader->opcode == WS_CLOSE && reader->has_closed ? WS_FAULT_AFTER_CLOSE
									: WS_FAULT_NONE;
	}
	if (reader->has_closed)
		return WS_FAULT_AFTER_CLOSE;
	if (reader->opcode == WS_CONTINUATION)
		return reader->is_in_message ? WS_FAULT_NONE : WS_FAULT_CONTINUATION;
	return reader->is_in_message ? WS_FAULT_INTERLEAVED : WS_FAULT_NONE;
}

static enum ws_fault read_first_byte(struct ws_reader *reader, unsigned char byte)
{
	static const bool is_known[BITS_OPCODE + 1] = {
		[WS_CONTINUATION] = true, [WS_TEXT] = true, [WS_BINARY] = true,
		[WS_CLOSE] = true,        [WS_PING] = true, [WS_PONG] = true,
	};

	if (byte & BITS_RSV)
		return WS_FAULT_RESERVED;
	if (!is_known[byte & BITS_OPCODE])
		return WS_FAULT_OPCODE;
	reader->opcode = byte & BITS_OPCODE;
	reader->is_fin = byte & BIT_FIN;
	return check_order(reader);
}

/* How many bytes say the length, behind the second one. */
static size_t length_size(unsigned char second)
{
	switch (second & BITS_LENGTH) {
	case LENGTH_16:
		return sizeof(uint16_t);
	case LENGTH_64:
		return sizeof(uint64_t);
	default:
		return 0;
	}
}

static enum ws_fault read_second_byte(struct ws_reader *reader, unsigned char byte)
{
	bool is_masked = byte & BIT_MASK;

	if (is_masked != reader->is_client)
		return is_masked ? WS_FAULT_MASKED : WS_FAULT_UNMASKED;
	if (is_control(reader->opcode) && (byte & BITS_LENGTH) > LENGTH_SHORT)
		return WS_FAULT_CONTROL_LONG;
	reader->head_size = 2 + length_size(byte) + (is_masked ? WS_KEY_LEN : 0);
	return WS_FAULT_NONE;
}

/* The whole head is there. A length that could be written shorter is a second way to say it. */
static enum ws_fault read_length(struct ws_reader *reader)
{
	size_t size = length_size(reader->head[1]);
	uint64_t length = 0;

	for (size_t i = 0; i < size; i++)
		length = length << 8 | reader->head[2 + i];
	if (size == 0)
		length = reader->head[1] & BITS_LENGTH;
	else if (length <= (size == sizeof(uint16_t) ? LENGTH_SHORT : UINT16_MAX) ||
		 length > INT64_MAX)
		return WS_FAULT_LENGTH;
	reader->length = reader->left = length;
	if (reader->is_client)
		memcpy(reader->key, reader->head + 2 + size, WS_KEY_LEN);
	return WS_FAULT_NONE;
}

/* Those that RFC 6455 7.4.1 and its registry have for the wire, and those that are free. */
static bool is_valid_code(unsigned int code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static bool is_utf8(struct bytes text)
{
	while (text.len > 0) {
		size_t len = utf8_sequence(text.data, text.len);

		if (len == 0)
			return false;
		bytes_take(&text, len);
	}
	return true;
}

static enum ws_fault read_close(struct ws_reader *reader, struct bytes payload,
				enum ws_code *ret_code)
{
	unsigned int code;

	reader->has_closed = true;
	*ret_code = WS_CODE_NONE;
	if (payload.len == 0)
		return WS_FAULT_NONE;
	if (payload.len < 2)
		return WS_FAULT_CLOSE;
	code = (unsigned int)(unsigned char)payload.data[0] << 8 | (unsigned char)payload.data[1];
	if (!is_valid_code(code))
		return WS_FAULT_CLOSE;
	*ret_code = code;
	bytes_take(&payload, 2);
	return is_utf8(payload) ? WS_FAULT_NONE : WS_FAULT_REASON;
}

static enum ws_event fail(struct ws_reader *reader, enum ws_fault fault)
{
	reader->state = WS_STATE_FAULT;
	reader->fault = fault;
	return WS_BROKEN;
}

/* The next frame's head comes next. */
static void enter_head(struct ws_reader *reader)
{
	reader->state = WS_STATE_HEAD;
	reader->head_len = 0;
}

static enum ws_event finish_control(struct ws_reader *reader, struct ws_result *result)
{
	enum ws_fault fault = WS_FAULT_NONE;

	result->opcode = reader->opcode;
	result->data = (struct bytes){ reader->control, (size_t)reader->length };
	if (reader->opcode == WS_CLOSE)
		fault = read_close(reader, result->data, &result->code);
	if (fault)
		return fail(reader, fault);
	enter_head(reader);
	return WS_CONTROL;
}

static enum ws_event enter_data(struct ws_reader *reader, struct ws_result *result)
{
	result->is_first = reader->opcode != WS_CONTINUATION;
	if (result->is_first)
		reader->message = reader->opcode;
	reader->is_in_message = !reader->is_fin;
	result->opcode = reader->message;
	result->is_fin = reader->is_fin;
	result->is_end = reader->is_fin && reader->length == 0;
	result->length = reader->length;
	if (reader->length > 0)
		reader->state = WS_STATE_DATA;
	else
		enter_head(reader);
	return WS_FRAME;
}

/* The head is whole: what follows it, or what is there already when nothing does. */
static enum ws_event finish_head(struct ws_reader *reader, struct ws_result *result)
{
	enum ws_fault fault = read_length(reader);

	if (fault)
		return fail(reader, fault);
	if (!is_control(reader->opcode))
		return enter_data(reader, result);
	if (reader->length == 0)
		return finish_control(reader, result);
	reader->state = WS_STATE_CONTROL;
	return WS_NEEDS_MORE;
}

static enum ws_event read_head(struct ws_reader *reader, struct bytes *input,
			       struct ws_result *result)
{
	enum ws_fault fault = WS_FAULT_NONE;
	unsigned char byte = (unsigned char)bytes_take(input, 1).data[0];

	reader->head[reader->head_len++] = byte;
	if (reader->head_len == 1)
		fault = read_first_byte(reader, byte);
	else if (reader->head_len == 2)
		fault = read_second_byte(reader, byte);
	if (fault)
		return fail(reader, fault);
	if (reader->head_len < 2 || reader->head_len < reader->head_size)
		return WS_NEEDS_MORE;
	return finish_head(reader, result);
}

/* The next bytes of the payload, as they are or, when they are masked, unmasked into `space`. */
static struct bytes take_payload(struct ws_reader *reader, struct bytes *input, char *space,
				 size_t size)
{
	size_t len = input->len < reader->left ? input->len : (size_t)reader->left;
	struct bytes data;

	if (reader->is_client && len > size)
		len = size;
	data = bytes_take(input, len);
	if (reader->is_client) {
		ws_mask(space, data, reader->key, reader->length - reader->left);
		data.data = space;
	}
	reader->left -= len;
	return data;
}

static enum ws_event read_data(struct ws_reader *reader, struct bytes *input,
			       struct ws_result *result)
{
	result->data = take_payload(reader, input, result->space, sizeof(result->space));
	result->opcode = reader->message;
	result->is_end = reader->is_fin && reader->left == 0;
	if (reader->left == 0)
		enter_head(reader);
	return WS_DATA;
}

static enum ws_event read_control(struct ws_reader *reader, struct bytes *input,
				  struct ws_result *result)
{
	char *space = reader->control + (reader->length - reader->left);
	struct bytes data = take_payload(reader, input, space, (size_t)reader->left);

	if (data.data != space)
		memcpy(space, data.data, data.len);
	return reader->left == 0 ? finish_control(reader, result) : WS_NEEDS_MORE;
}

static enum ws_event step(struct ws_reader *reader, struct bytes *input, struct ws_result *result)
{
	switch (reader->state) {
	case WS_STATE_HEAD:
		return read_head(reader, input, result);
	case WS_STATE_DATA:
		return read_data(reader, input, result);
	case WS_STATE_CONTROL:
		return read_control(reader, input, result);
	case WS_STATE_FAULT:
		break;
	}
	return WS_BROKEN;
}

enum ws_event ws_read(struct ws_reader *reader, struct bytes *input, struct ws_result *result)
{
	enum ws_event event = reader->state == WS_STATE_FAULT ? WS_BROKEN : WS_NEEDS_MORE;

	while (event == WS_NEEDS_MORE && input->len > 0)
		event = step(reader, input, result);
	return event;
}

bool ws_reader_is_over(const struct ws_reader *reader)
{
	return reader->has_closed && reader->state == WS_STATE_HEAD && reader->head_len == 0;
}

/* ---- writing ---- */

size_t ws_format_head(char *text, enum ws_opcode opcode, bool is_fin, const unsigned char *key,
		      uint64_t length)
{
	unsigned int size = length <= LENGTH_SHORT ? 0
			    : length <= UINT16_MAX ? sizeof(uint16_t)
						   : sizeof(uint64_t);
	unsigned int first = opcode | (is_fin ? BIT_FIN : 0U), second = key ? BIT_MASK : 0;
	size_t len = 0;

	assert(length <= INT64_MAX && (!is_control(opcode) || (is_fin && size == 0)));
	second |= size == 0 ? (unsigned int)length : size == 2 ? LENGTH_16 : LENGTH_64;
	text[len++] = (char)first;
	text[len++] = (char)second;
	while (size > 0)
		text[len++] = (char)(length >> 8 * --size);
	if (!key)
		return len;
	memcpy(text + len, key, WS_KEY_LEN);
	return len + WS_KEY_LEN;
}

int ws_write_frame(struct buf *out, enum ws_opcode opcode, bool is_fin, const unsigned char *key,
		   struct bytes payload)
{
	char head[WS_HEAD_MAX];
	size_t head_len = ws_format_head(head, opcode, is_fin, key, payload.len), start;

	/* Half a frame would make the next one a part of it. */
	if (out->max - out->len < head_len || out->max - out->len - head_len < payload.len)
		return -E2BIG;
	buf_add(out, head, head_len);
	start = out->len;
	buf_add(out, payload.data, payload.len);
	if (key && payload.len > 0)
		ws_mask(out->data + start, (struct bytes){ out->data + start, payload.len }, key,
			0);
	return 0;
}

int ws_write_close(struct buf *out, enum ws_code code, const unsigned char *key)
{
	char payload[] = { (char)(code >> 8), (char)code };

	return ws_write_frame(
		out, WS_CLOSE, true, key,
		(struct bytes){ payload, code == WS_CODE_NONE ? 0 : sizeof(payload) });
}

int ws_write_piece(struct ws_writer *writer, struct buf *out, enum ws_opcode opcode, bool is_end,
		   const unsigned char *key, struct bytes payload)
{
	int r;

	if (payload.len == 0 && !is_end)
		return 0;
	r = ws_write_frame(out, writer->is_in_message ? WS_CONTINUATION : opcode, is_end, key,
			   payload);
	if (r == 0)
		writer->is_in_message = !is_end;
	return r;
}
