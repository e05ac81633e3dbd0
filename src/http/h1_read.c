/* SPDX-License-Identifier: MIT */
/* The HTTP/1 reader; each state takes as much as it can from the input. */
#include "http/h1_read.h"

void h1_reader_init(struct h1_reader *reader, bool is_reply)
{
	*reader = (struct h1_reader){ .is_reply = is_reply };
	buf_init(&reader->text, HTTP_HEAD_MAX);
	buf_init(&reader->trailer_text, HTTP_TRAILER_MAX);
}

void h1_reader_fini(struct h1_reader *reader)
{
	buf_fini(&reader->text);
	buf_fini(&reader->trailer_text);
}

void h1_reader_next(struct h1_reader *reader)
{
	reader->state = H1_STATE_HEAD;
	reader->has_skipped = false;
	reader->text.len = reader->trailer_text.len = reader->line_len = 0;
	reader->method = (struct bytes){ NULL, 0 };
}

static enum h1_event fail(struct h1_reader *reader, enum http_fault fault)
{
	reader->state = H1_STATE_FAULT;
	reader->fault = fault;
	return H1_BROKEN;
}

/* ---- collecting blocks of lines ---- */

/*
 * Adds lines up to and with an empty one. 1 when the block is whole, 0 when more is
 * needed, -1 when it is too large. An empty line is CRLF or, so that it is found and
 * then refused, a bare LF.
 */
static int collect_block(struct h1_reader *reader, struct buf *text, struct bytes *input)
{
	while (input->len > 0) {
		const char *end = memchr(input->data, '\n', input->len);
		size_t len = end ? (size_t)(end - input->data) + 1 : input->len;
		struct bytes part = bytes_take(input, len);

		if (buf_add(text, part.data, part.len) < part.len)
			return -1;
		reader->line_len += part.len;
		if (!end)
			return 0;
		if (reader->line_len == 1 ||
		    (reader->line_len == 2 && text->data[text->len - 2] == '\r')) {
			reader->line_len = 0;
			return 1;
		}
		reader->line_len = 0;
	}
	return 0;
}

/* Where the body begins, by the head's framing. */
static void enter_body(struct h1_reader *reader)
{
	static const enum h1_state states[] = {
		[FRAMING_NONE] = H1_STATE_OVER,
		[FRAMING_LENGTH] = H1_STATE_BODY,
		[FRAMING_CHUNKED] = H1_STATE_CHUNK_LINE,
		[FRAMING_CLOSE] = H1_STATE_BODY_CLOSE,
	};

	reader->left = reader->head.length;
	reader->state = states[reader->head.framing];
	reader->trailer.field_count = 0;
}

/*
 * One empty line before a request is a leftover of old clients and skipped (RFC 9112
 * 2.2); a second one is a fault like any other first line.
 */
static bool skips_empty_line(struct h1_reader *reader)
{
	if (reader->is_reply || reader->has_skipped || reader->text.len != 2)
		return false;
	reader->has_skipped = true;
	reader->text.len = 0;
	return true;
}

static enum h1_event read_head(struct h1_reader *reader, struct bytes *input)
{
	struct bytes text;
	int whole = collect_block(reader, &reader->text, input);

	if (whole < 0)
		return fail(reader, FAULT_HEAD_LONG);
	if (whole == 0 || skips_empty_line(reader))
		return H1_NEEDS_MORE;
	text = (struct bytes){ reader->text.data, reader->text.len };
	reader->fault = reader->is_reply ? http_read_reply(text, reader->method, &reader->head)
					 : http_read_request(text, &reader->head);
	if (reader->fault)
		return fail(reader, reader->fault);
	enter_body(reader);
	return H1_HEAD;
}

static enum h1_event read_trailer(struct h1_reader *reader, struct bytes *input)
{
	int whole = collect_block(reader, &reader->trailer_text, input);
	enum http_fault fault;

	if (whole < 0)
		return fail(reader, FAULT_TRAILER_LONG);
	if (whole == 0)
		return H1_NEEDS_MORE;
	fault = http_read_fields(
		(struct bytes){ reader->trailer_text.data, reader->trailer_text.len },
		&reader->trailer);
	if (fault)
		return fail(reader, fault);
	reader->state = H1_STATE_OVER;
	return H1_END;
}

/* ---- bodies ---- */

/* Hands out what is there of `left`; goes to `next` when that was all. */
static enum h1_event read_data(struct h1_reader *reader, struct bytes *input,
			       struct bytes *ret_data, enum h1_state next)
{
	size_t len = input->len < reader->left ? input->len : (size_t)reader->left;

