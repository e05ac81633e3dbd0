/* SPDX-License-Identifier: MIT */
/* base64url without padding (RFC 4648 section 5). */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>

#define BASE64_LEN(n) (((n)*8 + 5) / 6)

/* Writes BASE64_LEN(len) characters and a NUL. */
void base64_format(const unsigned char *bytes, size_t len, char *ret_text);

#endif
