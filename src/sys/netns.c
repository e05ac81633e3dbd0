/* SPDX-License-Identifier: MIT */
/* Network namespace set-up. */
#include "sys/netns.h"

#include <errno.h>
#include <net/if.h>
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
