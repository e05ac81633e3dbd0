/* SPDX-License-Identifier: MIT */
/*
 * The first bytes of a connection: once something is known, more bytes do not change it; and a
 * hello says the same in whatever records it is.
 */
#include <stdint.h>
#include <stdlib.h>

#include "gate/sniff.h"

#define RECORD_HEAD  5
#define RECUT_MAX    8192
#define PREFIXES_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of its own length, so that reading beyond it is noticed. */
static enum sniff_kind sniff_prefix(const uint8_t *data, size_t len, struct sniff_result *result)
{
	char *copy = malloc(len ? len : 1);
	enum sniff_kind kind;

	if (!copy)
		abort();
	if (len > 0)
		memcpy(copy, data, len);
	kind = sniff((struct bytes){ copy, len }, result);
	free(copy);
	return kind;
}

/* One byte to a record. */
static void check_recut(const uint8_t *data, size_t size, const struct sniff_result *whole)
{
	static uint8_t made[RECUT_MAX * (RECORD_HEAD + 1)];
	struct sniff_result result;
	size_t len = 0;

	for (size_t at = 0; at + RECORD_HEAD <= size && data[at] == 22;) {
		size_t end = at + RECORD_HEAD + (size_t)(data[at + 3] << 8 | data[at + 4]);

		for (size_t i = at + RECORD_HEAD; i < end && i < size; i++) {
			const uint8_t record[] = { 22, 3, 1, 0, 1, data[i] };

			memcpy(made + len, record, sizeof(record));
			len += sizeof(record);
		}
		at = end;
	}
	if (sniff_prefix(made, len, &result) != SNIFF_TLS || strcmp(result.sni, whole->sni) != 0 ||
	    result.alpn != whole->alpn || result.has_other_alpn != whole->has_other_alpn)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sniff_result result, whole;
	enum sniff_kind kind = sniff_prefix(data, size, &whole);
	size_t step = size / PREFIXES_MAX + 1;

	if (size >= SNIFF_MAX && kind == SNIFF_NEEDS_MORE)
		abort();
	if (kind != SNIFF_TLS && (whole.sni[0] || whole.alpn || whole.has_other_alpn))
		abort();
	for (size_t len = 0; len < size; len += step) {
		enum sniff_kind sooner = sniff_prefix(data, len, &result);

		if (sooner != SNIFF_NEEDS_MORE && sooner != kind)
			abort();
	}
	if (kind == SNIFF_TLS && size <= RECUT_MAX)
		check_recut(data, size, &whole);
	return 0;
}
