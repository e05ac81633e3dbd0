/* SPDX-License-Identifier: MIT */
/* Asks connection tracking, which has no header for user space that compiles beside libc's. */
#include "net/origdst.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST */

int origdst_get(int fd, struct sockaddr_storage *ret_address)
{
	int family;
	socklen_t len = sizeof(family);

	memset(ret_address, 0, sizeof(*ret_address));
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0)
		return -errno;
	len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (getsockopt(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, ORIGINAL_DST, ret_address,
		       &len) < 0)
		return -errno;
	return 0;
}
