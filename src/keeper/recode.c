/* SPDX-License-Identifier: MIT */
/* Decoding and encoding around a substitution. */
#include "keeper/recode.h"

#include <stdlib.h>

#include "base/die.h"

#define PIECE 16384

struct recode {
	struct decoder *decoder;
	struct encoder *encoder;
	substitute_emit *emit; /* of the call under way */
	void *owner;
};

struct recode *recode_new(enum encoding encoding)
{
	static const struct encoding_limits limits = { RECODE_BYTES_MAX, RECODE_RATIO_MAX };
	struct recode *recode = calloc(1, sizeof(*recode));

	if (!recode)
		die_no_memory();
	recode->decoder = decoder_new(encoding, &limits);
	recode->encoder = encoder_new(encoding);
	return recode;
}

void recode_free(struct recode *recode)
{
	if (!recode)
		return;
	decoder_free(recode->decoder);
	encoder_free(recode->encoder);
	free(recode);
}

static void encode(struct recode *recode, struct bytes data, enum encoding_flush flush)
{
	char out[PIECE];
	size_t len;
	int state;

	do {
		state = encoder_push(recode->encoder, &data, flush, out, sizeof(out), &len);
		if (len > 0)
			recode->emit(recode->owner, (struct bytes){ out, len });
	} while (state == ENCODING_NEEDS_ROOM);
	explicit_bzero(out, sizeof(out)); /* there may be a secret in it */
}

static void on_substituted(void *owner, struct bytes data)
{
	encode(owner, data, ENCODING_GATHER);
}

int recode_push(struct recode *recode, struct bytes data, struct substitute *substitute,
		substitute_emit *emit, void *owner)
{
	char piece[PIECE];
	size_t len;
	int state;

	recode->emit = emit;
	recode->owner = owner;
	do {
		state = decoder_push(recode->decoder, &data, piece, sizeof(piece), &len);
		if (len > 0)
			substitute_push(substitute, (struct bytes){ piece, len }, on_substituted,
					recode);
	} while (state == ENCODING_NEEDS_ROOM);
	if (state < 0)
		return state;
	/* Whoever sends in pieces may wait for an answer to each. */
	encode(recode, (struct bytes){ NULL, 0 }, ENCODING_FLUSH);
	return 0;
}

int recode_finish(struct recode *recode, struct substitute *substitute, substitute_emit *emit,
		  void *owner)
{
	int r = decoder_finish(recode->decoder);

	recode->emit = emit;
	recode->owner = owner;
	substitute_finish(substitute, on_substituted, recode);
	encode(recode, (struct bytes){ NULL, 0 }, ENCODING_FINISH);
	return r;
}
