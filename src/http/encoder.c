/* SPDX-License-Identifier: MIT */
/* Writes content codings: fast rather than small, with windows that cost little. */
#include <assert.h>
#include <errno.h>

#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include "base/die.h"
#include "http/encoding.h"

#define ZLIB_LEVEL      4
#define BROTLI_QUALITY  3
#define BROTLI_WINDOW   18
#define ZSTD_LEVEL      1
#define ZSTD_WINDOW_LOG 18

/* zlib counts in ints. */
#define STEP_MAX (1 << 30)

struct flow {
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t out_len;
};

struct coding {
	void (*start)(struct encoder *encoder);
	/* *ret_is_done: all that `flush` asks for has been written. 0 or -EIO. */
	int (*step)(struct encoder *encoder, struct flow *flow, enum encoding_flush flush,
		    bool *ret_is_done);
	void (*stop)(struct encoder *encoder);
};

struct encoder {
	const struct coding *coding;
	bool is_over;
	union {
		z_stream z;
		BrotliEncoderState *brotli;
		ZSTD_CCtx *zstd;
	};
};

/* ---- gzip and deflate ---- */

static void start_zlib(struct encoder *encoder, int window_bits)
{
	if (deflateInit2(&encoder->z, ZLIB_LEVEL, Z_DEFLATED, window_bits, MAX_MEM_LEVEL - 1,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		die_no_memory();
}

static void start_gzip(struct encoder *encoder)
{
	start_zlib(encoder, MAX_WBITS + 16);
}

static void start_deflate(struct encoder *encoder)
{
	start_zlib(encoder, MAX_WBITS);
}

static int step_zlib(struct encoder *encoder, struct flow *flow, enum encoding_flush flush,
		     bool *ret_is_done)
{
	static const int how[] = {
		[ENCODING_GATHER] = Z_NO_FLUSH,
		[ENCODING_FLUSH] = Z_SYNC_FLUSH,
		[ENCODING_FINISH] = Z_FINISH,
	};
	z_stream *z = &encoder->z;
	uInt in_len = (uInt)(flow->in_len < STEP_MAX ? flow->in_len : STEP_MAX);
	uInt out_len = (uInt)(flow->out_len < STEP_MAX ? flow->out_len : STEP_MAX);
	int r;

	z->next_in = (Bytef *)flow->in;
	z->avail_in = in_len;
	z->next_out = flow->out;
	z->avail_out = out_len;
	r = deflate(z, how[flush]);
	flow->in += in_len - z->avail_in;
	flow->in_len -= in_len - z->avail_in;
	flow->out += out_len - z->avail_out;
	flow->out_len -= out_len - z->avail_out;
	/* Room that is left says that nothing is left to be written. */
	*ret_is_done = r == Z_STREAM_END ||
		       (flush != ENCODING_FINISH && flow->in_len == 0 && z->avail_out > 0);
	return r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR ? 0 : -EIO;
}

static void stop_zlib(struct encoder *encoder)
{
	deflateEnd(&encoder->z);
}

/* ---- br ---- */

static void start_brotli(struct encoder *encoder)
{
	encoder->brotli = BrotliEncoderCreateInstance(NULL, NULL, NULL);
	if (!encoder->brotli)
		die_no_memory();
	BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
	BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
}

static int step_brotli(struct encoder *encoder, struct flow *flow, enum encoding_flush flush,
		       bool *ret_is_done)
{
	static const BrotliEncoderOperation how[] = {
		[ENCODING_GATHER] = BROTLI_OPERATION_PROCESS,
		[ENCODING_FLUSH] = BROTLI_OPERATION_FLUSH,
		[ENCODING_FINISH] = BROTLI_OPERATION_FINISH,
	};

	if (!BrotliEncoderCompressStream(encoder->brotli, how[flush], &flow->in_len, &flow->in,
					 &flow->out_len, &flow->out, NULL))
		return -EIO;
	*ret_is_done = flow->in_len == 0 && !BrotliEncoderHasMoreOutput(encoder->brotli) &&
		       (flush != ENCODING_FINISH || BrotliEncoderIsFinished(encoder->brotli));
	return 0;
}

static void stop_brotli(struct encoder *encoder)
{
	BrotliEncoderDestroyInstance(encoder->brotli);
}

/* ---- zstd ---- */

static void start_zstd(struct encoder *encoder)
{
	encoder->zstd = ZSTD_createCCtx();
	if (!encoder->zstd)
		die_no_memory();
	ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_windowLog, ZSTD_WINDOW_LOG);
}

static int step_zstd(struct encoder *encoder, struct flow *flow, enum encoding_flush flush,
		     bool *ret_is_done)
{
	static const ZSTD_EndDirective how[] = {
		[ENCODING_GATHER] = ZSTD_e_continue,
		[ENCODING_FLUSH] = ZSTD_e_flush,
		[ENCODING_FINISH] = ZSTD_e_end,
	};
	ZSTD_inBuffer in = { flow->in, flow->in_len, 0 };
	ZSTD_outBuffer out = { flow->out, flow->out_len, 0 };
	size_t r = ZSTD_compressStream2(encoder->zstd, &out, &in, how[flush]);

	flow->in += in.pos;
	flow->in_len -= in.pos;
	flow->out += out.pos;
	flow->out_len -= out.pos;
	if (ZSTD_isError(r))
		return -EIO;
	*ret_is_done = flow->in_len == 0 && (flush == ENCODING_GATHER || r == 0);
	return 0;
}

static void stop_zstd(struct encoder *encoder)
{
	ZSTD_freeCCtx(encoder->zstd);
}

/* ---- all of them ---- */

static const struct coding codings[] = {
	[ENCODING_GZIP] = { start_gzip, step_zlib, stop_zlib },
	[ENCODING_DEFLATE] = { start_deflate, step_zlib, stop_zlib },
	[ENCODING_BR] = { start_brotli, step_brotli, stop_brotli },
	[ENCODING_ZSTD] = { start_zstd, step_zstd, stop_zstd },
};

struct encoder *encoder_new(enum encoding encoding)
{
	struct encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		die_no_memory();
	encoder->coding = &codings[encoding];
	encoder->coding->start(encoder);
	return encoder;
}

void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	encoder->coding->stop(encoder);
	free(encoder);
}

int encoder_push(struct encoder *encoder, struct bytes *input, enum encoding_flush flush, char *out,
		 size_t size, size_t *ret_len)
{
	struct flow flow = { (const uint8_t *)input->data, input->len, (uint8_t *)out, size };
	bool is_done = encoder->is_over;
	int r = is_done && input->len > 0 ? -EIO : 0;

	assert(size >= ENCODING_ROOM_MIN);
	while (r == 0 && !is_done && flow.out_len > 0)
		r = encoder->coding->step(encoder, &flow, flush, &is_done);
	bytes_take(input, input->len - flow.in_len);
	*ret_len = size - flow.out_len;
	if (r < 0)
		return r;
	if (!is_done)
		return ENCODING_NEEDS_ROOM;
	encoder->is_over = flush == ENCODING_FINISH;
	return encoder->is_over ? ENCODING_OVER : ENCODING_NEEDS_INPUT;
}
