/* SPDX-License-Identifier: MIT */
/* Network namespace set-up. */
#include "sys/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* linux/in6.h, which does not go with netinet/in.h */
#endif

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

static int turn_on(int fd, int level, int option)
{
	const int one = 1;

	return setsockopt(fd, level, option, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int bind_v4(int fd, uint16_t port, bool is_loopback)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(is_loopback ? INADDR_LOOPBACK : INADDR_ANY),
	};

	return bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static int bind_v6(int fd, uint16_t port, bool is_loopback)
{
	const struct sockaddr_in6 address = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = is_loopback ? in6addr_loopback : in6addr_any,
	};
	int r = turn_on(fd, IPPROTO_IPV6, IPV6_V6ONLY);

	if (r < 0)
		return r;
	return bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static int open_bound(int family, int type, uint16_t port, bool is_loopback, bool is_shared)
{
	_cleanup_close_ int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = is_shared ? turn_on(fd, SOL_SOCKET, SO_REUSEPORT) : 0;
	if (r == 0)
		r = family == AF_INET ? bind_v4(fd, port, is_loopback)
				      : bind_v6(fd, port, is_loopback);
	return r < 0 ? r : take_fd(&fd);
}

static int open_listener(int family, uint16_t port, bool is_loopback, bool is_shared)
{
	_cleanup_close_ int fd = open_bound(family, SOCK_STREAM, port, is_loopback, is_shared);
	int r;

	if (fd < 0)
		return take_fd(&fd);
	/* What is accepted has it, too: a reply's end must not wait for the agent's ACK. */
	r = turn_on(fd, IPPROTO_TCP, TCP_NODELAY);
	if (r < 0)
		return r;
	return listen(fd, SOMAXCONN) < 0 ? -errno : take_fd(&fd);
}

int netns_listen(int family, uint16_t port)
{
	return open_listener(family, port, true, false);
}

int netns_listen_port(int family, uint16_t port)
{
	return open_listener(family, port, false, true);
}

int netns_listen_beside(int family, uint16_t port)
{
	return open_listener(family, port, true, true);
}

int netns_bind_udp(int family, uint16_t port)
{
	return open_bound(family, SOCK_DGRAM, port, true, false);
}

int netns_bind_udp_port(int family, uint16_t port)
{
	_cleanup_close_ int fd = open_bound(family, SOCK_DGRAM, port, false, false);
	int r;

	if (fd < 0)
		return take_fd(&fd);
	if (family == AF_INET) {
		r = turn_on(fd, IPPROTO_IP, IP_PKTINFO);
	} else {
		r = turn_on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
		/* So that a reply may come from an address that no interface has. */
		if (r == 0)
			r = turn_on(fd, IPPROTO_IPV6, IPV6_FREEBIND);
	}
	return r < 0 ? r : take_fd(&fd);
}

/* As <linux/ipv6.h> has it, which clashes with libc's own headers. */
struct address_request {
	struct in6_addr address;
	uint32_t prefix_len;
	int interface;
};

static int add_v6_address(void)
{
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct address_request request = { .prefix_len = 128 };

	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : -errno;
	request.interface = (int)if_nametoindex("lo");
	if (inet_pton(AF_INET6, NETNS_RESOLVER_V6, &request.address) != 1)
		return -EINVAL;
	if (ioctl(fd, SIOCSIFADDR, &request) < 0 && errno != EEXIST && errno != EACCES &&
	    errno != EADDRNOTAVAIL && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

int netns_add_addresses(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_flags = 0 };
	struct sockaddr_in address = { .sin_family = AF_INET };

	if (fd < 0)
		return -errno;
	memcpy(request.ifr_name, "lo:1", sizeof("lo:1"));
	if (inet_pton(AF_INET, NETNS_RESOLVER, &address.sin_addr) != 1)
		return -EINVAL;
	memcpy(&request.ifr_addr, &address, sizeof(address));
	if (ioctl(fd, SIOCSIFADDR, &request) < 0)
		return -errno;
	/* In a network of class C, the address of some name would be one for broadcasts. */
	address.sin_addr.s_addr = htonl(INADDR_NONE);
	memcpy(&request.ifr_netmask, &address, sizeof(address));
	if (ioctl(fd, SIOCSIFNETMASK, &request) < 0)
		return -errno;
	return add_v6_address();
}
