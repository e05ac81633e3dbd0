/* SPDX-License-Identifier: MIT */
/*
 * Reads content codings. What differs between them is a row of functions; what they have in
 * common, above all the limits, is said once.
 */
#include <errno.h>

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include "base/die.h"
#include "http/encoding.h"

/* RFC 9659: no more may be asked of who reads zstd on the web. */
#define ZSTD_WINDOW_LOG_MAX 23

/* zlib counts in ints. */
#define STEP_MAX (1 << 30)

struct flow {
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t out_len;
};

/* What a step says. */
enum step {
	STEP_MORE,
	STEP_END, /* of a stream, member or frame; what comes next may be another */
	STEP_BROKEN,
};

struct decoding {
	void (*start)(struct decoder *decoder, uint8_t first);
	enum step (*step)(struct decoder *decoder, struct flow *flow);
	void (*stop)(struct decoder *decoder);
	bool may_repeat; /* one stream may follow another */
};

struct decoder {
	const struct decoding *decoding;
	struct encoding_limits limits;
	uint64_t in_bytes, out_bytes;
	bool is_started;
	bool is_within; /* a stream: it must not end here */
	union {
		z_stream z;
		BrotliDecoderState *brotli;
		ZSTD_DCtx *zstd;
	};
};

/* ---- gzip and deflate ---- */

static void start_zlib(struct decoder *decoder, int window_bits)
{
	if (inflateInit2(&decoder->z, window_bits) != Z_OK)
		die_no_memory();
}

static void start_gzip(struct decoder *decoder, uint8_t first)
{
	(void)first;
	start_zlib(decoder, MAX_WBITS + 16);
}

/*
 * It is in zlib's format (RFC 1950), but some servers leave that out. They can be told apart:
 * no encoder begins a bare stream with a byte that is the format's first.
 */
static void start_deflate(struct decoder *decoder, uint8_t first)
{
	bool is_zlib = (first & 0x0f) == Z_DEFLATED && first >> 4 <= 7;

	start_zlib(decoder, is_zlib ? MAX_WBITS : -MAX_WBITS);
}

static enum step step_zlib(struct decoder *decoder, struct flow *flow)
{
	z_stream *z = &decoder->z;
	uInt in_len = (uInt)(flow->in_len < STEP_MAX ? flow->in_len : STEP_MAX);
	uInt out_len = (uInt)(flow->out_len < STEP_MAX ? flow->out_len : STEP_MAX);
	int r;

	/* Between two members nothing is left to do but to begin the next. */
	if (!decoder->is_within && in_len > 0)
		inflateReset(z);
	z->next_in = (Bytef *)flow->in;
	z->avail_in = in_len;
	z->next_out = flow->out;
	z->avail_out = out_len;
	r = inflate(z, Z_NO_FLUSH);
	flow->in += in_len - z->avail_in;
	flow->in_len -= in_len - z->avail_in;
	flow->out += out_len - z->avail_out;
	flow->out_len -= out_len - z->avail_out;
	if (r == Z_MEM_ERROR)
		die_no_memory();
	if (r == Z_STREAM_END)
		return STEP_END;
	return r == Z_OK || r == Z_BUF_ERROR ? STEP_MORE : STEP_BROKEN;
}

static void stop_zlib(struct decoder *decoder)
{
	inflateEnd(&decoder->z);
}

/* ---- br ---- */

static void start_brotli(struct decoder *decoder, uint8_t first)
{
	(void)first;
	decoder->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
	if (!decoder->brotli)
		die_no_memory();
}

static enum step step_brotli(struct decoder *decoder, struct flow *flow)
{
	BrotliDecoderResult r = BrotliDecoderDecompressStream(
		decoder->brotli, &flow->in_len, &flow->in, &flow->out_len, &flow->out, NULL);

	if (r == BROTLI_DECODER_RESULT_SUCCESS)
		return STEP_END;
	return r == BROTLI_DECODER_RESULT_ERROR ? STEP_BROKEN : STEP_MORE;
}

static void stop_brotli(struct decoder *decoder)
{
	BrotliDecoderDestroyInstance(decoder->brotli);
}

