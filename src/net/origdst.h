/* SPDX-License-Identifier: MIT */
/* Where a connection was going before the kernel redirected it. */
#ifndef NET_ORIGDST_H
#define NET_ORIGDST_H

#include <sys/socket.h>

#include "base/attr.h"

/*
 * The destination that whoever connected asked for, of a socket accepted from a listener that
 * nft_redirect() sends connections to; from whichever namespace. 0 or -errno. A connection that
 * was made to the listener itself has the listener's own address, or is -ENOENT: there is no
 * destination then, and it must be refused.
 */
int origdst_get(int fd, struct sockaddr_storage *ret_address) must_check;

#endif
