/* SPDX-License-Identifier: MIT */
/*
 * How fast secrets are taken out of a stream, and put into one, in GB/s of one core, by what the
 * stream is; and how fast replies that are encoded are read.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "http/encoding.h"
#include "keeper/placeholder.h"
#include "keeper/scrub.h"
#include "keeper/substitute.h"

#define TEXT_SIZE  (8 << 20)
#define PIECE_SIZE 16384 /* as TLS has them */
#define ROUNDS     5

static char text[TEXT_SIZE];
static uint64_t seed = 1;

static uint32_t next_random(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33);
}

static void fill_random(char *at, size_t len, const char *digits)
{
	size_t count = strlen(digits);

	for (size_t i = 0; i < len; i++)
		at[i] = digits[next_random() % count];
}

#define ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* ---- what is scrubbed ---- */

/* Repeats pieces, chosen by chance. */
static void fill_of(const char *const *pieces, size_t count)
{
	for (size_t at = 0; at < TEXT_SIZE;) {
		const char *piece = pieces[next_random() % count];
		size_t len = strlen(piece);

		len = len < TEXT_SIZE - at ? len : TEXT_SIZE - at;
		memcpy(text + at, piece, len);
		at += len;
	}
}

static void fill_text(const char *secret)
{
	static const char *const words[] = {
		"the ",    "quick ",   "agent ",    "asked ",    "its ",   "model ",    "for ",
		"a ",      "plan, ",   "and ",      "then ",     "wrote ", "some ",     "tests ",
		"that ",   "failed. ", "However, ", "nothing ",  "was ",   "lost: ",    "every ",
		"change ", "could ",   "be ",       "undone.\n", "In ",    "general ",  "this ",
		"is ",     "how ",     "tokens ",   "look ",     "like ",  "(mostly) ",
	};

	(void)secret;
	fill_of(words, ARRAY_LEN(words));
}

static void fill_json(const char *secret)
{
	static const char *const parts[] = {
		"data: {\"id\":\"chatcmpl-AbC93kQ\",\"object\":\"chat.completion.chunk\",",
		"\"created\":1712345678,",
		"\"model\":\"gpt-4o-2024-08-06\",",
		"\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},",
		"\"logprobs\":null,",
		"\"finish_reason\":null}]}\n\n",
		"\"usage\":{\"prompt_tokens\":12},",
		"\"system_fingerprint\":\"fp_0123abcd\",",
	};

	(void)secret;
	fill_of(parts, ARRAY_LEN(parts));
}

static void fill_base64(const char *secret)
{
	(void)secret;
	fill_random(text, TEXT_SIZE, ALNUM "+/");
}

static void fill_hex(const char *secret)
{
	(void)secret;
	fill_random(text, TEXT_SIZE, "0123456789abcdef");
}

/* The secret but for its last byte, again and again: the trie is walked all the time. */
static void fill_near(const char *secret)
{
	size_t len = strlen(secret) - 1;

	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = secret[i % len];
}

/* Nothing but secrets. */
static void fill_secret(const char *secret)
{
	size_t len = strlen(secret);

	for (size_t i = 0; i < TEXT_SIZE; i++)
		text[i] = secret[i % len];
}

static const struct {
	const char *name;
	void (*fill)(const char *secret);
} streams[] = {
	{ "text", fill_text }, { "json events", fill_json }, { "base64", fill_base64 },
	{ "hex", fill_hex },   { "near misses", fill_near }, { "only secrets", fill_secret },
};

/* ---- secrets ---- */

/* What is looked for in replies, and in requests. */
struct sets {
	struct scrub_set *scrub;
	struct substitute_set *substitute;
	char value[8192], placeholder[8192]; /* of the first one */
};

static void make_sets(size_t count, size_t len, struct sets *ret_sets)
{
	static char values[SCRUB_SECRETS_MAX][8192], placeholders[SCRUB_SECRETS_MAX][8192];
	struct scrub_secret out[SCRUB_SECRETS_MAX];
	struct substitute_secret in[SCRUB_SECRETS_MAX];

	for (size_t i = 0; i < count; i++) {
		struct bytes value = { values[i], len }, placeholder = { placeholders[i], len };

		fill_random(values[i], len, ALNUM "-_");
		if (len > 16)
			memcpy(values[i], i % 2 ? "sk-proj-" : "ghp_", i % 2 ? 8 : 4);
		if (placeholder_make(value, placeholders[i]) < 0)
			exit(1);
		out[i] = (struct scrub_secret){ value, placeholder };
		in[i] = (struct substitute_secret){ placeholder, value, KEEPER_BODY };
	}
	if (scrub_set_new(out, count, &ret_sets->scrub) < 0 ||
	    substitute_set_new(in, count, &ret_sets->substitute) < 0)
		exit(1);
	snprintf(ret_sets->value, sizeof(ret_sets->value), "%.*s", (int)len, values[0]);
	snprintf(ret_sets->placeholder, sizeof(ret_sets->placeholder), "%.*s", (int)len,
		 placeholders[0]);
}

