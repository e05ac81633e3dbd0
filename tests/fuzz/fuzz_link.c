/* SPDX-License-Identifier: MIT */
/* The link on any bytes, from either side: messages are parsed as their receiver would. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "link/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static union {
	struct link_open open;
	struct link_reply reply;
	struct link_end end;
	struct link_refused refused;
	struct link_names names;
	struct link_notice notice;
} parsed;

/* Written again, what was accepted must be what was sent. */
static void compare(const struct buf *again, struct bytes payload)
{
	if (again->len != payload.len + LINK_HEADER_LEN ||
	    memcmp(again->data + LINK_HEADER_LEN, payload.data, payload.len) != 0)
		abort();
}

static void parse(enum link_type type, struct bytes payload)
{
	struct buf again;
	struct bytes id;
	uint32_t number;

	buf_init(&again, 1 << 20);
	if (type == LINK_OPEN && link_parse_open(payload, &parsed.open) == 0) {
		link_write_open(&again, 1, &parsed.open);
		compare(&again, payload);
	} else if (type == LINK_REPLY && link_parse_reply(payload, &parsed.reply) == 0) {
		link_write_reply(&again, 1, &parsed.reply);
		compare(&again, payload);
	} else if (type == LINK_END && link_parse_end(payload, &parsed.end) == 0) {
		link_write_end(&again, 1, &parsed.end);
		compare(&again, payload);
	} else if (type == LINK_HELLO && link_parse_hello(payload, &id, &number) == 0) {
		link_write_hello(&again, id, number);
		compare(&again, payload);
	} else if (type == LINK_REFUSED && link_parse_refused(payload, &parsed.refused) == 0) {
		link_write_refused(&again, 1, &parsed.refused);
		compare(&again, payload);
	} else if (type == LINK_NAMES && link_parse_names(payload, &parsed.names) == 0) {
		link_write_names(&again, &parsed.names);
		compare(&again, payload);
	} else if (type == LINK_CREDIT && link_parse_credit(payload, &number) == 0) {
		link_write_credit(&again, 1, number);
		compare(&again, payload);
	} else if (type == LINK_TOKEN && link_parse_token(payload, &id) == 0) {
		link_write_token(&again, id);
		compare(&again, payload);
	} else if (type == LINK_NOTICE && link_parse_notice(payload, &parsed.notice) == 0) {
		link_write_notice(&again, &parsed.notice);
		compare(&again, payload);
	}
	buf_fini(&again);
}

/* A carrier breaks off where its receiver would, and leaves out nothing but what is its own. */
static void carry(struct bytes input, enum link_side from, size_t expected)
{
	struct link_reader reader;
	enum link_event event;
	struct bytes payload;
	size_t copied = 0;

	link_reader_init(&reader, from);
	reader.is_carrier = true;
	while ((event = link_read(&reader, &input, &payload)) == LINK_PIECE ||
	       event == LINK_MESSAGE)
		copied += event == LINK_PIECE ? payload.len : LINK_HEADER_LEN + payload.len;
	if (copied < expected)
		abort();
	link_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum link_side from;
	size_t whole = 0;
	struct link_reader reader;
	struct bytes input, payload;
	enum link_event event = LINK_NEEDS_MORE;

	if (size == 0)
		return 0;
	from = data[0] & 1 ? LINK_SIDE_KEEPER : LINK_SIDE_GATE;
	link_reader_init(&reader, from);
	input = (struct bytes){ (const char *)data + 1, size - 1 };
	do {
		event = link_read(&reader, &input, &payload);
		if (event == LINK_MESSAGE)
			parse(reader.type, payload);
		if (event == LINK_MESSAGE || event == LINK_PIECE)
			whole += payload.len + (event == LINK_MESSAGE ? LINK_HEADER_LEN : 0);
	} while (event == LINK_MESSAGE || event == LINK_PIECE);
	link_reader_fini(&reader);
	carry((struct bytes){ (const char *)data + 1, size - 1 }, from, whole);
	return 0;
}
