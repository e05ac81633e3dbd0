/* SPDX-License-Identifier: MIT */
/* Content codings: what is written is read, however it is cut, and never more than allowed. */
#include <stdlib.h>
#include <zlib.h>

#include "unit.h"

#include "base/buf.h"
#include "http/encoding.h"

static const enum encoding all[] = { ENCODING_GZIP, ENCODING_DEFLATE, ENCODING_BR, ENCODING_ZSTD };
static const struct encoding_limits generous = { UINT64_MAX, 100000 };

/* Encodes in pieces, with a buffer that is often too small. */
static void encode(enum encoding encoding, struct bytes text, size_t piece, size_t room,
		   struct buf *out)
{
	struct encoder *encoder = encoder_new(encoding);
	int state;

	do {
		struct bytes part = bytes_take(&text, piece < text.len ? piece : text.len);
		enum encoding_flush flush = text.len == 0  ? ENCODING_FINISH
					    : text.len % 2 ? ENCODING_FLUSH
							   : ENCODING_GATHER;

		do {
			char space[4096];
			size_t len;

			state = encoder_push(encoder, &part, flush, space, room, &len);
			assert_in_range(state, ENCODING_NEEDS_INPUT, ENCODING_OVER);
			assert_true(len <= room);
			buf_add(out, space, len);
		} while (state == ENCODING_NEEDS_ROOM);
		assert_int_equal(part.len, 0);
	} while (state != ENCODING_OVER);
	encoder_free(encoder);
}

static int decode(enum encoding encoding, struct bytes coded, size_t piece, size_t room,
		  const struct encoding_limits *limits, struct buf *out)
{
	struct decoder *decoder = decoder_new(encoding, limits);
	int state = ENCODING_NEEDS_INPUT;

	while (state >= 0 && coded.len > 0) {
		struct bytes part = bytes_take(&coded, piece < coded.len ? piece : coded.len);

		do {
			char space[4096];
			size_t len;

			state = decoder_push(decoder, &part, space, room, &len);
			assert_true(len <= room);
			buf_add(out, space, len);
		} while (state == ENCODING_NEEDS_ROOM);
		if (state == ENCODING_NEEDS_INPUT)
			assert_int_equal(part.len, 0);
	}
	if (state >= 0)
		state = decoder_finish(decoder);
	decoder_free(decoder);
	return state;
}

static void fill(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text[i] = rand() % 4 ? (char)('a' + rand() % 4) : (char)rand();
}

static void what_is_written_is_read(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 5000 }, pieces[] = { 1, 7, 1000, 100000 },
			    rooms[] = { 16, 29, 4096 };
	static char text[5000];
	struct buf coded, decoded;

	(void)state;
	srand(1);
	fill(text, sizeof(text));
	buf_init(&coded, 1 << 20);
	buf_init(&decoded, 1 << 20);
	for (size_t i = 0; i < ARRAY_LEN(all) * ARRAY_LEN(sizes) * 4 * 3; i++) {
		enum encoding encoding = all[i % 4];
		size_t size = sizes[i / 4 % 4], piece = pieces[i / 16 % 4], room = rooms[i / 64];

		coded.len = decoded.len = 0;
		encode(encoding, (struct bytes){ text, size }, piece, room, &coded);
		assert_true(coded.len > 0);
		assert_int_equal(decode(encoding, (struct bytes){ coded.data, coded.len }, piece,
					room - 15, &generous, &decoded),
				 0);
		assert_int_equal(decoded.len, size);
		assert_memory_equal(decoded.data ? decoded.data : "", text, size);
	}
	buf_fini(&coded);
	buf_fini(&decoded);
}

