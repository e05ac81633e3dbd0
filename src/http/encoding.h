/* SPDX-License-Identifier: MIT */
/*
 * Content codings (RFC 9110 8.4): gzip, deflate, br and zstd, read and written as they stream.
 * Bytes in, bytes out into the caller's buffer; what a few bytes may grow to is bounded
 * (INV-BOUNDED).
 */
#ifndef HTTP_ENCODING_H
#define HTTP_ENCODING_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/bytes.h"

enum encoding {
	ENCODING_IDENTITY,
	ENCODING_GZIP,
	ENCODING_DEFLATE,
	ENCODING_BR,
	ENCODING_ZSTD,
};

/*
 * Reads Content-Encoding. -ENOTSUP: a coding that is not known, or one upon another; -EINVAL: not
 * a list of names.
 */
int encoding_parse(struct bytes value, enum encoding *ret_encoding) must_check;

/* Adds what of Accept-Encoding is known here, with its weights; "identity" when that is nothing. */
void encoding_filter_accepted(struct bytes value, struct buf *out);

/* The name, for a field. */
const char *encoding_name(enum encoding encoding);

struct encoding_limits {
	uint64_t total_bytes; /* decoded */
	uint32_t ratio;       /* decoded to coded, over what everyone may have at first */
};

/* What everyone may have, whatever the ratio. */
#define ENCODING_FREE_BYTES 65536

/* How a call has ended. */
enum encoding_state {
	ENCODING_NEEDS_INPUT, /* all input was taken, and what it says was written */
	ENCODING_NEEDS_ROOM,  /* the output is full: call again, even with no more input */
	ENCODING_OVER,        /* of an encoder: the end was written */
};

struct decoder;

/* Any but ENCODING_IDENTITY. */
struct decoder *decoder_new(enum encoding encoding, const struct encoding_limits *limits);
void decoder_free(struct decoder *decoder);

/*
 * Takes from `input` and writes to `out`. A state, -EBADMSG (not of that coding, or more after
 * its end) or -E2BIG (beyond the limits).
 */
int decoder_push(struct decoder *decoder, struct bytes *input, char *out, size_t size,
		 size_t *ret_len) must_check;

/* The input has ended: 0, or -EBADMSG when it should not have. Nothing at all is no body. */
int decoder_finish(const struct decoder *decoder) must_check;

struct encoder;

struct encoder *encoder_new(enum encoding encoding);
void encoder_free(struct encoder *encoder);

/* What else a call is to do. */
enum encoding_flush {
	ENCODING_GATHER, /* nothing: more comes soon */
	ENCODING_FLUSH,  /* all that was put in comes out */
	ENCODING_FINISH, /* that, and the end */
};

/* Less is no room for an encoder: zlib would begin a flush again and again. */
#define ENCODING_ROOM_MIN 16

/*
 * As decoder_push, with at least ENCODING_ROOM_MIN of room; after ENCODING_NEEDS_ROOM again with
 * the same `flush`. -EIO: called after the end.
 */
int encoder_push(struct encoder *encoder, struct bytes *input, enum encoding_flush flush, char *out,
		 size_t size, size_t *ret_len) must_check;

#endif
