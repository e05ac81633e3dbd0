/* SPDX-License-Identifier: MIT */
/* Where a message ends. */
#include "message.h"

#include <stdlib.h>
#include <string.h>

void message_begin(struct message *message)
{
	message->state = MESSAGE_HEAD;
	message->head_len = 0;
	message->body_left = 0;
	message->is_chunked = false;
	memset(message->tail, 0, sizeof(message->tail));
}

static void parse_head(struct message *message)
{
	const char *length = strcasestr(message->head, "\r\ncontent-length:");

	if (length)
		message->body_left = strtoull(length + 17, NULL, 10);
	else
		message->is_chunked = strcasestr(message->head, "\r\ntransfer-encoding: chunked") !=
				      NULL;
}

/* The bodies of a benchmark never have an empty last chunk's bytes in them. */
static bool ends_chunked(struct message *message, const char *data, size_t len)
{
	size_t n = len < sizeof(message->tail) ? len : sizeof(message->tail);

	memmove(message->tail, message->tail + n, sizeof(message->tail) - n);
	memcpy(message->tail + sizeof(message->tail) - n, data + len - n, n);
	return memcmp(message->tail, "0\r\n\r\n", sizeof(message->tail)) == 0;
}

static enum message_state push_body(struct message *message, const char *data, size_t len)
{
	bool is_done;

	if (message->is_chunked) {
		is_done = len > 0 && ends_chunked(message, data, len);
	} else {
		message->body_left -= len < message->body_left ? len : message->body_left;
		is_done = message->body_left == 0;
	}
	return message->state = is_done ? MESSAGE_DONE : MESSAGE_BODY;
}

enum message_state message_push(struct message *message, const char *data, size_t len)
{
	size_t room = MESSAGE_HEAD_MAX - message->head_len, n = len < room ? len : room;
	size_t before = message->head_len, head_len;
	char *from, *end;

	if (message->state != MESSAGE_HEAD)
		return push_body(message, data, len);
	memcpy(message->head + before, data, n);
	message->head_len += n;
	from = message->head + (before > 3 ? before - 3 : 0);
	end = memmem(from, (size_t)(message->head + message->head_len - from), "\r\n\r\n", 4);
	if (!end)
		return message->state = n < len || n == room ? MESSAGE_BROKEN : MESSAGE_HEAD;
	end[2] = '\0';
	head_len = (size_t)(end + 4 - message->head);
	message->head_len = head_len - 2;
	parse_head(message);
	return push_body(message, data + (head_len - before), len - (head_len - before));
}
