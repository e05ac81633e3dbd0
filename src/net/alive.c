/* SPDX-License-Identifier: MIT */
/* The kernel's own means: probes while nothing is sent, a limit for what is not acknowledged. */
#include "net/alive.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define IDLE_S     10
#define INTERVAL_S 5
#define PROBES     ((ALIVE_MS / 1000 - IDLE_S) / INTERVAL_S)

int alive_watch(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, INTERVAL_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, ALIVE_MS },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)) < 0)
			return -errno;
	return 0;
}
