/* SPDX-License-Identifier: MIT */
/* The network namespace of a run. */
#ifndef SYS_NETNS_H
#define SYS_NETNS_H

#include "base/attr.h"

/* Brings up the loopback interface of the current namespace. */
int netns_loopback_up(void) must_check;

#endif
