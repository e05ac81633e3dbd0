/* SPDX-License-Identifier: MIT */
/*
 * Decoders on any bytes: within their limits, and the same however the bytes are cut. And what
 * an encoder makes of them is read back. The input: the coding, the size of the pieces, the room.
 */
#include <errno.h>

#include "base/buf.h"
#include "http/encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOM_MAX (256 + ENCODING_ROOM_MIN)

static const struct encoding_limits limits = { 1 << 20, 100 };

static int decode(enum encoding encoding, struct bytes coded, size_t piece, size_t room,
		  struct buf *out)
{
	struct decoder *decoder = decoder_new(encoding, &limits);
	int r = ENCODING_NEEDS_INPUT;

	while (r >= 0 && coded.len > 0) {
		struct bytes part = bytes_take(&coded, piece < coded.len ? piece : coded.len);

		do {
			char space[ROOM_MAX];
			size_t len;

			r = decoder_push(decoder, &part, space, room, &len);
			buf_add(out, space, len);
		} while (r == ENCODING_NEEDS_ROOM);
		if (r == ENCODING_NEEDS_INPUT && part.len > 0)
			abort();
	}
	if (r >= 0)
		r = decoder_finish(decoder);
	if (out->len > limits.total_bytes + ROOM_MAX)
		abort();
	decoder_free(decoder);
	return r;
}

static void encode(enum encoding encoding, struct bytes text, size_t piece, size_t room,
		   struct buf *out)
{
	struct encoder *encoder = encoder_new(encoding);
	int r;

	do {
		struct bytes part = bytes_take(&text, piece < text.len ? piece : text.len);
		enum encoding_flush flush = text.len ? ENCODING_FLUSH : ENCODING_FINISH;

		do {
			char space[ROOM_MAX];
			size_t len;

			r = encoder_push(encoder, &part, flush, space, room, &len);
			buf_add(out, space, len);
		} while (r == ENCODING_NEEDS_ROOM);
		if (r < 0)
			abort();
	} while (r != ENCODING_OVER);
	encoder_free(encoder);
}

static bool is_same(const struct buf *a, const void *data, size_t len)
{
	return a->len == len && (len == 0 || memcmp(a->data, data, len) == 0);
}

static void check_decoding(enum encoding encoding, struct bytes input, size_t piece, size_t room)
{
	struct buf whole, pieces;
	int r, again;

	buf_init(&whole, 4 << 20);
	buf_init(&pieces, 4 << 20);
	r = decode(encoding, input, input.len, ROOM_MAX, &whole);
	again = decode(encoding, input, piece, room, &pieces);
	/* In pieces more of the output comes before all of the input has: the ratio may differ. */
	if (r != again && r != -E2BIG && again != -E2BIG)
		abort();
	if (r == 0 && again == 0 && !is_same(&whole, pieces.data, pieces.len))
		abort();
	buf_fini(&whole);
	buf_fini(&pieces);
}

static void check_encoding(enum encoding encoding, struct bytes input, size_t piece, size_t room)
{
	struct buf coded, decoded;

	buf_init(&coded, 4 << 20);
	buf_init(&decoded, 4 << 20);
	encode(encoding, input, piece, room + ENCODING_ROOM_MIN, &coded);
	if (decode(encoding, (struct bytes){ coded.data, coded.len }, piece, room, &decoded) != 0 ||
	    !is_same(&decoded, input.data, input.len))
		abort();
	buf_fini(&coded);
	buf_fini(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size }, head;
	enum encoding encoding;
	size_t piece, room;

	if (size < 4)
		return 0;
	head = bytes_take(&input, 3);
	encoding = (enum encoding)((uint8_t)head.data[0] % 4 + ENCODING_GZIP);
	piece = (uint8_t)head.data[1] + 1U;
	room = (uint8_t)head.data[2];
	room = room ? room : 1;
	if ((uint8_t)head.data[0] & 0x80)
		check_encoding(encoding, input, piece, room);
	else
		check_decoding(encoding, input, piece, room);
	return 0;
}
