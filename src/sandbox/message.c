/* SPDX-License-Identifier: MIT */
/* Messages as packets of one size. */
#include "sandbox/message.h"

#include <errno.h>

#include "sys/pass.h"

int message_send(int socket_fd, const struct message *message, int fd)
{
	return pass_send(socket_fd, message, sizeof(*message), fd);
}

int message_receive(int socket_fd, struct message *ret_message, int *ret_fd)
{
	ssize_t n = pass_receive(socket_fd, ret_message, sizeof(*ret_message), ret_fd);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return -EPIPE;
	if ((size_t)n != sizeof(*ret_message)) {
		close_fd(ret_fd);
		return -EPROTO;
	}
	ret_message->err.text[sizeof(ret_message->err.text) - 1] = '\0';
	return 0;
}
