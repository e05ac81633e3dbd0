/* SPDX-License-Identifier: MIT */
/*
 * Registrations on any bytes (INV-RUN-IDENTITY): whatever is taken names a run of the right form
 * and says nothing that could end a line or stand for what the keeper says itself; written out
 * again it reads the same.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/words.h"
#include "keeper/registration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_true)
{
	if (!is_true)
		abort();
}

static bool is_line(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

static void check_metadata(const struct run_spec *spec)
{
	size_t len = 0;

	require(spec->metadata_count <= KEEPER_METADATA_MAX);
	for (size_t i = 0; i < spec->metadata_count; i++) {
		const char *name = spec->metadata[i].name;

		require(*name && is_line(name) && is_line(spec->metadata[i].value));
		require(strcmp(name, "runId") != 0 && strcmp(name, "attempt") != 0);
		for (size_t j = 0; j < i; j++)
			require(strcmp(name, spec->metadata[j].name) != 0);
		len += strlen(name) + strlen(spec->metadata[i].value);
	}
	require(len <= KEEPER_METADATA_LEN);
}

static void write_again(const struct run_spec *spec, struct buf *words)
{
	words_add_pair(words, "run-id", spec->run_id);
	words_add_pair_number(words, "attempt", spec->attempt);
	if (spec->account)
		words_add_pair(words, "account", spec->account);
	for (size_t i = 0; i < spec->metadata_count; i++) {
		buf_add_text(words, "metadata.");
		words_add_pair(words, spec->metadata[i].name, spec->metadata[i].value);
	}
}

static void check_same(const struct run_spec *a, const struct run_spec *b)
{
	require(strcmp(a->run_id, b->run_id) == 0 && a->attempt == b->attempt);
	require(!a->account == !b->account && (!a->account || strcmp(a->account, b->account) == 0));
	require(a->metadata_count == b->metadata_count);
	for (size_t i = 0; i < a->metadata_count; i++)
		require(strcmp(a->metadata[i].name, b->metadata[i].name) == 0 &&
			strcmp(a->metadata[i].value, b->metadata[i].value) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct registration registration, again;
	char *words = malloc(size ? size : 1);
	struct buf rewritten;
	struct err err;

	if (!words)
		abort();
	if (size > 0)
		memcpy(words, data, size);
	if (registration_parse(&registration, words, size, &err) == 0) {
		const struct run_spec *spec = &registration.spec;

		require(runid_is_valid(spec->run_id));
		require(!spec->account || (*spec->account && is_line(spec->account)));
		check_metadata(spec);
		buf_init(&rewritten, 1 << 20);
		write_again(spec, &rewritten);
		require(registration_parse(&again, rewritten.data, rewritten.len, &err) == 0);
		check_same(spec, &again.spec);
		buf_fini(&rewritten);
	} else {
		require(strlen(err.text) > 0);
	}
	free(words);
	return 0;
}