/* An event of a stream is read when it has come, not when the next one has. */
static void what_is_flushed_is_there(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct encoder *encoder = encoder_new(all[i]);
		struct decoder *decoder = decoder_new(all[i], &generous);

		for (int event = 0; event < 3; event++) {
			struct bytes text = BYTES("data: {\"token\":1}\n\n"), coded;
			char middle[256], end[256];
			size_t len;

			assert_int_equal(encoder_push(encoder, &text, ENCODING_FLUSH, middle,
						      sizeof(middle), &len),
					 ENCODING_NEEDS_INPUT);
			coded = (struct bytes){ middle, len };
			assert_int_equal(decoder_push(decoder, &coded, end, sizeof(end), &len),
					 ENCODING_NEEDS_INPUT);
			assert_int_equal(len, 19);
			assert_memory_equal(end, "data: {\"token\":1}\n\n", 19);
			assert_int_equal(decoder_finish(decoder), -EBADMSG);
		}
		encoder_free(encoder);
		decoder_free(decoder);
	}
}

static void what_is_cut_short_is_no_end(void **state)
{
	struct bytes text = BYTES("some text that is long enough to be cut in several places");
	struct buf coded, decoded;

	(void)state;
	buf_init(&coded, 1 << 16);
	buf_init(&decoded, 1 << 16);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		coded.len = 0;
		encode(all[i], text, 100, 4096, &coded);
		for (size_t len = 1; len < coded.len; len++)
			assert_int_equal(decode(all[i], (struct bytes){ coded.data, len }, 10, 100,
						&generous, &decoded),
					 -EBADMSG);
		/* Nothing at all is no body. */
		assert_int_equal(decode(all[i], (struct bytes){ coded.data, 0 }, 10, 100, &generous,
					&decoded),
				 0);
	}
	buf_fini(&coded);
	buf_fini(&decoded);
}

static void nothing_may_follow_the_end(void **state)
{
	struct buf coded, decoded;

	(void)state;
	buf_init(&coded, 1 << 16);
	buf_init(&decoded, 1 << 16);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		coded.len = 0;
		encode(all[i], BYTES("text"), 100, 4096, &coded);
		buf_add(&coded, "garbage that follows", 20);
		for (size_t piece = 1; piece < 60; piece += 7)
			assert_int_equal(decode(all[i], (struct bytes){ coded.data, coded.len },
						piece, 100, &generous, &decoded),
					 -EBADMSG);
	}
	buf_fini(&coded);
	buf_fini(&decoded);
}

/* RFC 1952 2.2 and RFC 8878 3.1: as if they were one. */
static void members_and_frames_are_joined(void **state)
{
	static const enum encoding repeated[] = { ENCODING_GZIP, ENCODING_ZSTD };
	struct buf coded, decoded;

	(void)state;
	buf_init(&coded, 1 << 16);
	buf_init(&decoded, 1 << 16);
	for (size_t i = 0; i < ARRAY_LEN(repeated); i++) {
		coded.len = 0;
		encode(repeated[i], BYTES("one "), 100, 4096, &coded);
		encode(repeated[i], BYTES(""), 100, 4096, &coded);
		encode(repeated[i], BYTES("two"), 100, 4096, &coded);
		for (size_t piece = 1; piece < 60; piece += 7) {
			decoded.len = 0;
			assert_int_equal(decode(repeated[i],
						(struct bytes){ coded.data, coded.len }, piece, 2,
						&generous, &decoded),
					 0);
			assert_int_equal(decoded.len, 7);
			assert_memory_equal(decoded.data, "one two", 7);
		}
	}
	buf_fini(&coded);
	buf_fini(&decoded);
}

/* Some servers leave zlib's format out. */
static void bare_deflate_is_read_too(void **state)
{
	struct bytes text = BYTES("hello hello hello hello");
	char coded[128];
	struct buf decoded;
	z_stream z = { .next_in = (Bytef *)text.data,
		       .avail_in = (uInt)text.len,
		       .next_out = (Bytef *)coded,
		       .avail_out = sizeof(coded) };

	(void)state;
	buf_init(&decoded, 1 << 16);
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	assert_int_equal(decode(ENCODING_DEFLATE, (struct bytes){ coded, z.total_out }, 1, 100,
				&generous, &decoded),
			 0);
	assert_int_equal(decoded.len, text.len);
	assert_memory_equal(decoded.data, text.data, text.len);
	buf_fini(&decoded);
}

