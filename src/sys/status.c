/* SPDX-License-Identifier: MIT */
/* Packets of a keeper's status. */
#include "sys/status.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "sys/pass.h"

int status_send_bytes(int fd, enum status_type type, struct bytes text)
{
	char letter = (char)type;
	struct iovec parts[] = { { &letter, 1 }, { (void *)text.data, text.len } };
	struct msghdr packet = { .msg_iov = parts, .msg_iovlen = 2 };

	while (sendmsg(fd, &packet, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int status_send(int fd, enum status_type type, const char *text)
{
	return status_send_bytes(fd, type, bytes_of(text));
}

int status_send_words(int fd, const char *const *words, size_t count)
{
	struct buf text;
	int r;

	buf_init(&text, STATUS_TEXT_MAX);
	for (size_t i = 0; i < count; i++)
		buf_add(&text, words[i], strlen(words[i]) + 1);
	r = text.len < STATUS_TEXT_MAX
		    ? status_send_bytes(fd, STATUS_WORDS, (struct bytes){ text.data, text.len })
		    : -E2BIG;
	buf_fini(&text);
	return r;
}

int status_receive_passed(int fd, int wait_ms, char *ret_text, size_t *ret_len, int *ret_fd)
{
	char letter = 0;
	struct iovec parts[] = { { &letter, 1 }, { ret_text, STATUS_TEXT_MAX } };
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t n;
	int r;

	*ret_fd = -1;
	do {
		r = poll(&ready, 1, wait_ms);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	n = pass_receive_parts(fd, parts, ARRAY_LEN(parts), ret_fd);
	if (n < 0)
		return n == -ECONNRESET ? 0 : (int)n;
	ret_text[n > 0 ? n - 1 : 0] = '\0';
	if (ret_len)
		*ret_len = n > 0 ? (size_t)n - 1 : 0;
	return n > 0 ? letter : 0;
}

int status_receive(int fd, int wait_ms, char *ret_text, size_t *ret_len)
{
	int passed_fd, type = status_receive_passed(fd, wait_ms, ret_text, ret_len, &passed_fd);

	close_fd(&passed_fd);
	return type;
}
