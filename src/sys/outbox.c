/* SPDX-License-Identifier: MIT */
/* Packets that wait. */
#include "sys/outbox.h"

#include <errno.h>

void outbox_init(struct outbox *outbox)
{
	buf_init(&outbox->packets, OUTBOX_MAX);
	outbox->start = 0;
}

void outbox_fini(struct outbox *outbox)
{
	buf_fini(&outbox->packets);
	outbox->start = 0;
}

int outbox_flush(struct outbox *outbox, int fd)
{
	int r = 0;

	while (r == 0 && outbox_len(outbox) > 0) {
		const char *packet = outbox->packets.data + outbox->start;
		uint32_t len;

		memcpy(&len, packet, sizeof(len));
		packet += sizeof(len);
		r = status_send_bytes(fd, (enum status_type)packet[0],
				      (struct bytes){ packet + 1, len - 1 });
		if (r == 0)
			outbox->start += sizeof(len) + len;
	}
	if (outbox_len(outbox) == 0)
		outbox_fini(outbox); /* its memory is needed no more */
	return r == -EAGAIN ? 0 : r;
}

int outbox_send(struct outbox *outbox, int fd, enum status_type type, struct bytes text)
{
	uint32_t len = (uint32_t)text.len + 1;
	char letter = (char)type;
	int r = outbox_len(outbox) > 0 ? -EAGAIN : status_send_bytes(fd, type, text);

	if (r != -EAGAIN)
		return r;
	if (sizeof(len) + len > OUTBOX_MAX - outbox->packets.len)
		return -E2BIG;
	buf_add(&outbox->packets, (const char *)&len, sizeof(len));
	buf_add(&outbox->packets, &letter, 1);
	buf_add(&outbox->packets, text.data, text.len);
	return 0;
}
