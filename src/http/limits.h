/* SPDX-License-Identifier: MIT */
/* Every limit of the HTTP readers (INV-BOUNDED). Reaching one is a fault with a status. */
#ifndef HTTP_LIMITS_H
#define HTTP_LIMITS_H

#include <stdint.h>

#define HTTP_HEAD_MAX       65536 /* start line and fields, with their line ends */
#define HTTP_TARGET_MAX     16384
#define HTTP_FIELDS_MAX     128
#define HTTP_TRAILER_MAX    8192
#define HTTP_CHUNK_LINE_MAX 256 /* size and extensions */
#define HTTP_LENGTH_MAX     (UINT64_C(1) << 62)
#define HTTP_HOST_MAX       255

#endif
