/* SPDX-License-Identifier: MIT */
/* Which addresses a name may lead to when nobody mapped it (INV-NETWORK-DENY). */
#ifndef POLICY_ADDRESS_H
#define POLICY_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * True only for addresses of the public internet: nothing of this machine, of its networks or
 * of its cloud, and no IPv6 form of an IPv4 address that is not public itself. False for
 * families other than IPv4 and IPv6. `address` is as large as its family says.
 */
bool address_is_public(const struct sockaddr *address);

#endif
