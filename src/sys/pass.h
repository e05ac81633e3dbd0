/* SPDX-License-Identifier: MIT */
/* Packets between processes, with a descriptor in their luggage. */
#ifndef SYS_PASS_H
#define SYS_PASS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/attr.h"

/* Sends one packet; `fd` goes along unless it is -1. 0 or -errno. */
int pass_send(int socket_fd, const void *data, size_t len, int fd) must_check;

/*
 * Receives one packet. *ret_fd is what came along, close-on-exec, or -1; the caller owns
 * it. Returns its length, 0 when the other side is gone, or -errno: -EPROTO for a packet
 * larger than `size`, or with more than one descriptor, which are closed.
 */
ssize_t pass_receive(int socket_fd, void *data, size_t size, int *ret_fd) must_check;
ssize_t pass_receive_parts(int socket_fd, struct iovec *parts, size_t count,
			   int *ret_fd) must_check;

/*
 * Nobody is to pass descriptors over this socket, or over those that come from this listener.
 * One that is not taken is closed by the kernel, in the time of whoever reads, and that may be
 * long: a connection can be set to wait for its last bytes. Kernels before 6.16 have no such thing.
 */
void pass_refuse(int socket_fd);

#endif
