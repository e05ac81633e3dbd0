/* SPDX-License-Identifier: MIT */
/* base64url. */
#include "base/base64.h"

void base64_format(const unsigned char *bytes, size_t len, char *ret_text)
{
	static const char
		digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned int bits = 0, count = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | bytes[i];
		for (count += 8; count >= 6; count -= 6)
			*ret_text++ = digits[bits >> (count - 6) & 63];
	}
	if (count > 0)
		*ret_text++ = digits[bits << (6 - count) & 63];
	*ret_text = '\0';
}
