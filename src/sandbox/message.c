/* SPDX-License-Identifier: MIT */
/* Messages as packets, descriptors as ancillary data. */
#include "sandbox/message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

int message_send(int socket_fd, const struct message *message, int fd)
{
	struct iovec part = { .iov_base = (void *)message, .iov_len = sizeof(*message) };
	union control control = { .space = { 0 } };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		packet.msg_control = control.space;
		packet.msg_controllen = sizeof(control.space);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	while (sendmsg(socket_fd, &packet, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int message_receive(int socket_fd, struct message *ret_message, int *ret_fd)
{
	struct iovec part = { .iov_base = ret_message, .iov_len = sizeof(*ret_message) };
	union control control;
	struct msghdr packet = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *header;
	bool was_reset = false;
	ssize_t n;

	*ret_fd = -1;
	do {
		n = recvmsg(socket_fd, &packet, MSG_CMSG_CLOEXEC);
		/*
		 * A peer that ended with our message unread is reported as a reset, once,
		 * before the last words it sent.
		 */
		was_reset = n < 0 && errno == ECONNRESET && !was_reset;
	} while (was_reset || (n < 0 && errno == EINTR));
	if (n < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&packet);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	if (n == 0)
		return -EPIPE;
	if ((size_t)n != sizeof(*ret_message) || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		close_fd(ret_fd);
		return -EPROTO;
	}
	ret_message->err.text[sizeof(ret_message->err.text) - 1] = '\0';
	return 0;
}
