/* SPDX-License-Identifier: MIT */
/*
 * The HTTP/1 reader on any bytes: it never reads beyond them, and says the same however
 * they are cut. The first byte chooses between request and reply.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/h1_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a reading amounts to, in one number per kind of event. */
struct summary {
	enum http_fault fault;
	uint64_t heads, ends, body_len, body_sum, fields;
};

static void note(struct summary *summary, const struct h1_reader *reader, enum h1_event event,
		 const struct h1_result *result)
{
	switch (event) {
	case H1_HEAD:
		summary->heads++;
		summary->fields += result->head.field_count;
		break;
	case H1_DATA:
		for (size_t i = 0; i < result->data.len; i++)
			summary->body_sum = summary->body_sum * 31 +
					    (unsigned char)result->data.data[i];
		summary->body_len += result->data.len;
		break;
	case H1_END:
		summary->ends++;
		summary->fields += result->head.field_count;
		break;
	case H1_BROKEN:
		summary->fault = reader->fault;
		break;
	case H1_NEEDS_MORE:
		break;
	}
}

static struct summary read_all(const uint8_t *data, size_t size, bool is_reply, size_t piece)
{
	static struct h1_result result;
	struct summary summary = { 0 };
	enum h1_event event = H1_NEEDS_MORE;
	struct h1_reader reader;

	h1_reader_init(&reader, is_reply);
	for (size_t at = 0; at < size && event != H1_BROKEN; at += piece) {
		struct bytes input = { (const char *)data + at,
				       size - at < piece ? size - at : piece };

		while ((input.len > 0 || reader.state == H1_STATE_OVER) && event != H1_BROKEN) {
			event = h1_read(&reader, &input, &result);
			note(&summary, &reader, event, &result);
			if (event == H1_END)
				h1_reader_next(&reader);
		}
	}
	http_head_clear(&result.head);
	if (event != H1_BROKEN)
		note(&summary, &reader, h1_read_end(&reader), &result);
	h1_reader_fini(&reader);
	return summary;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct summary whole, pieces;
	bool is_reply;

	if (size == 0)
		return 0;
	is_reply = data[0] & 1;
	whole = read_all(data + 1, size - 1, is_reply, size);
	pieces = read_all(data + 1, size - 1, is_reply, data[0] / 2 % 7 + 1);
	if (memcmp(&whole, &pieces, sizeof(whole)) != 0)
		abort();
	return 0;
}