	if (len == 0)
		return H1_NEEDS_MORE;
	*ret_data = bytes_take(input, len);
	reader->left -= len;
	if (reader->left == 0)
		reader->state = next;
	return H1_DATA;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* size [; extensions], without its CRLF. Extensions are skipped, but not any byte in them. */
static enum http_fault read_chunk_size(struct bytes line, uint64_t *ret_size)
{
	uint64_t size = 0;
	size_t i = 0;

	for (; i < line.len && hex_digit(line.data[i]) >= 0; i++) {
		if (i == 15)
			return FAULT_CHUNK; /* more than HTTP_LENGTH_MAX */
		size = size << 4 | (uint64_t)hex_digit(line.data[i]);
	}
	if (i == 0 || (i < line.len && line.data[i] != ';'))
		return FAULT_CHUNK;
	for (; i < line.len; i++)
		if ((unsigned char)line.data[i] < 0x20 || (unsigned char)line.data[i] >= 0x7f)
			return FAULT_CHUNK;
	*ret_size = size;
	return FAULT_NONE;
}

static enum h1_event read_chunk_line(struct h1_reader *reader, struct bytes *input)
{
	struct buf *text = &reader->trailer_text; /* free until the last chunk */
	const char *end = memchr(input->data, '\n', input->len);
	struct bytes part = bytes_take(input, end ? (size_t)(end - input->data) + 1 : input->len);
	enum http_fault fault;

	if (text->len + part.len > HTTP_CHUNK_LINE_MAX)
		return fail(reader, FAULT_CHUNK_LONG);
	buf_add(text, part.data, part.len);
	if (!end)
		return H1_NEEDS_MORE;
	if (text->len < 2 || text->data[text->len - 2] != '\r')
		return fail(reader, FAULT_LINE_END);
	fault = read_chunk_size((struct bytes){ text->data, text->len - 2 }, &reader->left);
	if (fault)
		return fail(reader, fault);
	text->len = 0;
	reader->state = reader->left ? H1_STATE_CHUNK_DATA : H1_STATE_TRAILER;
	reader->line_len = 0;
	return H1_NEEDS_MORE;
}

static enum h1_event read_chunk_end(struct h1_reader *reader, struct bytes *input)
{
	static const char crlf[] = "\r\n";

	while (input->len > 0) {
		if (bytes_take(input, 1).data[0] != crlf[reader->line_len])
			return fail(reader, FAULT_CHUNK);
		if (++reader->line_len == 2) {
			reader->line_len = 0;
			reader->state = H1_STATE_CHUNK_LINE;
			break;
		}
	}
	return H1_NEEDS_MORE;
}

static enum h1_event step(struct h1_reader *reader, struct bytes *input, struct bytes *ret_data)
{
	switch (reader->state) {
	case H1_STATE_HEAD:
		return read_head(reader, input);
	case H1_STATE_BODY:
		return read_data(reader, input, ret_data, H1_STATE_OVER);
	case H1_STATE_BODY_CLOSE:
		*ret_data = bytes_take(input, input->len);
		return H1_DATA;
	case H1_STATE_CHUNK_LINE:
		return read_chunk_line(reader, input);
	case H1_STATE_CHUNK_DATA:
		return read_data(reader, input, ret_data, H1_STATE_CHUNK_END);
	case H1_STATE_CHUNK_END:
		return read_chunk_end(reader, input);
	case H1_STATE_TRAILER:
		return read_trailer(reader, input);
	case H1_STATE_OVER:
		return H1_END;
	case H1_STATE_FAULT:
		break;
	}
	return H1_BROKEN;
}

enum h1_event h1_read(struct h1_reader *reader, struct bytes *input, struct bytes *ret_data)
{
	enum h1_event event = H1_NEEDS_MORE;

	if (reader->state == H1_STATE_OVER)
		return H1_END;
	while (event == H1_NEEDS_MORE && input->len > 0)
		event = step(reader, input, ret_data);
	return event;
}

enum h1_event h1_read_end(struct h1_reader *reader)
{
	if (reader->state == H1_STATE_OVER)
		return H1_END;
	if (reader->state == H1_STATE_HEAD && reader->text.len == 0)
		return H1_NEEDS_MORE;
	if (reader->state == H1_STATE_BODY_CLOSE) {
		reader->state = H1_STATE_OVER;
		return H1_END;
	}
	return fail(reader, FAULT_CUT);
}
