/* SPDX-License-Identifier: MIT */
/* Where a message ends, and the sockets of both ends of a benchmark. */
#include "message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

int write_whole(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		struct pollfd room = { .fd = fd, .events = POLLOUT };

		if (n < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (n < 0)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int connect_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int connect_tcp(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *colon = strchr(text, ':');
	char host[INET_ADDRSTRLEN];
	int fd, one = 1;

	snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - text) : 0, text);
	if (!colon || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
		errno = EINVAL;
		return -1;
	}
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int connect_to(const char *target)
{
	if (strncmp(target, "unix:", 5) == 0)
		return connect_unix(target + 5);
	if (strncmp(target, "tcp:", 4) == 0)
		return connect_tcp(target + 4);
	errno = EINVAL;
	return -1;
}
