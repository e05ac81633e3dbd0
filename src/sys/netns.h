/* SPDX-License-Identifier: MIT */
/* The network namespace of a run. */
#ifndef SYS_NETNS_H
#define SYS_NETNS_H

#include <stdint.h>

#include "base/attr.h"

/* Brings up the loopback interface of the current namespace. */
int netns_loopback_up(void) must_check;

/*
 * A TCP listener on this port of the loopback address of AF_INET or AF_INET6, which does not
 * block and is closed at exec; or -errno.
 */
int netns_listen(int family, uint16_t port) must_check;

#endif
