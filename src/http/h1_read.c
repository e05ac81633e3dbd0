/* SPDX-License-Identifier: MIT */
/* The HTTP/1 reader; each state takes as much as it can from the input. */
#include "http/h1_read.h"

void h1_reader_init(struct h1_reader *reader, bool is_reply)
{
	*reader = (struct h1_reader){ .is_reply = is_reply };
	buf_init(&reader->text, HTTP_HEAD_MAX);
}

void h1_reader_fini(struct h1_reader *reader)
{
	buf_fini(&reader->text);
}

void h1_reader_next(struct h1_reader *reader)
{
	struct h1_reader next = { .is_reply = reader->is_reply };

	buf_fini(&reader->text);
	next.text = reader->text;
	*reader = next;
}

static enum h1_event fail(struct h1_reader *reader, enum http_fault fault)
{
	reader->state = H1_STATE_FAULT;
	reader->fault = fault;
	return H1_BROKEN;
}

/* ---- collecting blocks of lines ---- */

/* Whether the line that ends at `end` is empty: CRLF or, so that it is found and then refused, LF.
 */
static bool is_empty_line(const struct h1_reader *reader, const char *start, const char *end)
{
	size_t before = reader->line_len, here = (size_t)(end - start) + 1;

	if (before + here == 1)
		return true;
	if (before + here != 2)
		return false;
	return (before ? reader->text.data[reader->text.len - 1] : start[0]) == '\r';
}

/* The length of what completes the block, or 0 when its end is not there yet. */
static size_t find_block_end(struct h1_reader *reader, struct bytes input)
{
	const char *start = input.data, *stop = input.data + input.len, *end;

	while ((end = memchr(start, '\n', (size_t)(stop - start)))) {
		if (is_empty_line(reader, start, end)) {
			reader->line_len = 0;
			return (size_t)(end - input.data) + 1;
		}
		reader->line_len = 0;
		start = end + 1;
		if (start == stop)
			break;
	}
	reader->line_len += (size_t)(stop - start);
	return 0;
}

/*
 * Takes lines up to and with an empty one. 1 when the block is whole, 0 when more is
 * needed, -1 when it is too large. A block that came in one piece is not copied.
 */
static int take_block(struct h1_reader *reader, struct bytes *input, size_t most,
		      struct bytes *ret_block)
{
	size_t len = find_block_end(reader, *input);
	struct bytes part = bytes_take(input, len ? len : input->len);

	if (reader->text.len + part.len > most)
		return -1;
	if (len && reader->text.len == 0) {
		*ret_block = part;
		return 1;
	}
	buf_add(&reader->text, part.data, part.len);
	if (!len)
		return 0;
	*ret_block = (struct bytes){ reader->text.data, reader->text.len };
	reader->is_text_used = true;
	return 1;
}

/* Where the body begins, by the head's framing. */
static void enter_body(struct h1_reader *reader, const struct http_head *head)
{
	static const enum h1_state states[] = {
		[FRAMING_NONE] = H1_STATE_OVER,
		[FRAMING_LENGTH] = H1_STATE_BODY,
		[FRAMING_CHUNKED] = H1_STATE_CHUNK_LINE,
		[FRAMING_CLOSE] = H1_STATE_BODY_CLOSE,
	};

	reader->left = head->framing == FRAMING_LENGTH ? head->length : 0;
	reader->state = states[head->framing];
}

/*
 * One empty line before a request is a leftover of old clients and skipped (RFC 9112
 * 2.2); a second one is a fault like any other first line.
 */
static bool skips_empty_line(struct h1_reader *reader, struct bytes block)
{
	if (reader->is_reply || reader->has_skipped || block.len != 2)
		return false;
	reader->has_skipped = true;
	return true;
}

static enum h1_event read_head(struct h1_reader *reader, struct bytes *input,
			       struct h1_result *result)
{
	struct bytes block;
	int whole = take_block(reader, input, HTTP_HEAD_MAX, &block);

