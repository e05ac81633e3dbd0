/* SPDX-License-Identifier: MIT */
/* How fast secrets are taken out of a stream, in GB/s of one core, by what the stream is. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "keeper/placeholder.h"
#include "keeper/scrub.h"

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

static struct scrub_set *make_set(size_t count, size_t len, char *ret_first)
{
	static char values[SCRUB_SECRETS_MAX][8192], placeholders[SCRUB_SECRETS_MAX][8192];
	struct scrub_secret secrets[SCRUB_SECRETS_MAX];
	struct scrub_set *set;

	for (size_t i = 0; i < count; i++) {
		struct bytes value = { values[i], len };

		fill_random(values[i], len, ALNUM "-_");
		if (len > 16)
			memcpy(values[i], i % 2 ? "sk-proj-" : "ghp_", i % 2 ? 8 : 4);
		if (placeholder_make(value, placeholders[i]) < 0)
			exit(1);
		secrets[i] = (struct scrub_secret){ value, { placeholders[i], len } };
	}
	if (scrub_set_new(secrets, count, &set) < 0)
		exit(1);
	memcpy(ret_first, values[0], len);
	ret_first[len] = '\0';
	return set;
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

/* The best of some rounds. */
static double measure(const struct scrub_set *set)
{
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct bytes rest = { text, TEXT_SIZE };
		struct scrub scrub = { 0 };
		double start = now(), rate;

		while (rest.len > 0)
			scrub_push(&scrub, set, bytes_take(&rest, PIECE_SIZE), emit, NULL);
		scrub_finish(&scrub, set, emit, NULL);
		rate = TEXT_SIZE / (now() - start) / 1e9;
		best = rate > best ? rate : best;
	}
	return best;
}

int main(void)
{
	static const struct {
		size_t count, len;
	} sets[] = {
		{ 1, 51 }, { 5, 51 }, { 20, 40 }, { 64, 64 }, { 5, 8 }, { 64, 8 }, { 5, 3000 }
	};

	printf("GB/s%20s", "");
	for (size_t i = 0; i < ARRAY_LEN(streams); i++)
		printf("%14s", streams[i].name);
	printf("\n");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		char first[8192];
		struct scrub_set *set = make_set(sets[i].count, sets[i].len, first);

		printf("%2zu secrets of %4zu bytes ", sets[i].count, sets[i].len);
		for (size_t j = 0; j < ARRAY_LEN(streams); j++) {
			streams[j].fill(first);
			printf("%14.2f", measure(set));
			fflush(stdout);
		}
		printf("\n");
		scrub_set_free(set);
	}
	return 0;
}
