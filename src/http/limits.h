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

/* HTTP/2: of one connection. */
#define H2_STREAMS_MAX   100
#define H2_WINDOW        65536     /* of a stream, unless the owner can hold more */
#define H2_WINDOW_ALL    (1 << 20) /* of the connection; given back at once */
#define H2_OUT_MAX       65536     /* pending bytes beyond which no frame is made */
#define H2_QUEUE_MAX     1024      /* frames that wait for room to be made */
#define H2_CONTINUATIONS 8
#define H2_BLOCK_MAX     262144    /* of a head that is refused: no peer goes on so far */
#define H2_LATE_MAX      (1 << 20) /* bytes of a request that come after its reply */
#define H2_WASTE_MAX     1000      /* frames that move nothing, at once; and then ... */
#define H2_WASTE_RATE    50        /* ... so many in a second */

#endif