	if (whole < 0)
		return fail(reader, FAULT_HEAD_LONG);
	if (whole == 0)
		return H1_NEEDS_MORE;
	if (skips_empty_line(reader, block)) {
		reader->text.len = 0;
		reader->is_text_used = false;
		return H1_NEEDS_MORE;
	}
	reader->fault = reader->is_reply
				? http_read_reply(block, reader->answers_head, &result->head)
				: http_read_request(block, &result->head);
	if (reader->fault)
		return fail(reader, reader->fault);
	enter_body(reader, &result->head);
	return H1_HEAD;
}

static enum h1_event read_trailer(struct h1_reader *reader, struct bytes *input,
				  struct h1_result *result)
{
	struct bytes block;
	int whole = take_block(reader, input, HTTP_TRAILER_MAX, &block);
	enum http_fault fault;

	if (whole < 0)
		return fail(reader, FAULT_TRAILER_LONG);
	if (whole == 0)
		return H1_NEEDS_MORE;
	http_head_clear(&result->head);
	fault = http_read_fields(block, &result->head);
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

/* One byte of size [; extensions] CR LF. Extensions are skipped, but not any byte in them. */
static enum http_fault read_chunk_byte(struct h1_reader *reader, char c)
{
	int digit = hex_digit(c);

	if (++reader->line_len > HTTP_CHUNK_LINE_MAX)
		return FAULT_CHUNK_LONG;
	if (reader->has_cr || c == '\n')
		return reader->has_cr && c == '\n' ? FAULT_NONE : FAULT_LINE_END;
	if (c == '\r') {
		reader->has_cr = true;
		return reader->line_len > 1 ? FAULT_NONE : FAULT_CHUNK;
	}
	if (reader->is_extension)
		return (unsigned char)c < 0x20 || (unsigned char)c >= 0x7f ? FAULT_CHUNK
									   : FAULT_NONE;
	if (c == ';') {
		reader->is_extension = true;
		return reader->line_len > 1 ? FAULT_NONE : FAULT_CHUNK;
	}
	/* 15 digits are below HTTP_LENGTH_MAX. */
	if (digit < 0 || reader->line_len > 15)
		return FAULT_CHUNK;
	reader->left = reader->left << 4 | (uint64_t)digit;
	return FAULT_NONE;
}

static enum h1_event read_chunk_line(struct h1_reader *reader, struct bytes *input)
{
	while (input->len > 0) {
		char c = bytes_take(input, 1).data[0];
		enum http_fault fault = read_chunk_byte(reader, c);

		if (fault)
			return fail(reader, fault);
		if (c != '\n')
			continue;
		reader->line_len = 0;
		reader->has_cr = reader->is_extension = false;
		reader->state = reader->left ? H1_STATE_CHUNK_DATA : H1_STATE_TRAILER;
		break;
	}
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

static enum h1_event step(struct h1_reader *reader, struct bytes *input, struct h1_result *result)
{
	switch (reader->state) {
	case H1_STATE_HEAD:
		return read_head(reader, input, result);
	case H1_STATE_BODY:
		return read_data(reader, input, &result->data, H1_STATE_OVER);
	case H1_STATE_BODY_CLOSE:
		result->data = bytes_take(input, input->len);
		return H1_DATA;
	case H1_STATE_CHUNK_LINE:
		return read_chunk_line(reader, input);
	case H1_STATE_CHUNK_DATA:
		return read_data(reader, input, &result->data, H1_STATE_CHUNK_END);
	case H1_STATE_CHUNK_END:
		return read_chunk_end(reader, input);
	case H1_STATE_TRAILER:
		return read_trailer(reader, input, result);
	case H1_STATE_OVER:
	case H1_STATE_FAULT:
		break;
	}
	return H1_BROKEN;
}

enum h1_event h1_read(struct h1_reader *reader, struct bytes *input, struct h1_result *result)
{
	enum h1_event event = H1_NEEDS_MORE;

	if (reader->is_text_used) {
		buf_fini(&reader->text);
		reader->is_text_used = false;
	}
	if (reader->state == H1_STATE_OVER) {
		http_head_clear(&result->head);
		return H1_END;
	}
	if (reader->state == H1_STATE_FAULT)
		return H1_BROKEN;
	while (event == H1_NEEDS_MORE && input->len > 0)
		event = step(reader, input, result);
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
