/* SPDX-License-Identifier: MIT */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Length of the valid sequence at the start of `s`, or 0 when there is none. */
size_t utf8_sequence(const char *s, size_t len);

/*
 * The longest prefix of `s` that does not end in the middle of a sequence.
 * Bytes that are not UTF-8 anyway are left alone.
 */
size_t utf8_cut(const char *s, size_t len);

#endif
