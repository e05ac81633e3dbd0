/* SPDX-License-Identifier: MIT */
/*
 * The keys of WebSocket's handshake (RFC 6455 4), by which a server shows that it has understood.
 * They are here because of SHA-1, which http does not know; it protects nothing.
 */
#ifndef TLS_WS_KEY_H
#define TLS_WS_KEY_H

#include "base/bytes.h"

#define WS_KEY_TEXT_LEN    24 /* base64 of 16 bytes ... */
#define WS_ACCEPT_TEXT_LEN 28 /* ... and of a digest */

/* A client's Sec-WebSocket-Key, with a NUL. */
void ws_key_make(char *ret_text);

/* Whether it is one: base64 of 16 bytes, in the one way to write them. */
bool ws_key_is_valid(struct bytes key);

/* The Sec-WebSocket-Accept that belongs to a valid one, with a NUL. */
void ws_key_accept(struct bytes key, char *ret_text);

#endif