/* ---- zstd ---- */

static void start_zstd(struct decoder *decoder, uint8_t first)
{
	(void)first;
	decoder->zstd = ZSTD_createDCtx();
	if (!decoder->zstd)
		die_no_memory();
	ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
}

static enum step step_zstd(struct decoder *decoder, struct flow *flow)
{
	ZSTD_inBuffer in = { flow->in, flow->in_len, 0 };
	ZSTD_outBuffer out = { flow->out, flow->out_len, 0 };
	size_t r = ZSTD_decompressStream(decoder->zstd, &out, &in);

	flow->in += in.pos;
	flow->in_len -= in.pos;
	flow->out += out.pos;
	flow->out_len -= out.pos;
	if (ZSTD_isError(r))
		return STEP_BROKEN;
	return r == 0 ? STEP_END : STEP_MORE;
}

static void stop_zstd(struct decoder *decoder)
{
	ZSTD_freeDCtx(decoder->zstd);
}

/* ---- all of them ---- */

static const struct decoding decodings[] = {
	[ENCODING_GZIP] = { start_gzip, step_zlib, stop_zlib, true },
	[ENCODING_DEFLATE] = { start_deflate, step_zlib, stop_zlib, false },
	[ENCODING_BR] = { start_brotli, step_brotli, stop_brotli, false },
	[ENCODING_ZSTD] = { start_zstd, step_zstd, stop_zstd, true },
};

struct decoder *decoder_new(enum encoding encoding, const struct encoding_limits *limits)
{
	struct decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		die_no_memory();
	decoder->decoding = &decodings[encoding];
	decoder->limits = *limits;
	return decoder;
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	if (decoder->is_started)
		decoder->decoding->stop(decoder);
	free(decoder);
}

static bool is_beyond_limits(const struct decoder *decoder)
{
	uint64_t allowed = ENCODING_FREE_BYTES + decoder->in_bytes * decoder->limits.ratio;

	return decoder->out_bytes > decoder->limits.total_bytes || decoder->out_bytes > allowed;
}

/* Whether input may come: not after the end of what may not be repeated. */
static bool may_go_on(struct decoder *decoder, const struct flow *flow)
{
	if (!decoder->is_started) {
		decoder->decoding->start(decoder, flow->in[0]);
		decoder->is_started = true;
		decoder->is_within = true;
	}
	return decoder->is_within || decoder->decoding->may_repeat;
}

/* One step, and what it did to the counts. False when there is nothing more to be had. */
static bool step(struct decoder *decoder, struct flow *flow, int *ret_error)
{
	size_t in_len = flow->in_len, out_len = flow->out_len;
	enum step result;

	*ret_error = -EBADMSG;
	if (in_len > 0 && !may_go_on(decoder, flow))
		return false;
	result = decoder->decoding->step(decoder, flow);
	decoder->in_bytes += in_len - flow->in_len;
	decoder->out_bytes += out_len - flow->out_len;
	if (result == STEP_BROKEN)
		return false;
	if (is_beyond_limits(decoder)) {
		*ret_error = -E2BIG;
		return false;
	}
	*ret_error = 0;
	if (result == STEP_END)
		decoder->is_within = false;
	else if (in_len > flow->in_len)
		decoder->is_within = true;
	return in_len > flow->in_len || out_len > flow->out_len;
}

int decoder_push(struct decoder *decoder, struct bytes *input, char *out, size_t size,
		 size_t *ret_len)
{
	struct flow flow = { (const uint8_t *)input->data, input->len, (uint8_t *)out, size };
	int error = 0;

	*ret_len = 0;
	while (flow.out_len > 0 && (flow.in_len > 0 || decoder->is_within) &&
	       step(decoder, &flow, &error))
		;
	bytes_take(input, input->len - flow.in_len);
	*ret_len = size - flow.out_len;
	if (error < 0)
		return error;
	return flow.out_len == 0 ? ENCODING_NEEDS_ROOM : ENCODING_NEEDS_INPUT;
}

int decoder_finish(const struct decoder *decoder)
{
	return decoder->is_within ? -EBADMSG : 0;
}