/* INV-BOUNDED: a small body that says it is a large one. */
static void bombs_are_noticed(void **state)
{
	static char zeros[8 << 20];
	struct encoding_limits by_ratio = { UINT64_MAX, 20 }, by_total = { 1 << 20, 1 << 20 };
	struct buf coded, decoded;

	(void)state;
	buf_init(&coded, 1 << 20);
	buf_init(&decoded, 16 << 20);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct bytes input;

		coded.len = 0;
		encode(all[i], (struct bytes){ zeros, sizeof(zeros) }, sizeof(zeros), 4096, &coded);
		assert_true(coded.len < sizeof(zeros) / 100);
		input = (struct bytes){ coded.data, coded.len };
		decoded.len = 0;
		assert_int_equal(decode(all[i], input, 1000, 4096, &by_ratio, &decoded), -E2BIG);
		assert_true(decoded.len <= ENCODING_FREE_BYTES + coded.len * 20 + 4096);
		decoded.len = 0;
		assert_int_equal(decode(all[i], input, 1000, 4096, &by_total, &decoded), -E2BIG);
		assert_true(decoded.len <= (1 << 20) + 4096);
		decoded.len = 0;
		assert_int_equal(decode(all[i], input, 1000, 4096, &generous, &decoded), 0);
		assert_int_equal(decoded.len, sizeof(zeros));
	}
	buf_fini(&coded);
	buf_fini(&decoded);
}

static void lists_of_codings_are_read(void **state)
{
	static const struct {
		const char *value;
		int result;
		enum encoding encoding;
	} rows[] = {
		{ "", 0, ENCODING_IDENTITY },
		{ "identity", 0, ENCODING_IDENTITY },
		{ "gzip", 0, ENCODING_GZIP },
		{ "X-GZip", 0, ENCODING_GZIP },
		{ " br\t", 0, ENCODING_BR },
		{ ",zstd, ,identity", 0, ENCODING_ZSTD },
		{ "identity, deflate", 0, ENCODING_DEFLATE },
		{ "gzip, br", -ENOTSUP, 0 },
		{ "gzip, gzip", -ENOTSUP, 0 },
		{ "compress", -ENOTSUP, 0 },
		{ "gzip;q=1", -EINVAL, 0 },
		{ "gz ip", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum encoding encoding;

		assert_int_equal(encoding_parse(bytes_of(rows[i].value), &encoding),
				 rows[i].result);
		if (rows[i].result == 0)
			assert_int_equal(encoding, rows[i].encoding);
	}
	assert_string_equal(encoding_name(ENCODING_GZIP), "gzip");
	assert_string_equal(encoding_name(ENCODING_ZSTD), "zstd");
}

static void only_what_can_be_read_is_accepted(void **state)
{
	static const struct {
		const char *value, *result;
	} rows[] = {
		{ "gzip, deflate, br, zstd", "gzip, deflate, br, zstd" },
		{ "gzip;q=0.5 , compress, br ;q=1", "gzip;q=0.5, br ;q=1" },
		{ "dcb, dcz, x-gzip", "x-gzip" },
		{ "*", "identity" },
		{ "", "identity" },
		{ "identity;q=0, *;q=0", "identity;q=0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf out;

		buf_init(&out, 4096);
		encoding_filter_accepted(bytes_of(rows[i].value), &out);
		buf_add(&out, "", 1);
		assert_string_equal(out.data, rows[i].result);
		buf_fini(&out);
	}
}

int main(void)
{
	RUN_TESTS(TEST(what_is_written_is_read), TEST(what_is_flushed_is_there),
		  TEST(what_is_cut_short_is_no_end), TEST(nothing_may_follow_the_end),
		  TEST(members_and_frames_are_joined), TEST(bare_deflate_is_read_too),
		  TEST(bombs_are_noticed), TEST(lists_of_codings_are_read),
		  TEST(only_what_can_be_read_is_accepted));
}
