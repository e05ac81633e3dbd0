/* SPDX-License-Identifier: MIT */
/* Which bytes may stand where. */
#ifndef HTTP_CHARSET_H
#define HTTP_CHARSET_H

#include "base/bytes.h"

/* C0 control characters other than tab, and DEL. */
static inline bool charset_is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* RFC 9110 5.6.2; not empty. */
bool charset_is_token(struct bytes text);

/* Printable ASCII without space, not empty; no fragment (RFC 9112 3.2). */
bool charset_is_target(struct bytes text);

/*
 * host[:port] as RFC 3986 3.2 has it, without user information: a name of letters,
 * digits, '-', '_' and '.', an IPv4 address, or an IPv6 address in brackets; a port of
 * one to five digits up to 65535.
 */
bool charset_is_authority(struct bytes text);

#endif