static void free_sets(struct sets *sets)
{
	scrub_set_free(sets->scrub);
	substitute_set_free(sets->substitute);
}

/* ---- measuring ---- */

static uint64_t emitted;

static void emit(void *owner, struct bytes data)
{
	(void)owner;
	emitted += data.len;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void scrub_all(const struct sets *sets)
{
	struct bytes rest = { text, TEXT_SIZE };
	struct scrub scrub = { 0 };

	while (rest.len > 0)
		scrub_push(&scrub, sets->scrub, bytes_take(&rest, PIECE_SIZE), emit, NULL);
	scrub_finish(&scrub, sets->scrub, emit, NULL);
}

static void substitute_all(const struct sets *sets)
{
	struct bytes rest = { text, TEXT_SIZE };
	struct substitute substitute;

	substitute_init(&substitute, sets->substitute, UINT64_MAX, KEEPER_BODY, SYNTAX_JSON);
	while (rest.len > 0)
		substitute_push(&substitute, bytes_take(&rest, PIECE_SIZE), emit, NULL);
	substitute_finish(&substitute, emit, NULL);
}

/* The best of some rounds. */
static double measure(void (*pass)(const struct sets *sets), const struct sets *sets)
{
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now(), rate;

		pass(sets);
		rate = TEXT_SIZE / (now() - start) / 1e9;
		best = rate > best ? rate : best;
	}
	return best;
}

static void print_heads(const char *title)
{
	printf("\n%s, GB/s\n%24s", title, "");
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		printf("%14s", streams[i].name);
	printf("\n");
}

static void print_row(size_t count, size_t len, bool is_request)
{
	struct sets sets;

	make_sets(count, len, &sets);
	printf("%2zu secrets of %4zu bytes ", count, len);
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		streams[i].fill(is_request ? sets.placeholder : sets.value);
		printf("%14.2f", measure(is_request ? substitute_all : scrub_all, &sets));
		fflush(stdout);
	}
	printf("\n");
	free_sets(&sets);
}

/* ---- encodings ---- */

static char encoded[TEXT_SIZE + 65536];
static struct bytes encoded_text;
static enum encoding encoding;

static void encode_all(void)
{
	struct encoder *encoder = encoder_new(encoding);
	struct bytes input = { text, TEXT_SIZE };
	size_t len = 0;

	if (encoder_push(encoder, &input, ENCODING_FINISH, encoded, sizeof(encoded), &len) !=
	    ENCODING_OVER)
		errx(1, "a text grew when it was encoded");
	encoder_free(encoder);
	encoded_text = (struct bytes){ encoded, len };
}

/* A NULL scrub_set: only the decoding. */
static void decode_all(const struct sets *sets)
{
	static const struct encoding_limits limits = { UINT64_MAX, UINT32_MAX };
	struct decoder *decoder = decoder_new(encoding, &limits);
	struct bytes rest = encoded_text;
	struct scrub scrub = { 0 };
	static char out[PIECE_SIZE];
	size_t len;
	int state;

	do {
		state = decoder_push(decoder, &rest, out, sizeof(out), &len);
		scrub_push(&scrub, sets->scrub, (struct bytes){ out, len }, emit, NULL);
	} while (state == ENCODING_NEEDS_ROOM);
	if (state < 0 || decoder_finish(decoder) < 0)
		errx(1, "a text cannot be decoded");
	scrub_finish(&scrub, sets->scrub, emit, NULL);
	decoder_free(decoder);
}

static void print_encodings(void)
{
	static const size_t shown[] = { 0, 1, 2 }; /* of streams */
	static const struct sets none = { 0 };
	struct sets sets;

	make_sets(5, 51, &sets);
	printf("\nencoded replies, GB/s of what is decoded: decoding alone, with scrubbing of 5 "
	       "secrets of 51 bytes\n%24s",
	       "");
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		printf("%20s", streams[shown[i]].name);
	printf("\n");
	for (encoding = ENCODING_GZIP; encoding <= ENCODING_ZSTD; encoding++) {
		printf("%-24s", encoding_name(encoding));
		for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
			streams[shown[i]].fill(sets.value);
			encode_all();
			printf("%13.2f %6.2f", measure(decode_all, &none),
			       measure(decode_all, &sets));
			fflush(stdout);
		}
		printf("\n");
	}
	free_sets(&sets);
}

int main(void)
{
	static const struct {
		size_t count, len;
	} sets[] = {
		{ 1, 51 }, { 5, 51 }, { 20, 40 }, { 64, 64 }, { 5, 8 }, { 64, 8 }, { 5, 3000 }
	};

	print_heads("scrubbing replies");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		print_row(sets[i].count, sets[i].len, false);
	print_heads("substituting in requests' bodies, as JSON (there, a secret is a placeholder)");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		print_row(sets[i].count, sets[i].len, true);
	print_encodings();
	return 0;
}
