/* SPDX-License-Identifier: MIT */
/* Descriptors as ancillary data. */
#include "sys/pass.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* on most machines, and on all that warder is built for */
#endif

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

int pass_send(int socket_fd, const void *data, size_t len, int fd)
{
	struct iovec part = { .iov_base = (void *)data, .iov_len = len };
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

/*
 * The descriptor that came along, into *ret_fd; how many there were. A packet may bring more than
 * one: where there is room for one, alignment leaves room for two.
 */
static size_t take_passed(struct msghdr *packet, int *ret_fd)
{
	size_t count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(packet); header;
	     header = CMSG_NXTHDR(packet, header)) {
		size_t len = header->cmsg_len - CMSG_LEN(0);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= len; at += sizeof(int), count++) {
			close_fd(ret_fd);
			memcpy(ret_fd, CMSG_DATA(header) + at, sizeof(int));
		}
	}
	return count;
}

ssize_t pass_receive_parts(int socket_fd, struct iovec *parts, size_t count, int *ret_fd)
{
	union control control;
	struct msghdr packet = {
		.msg_iov = parts,
		.msg_iovlen = count,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
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
	if (take_passed(&packet, ret_fd) > 1 || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		close_fd(ret_fd);
		return -EPROTO;
	}
	return n;
}

ssize_t pass_receive(int socket_fd, void *data, size_t size, int *ret_fd)
{
	return pass_receive_parts(socket_fd, &(struct iovec){ data, size }, 1, ret_fd);
}

void pass_refuse(int socket_fd)
{
	(void)setsockopt(socket_fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int));
}
