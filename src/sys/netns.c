/* SPDX-License-Identifier: MIT */
/* Network namespace set-up. */
#include "sys/netns.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int netns_loopback_up(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0)
		return -errno;
	memcpy(request.ifr_name, "lo", sizeof("lo"));
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return -errno;
	return 0;
}

int netns_listen(int family, uint16_t port)
{
	_cleanup_close_ int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address = { .any = { .sa_family = (sa_family_t)family } };
	socklen_t len = family == AF_INET ? sizeof(address.v4) : sizeof(address.v6);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (family == AF_INET) {
		address.v4.sin_port = htons(port);
		address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else {
		address.v6.sin6_port = htons(port);
		address.v6.sin6_addr = in6addr_loopback;
		if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
			return -errno;
	}
	if (bind(fd, &address.any, len) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return take_fd(&fd);
}
