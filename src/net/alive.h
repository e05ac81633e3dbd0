/* SPDX-License-Identifier: MIT */
/* Connections that stand for long: they end when the other machine is gone without a word. */
#ifndef NET_ALIVE_H
#define NET_ALIVE_H

#include "base/attr.h"

#define ALIVE_MS 30000 /* a network that is dead for so long is noticed, about */

/* For a TCP connection: it is looked after, and small writes go out at once. 0 or -errno. */
int alive_watch(int fd) must_check;

#endif
