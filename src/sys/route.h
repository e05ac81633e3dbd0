/* SPDX-License-Identifier: MIT */
/* Routes by rtnetlink, without an allocation. */
#ifndef SYS_ROUTE_H
#define SYS_ROUTE_H

#include <stdbool.h>

#include "base/attr.h"

/*
 * Makes every address of the current network namespace a local one: `local 0.0.0.0/0 dev lo`
 * and `local ::/0 dev lo`. The loopback interface must be up. A kernel without IPv6, or with
 * IPv6 turned off, is no error: *ret_has_v6 is false then, and no IPv6 address is reachable.
 * 0 or -errno.
 */
int route_all_local(bool *ret_has_v6) must_check;

#endif
