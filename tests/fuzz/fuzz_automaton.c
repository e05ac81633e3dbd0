/* SPDX-License-Identifier: MIT */
/*
 * Any patterns in any text, cut anywhere: the same as when each is tried everywhere.
 * The input: size of the pieces, number of patterns, each with its length before it, the text.
 */
#include "../support/replace_slowly.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATTERNS_MAX 8
#define PATTERN_LEN  32

static void emit(void *owner, struct bytes data, const struct pattern *match)
{
	(void)match;
	buf_add(owner, data.data, data.len);
}

static size_t take_byte(struct bytes *input)
{
	return input->len > 0 ? (uint8_t)bytes_take(input, 1).data[0] : 0;
}

static size_t take_patterns(struct bytes *input, struct pattern *ret_patterns)
{
	static const char replacements[] = "<0><1><2><3><4><5><6><7>";
	size_t wanted = take_byte(input) % PATTERNS_MAX + 1, count = 0;

	while (count < wanted && input->len > 0) {
		size_t byte = take_byte(input), len = byte % PATTERN_LEN + 1;

		if (len > input->len)
			break;
		ret_patterns[count] = (struct pattern){
			.text = bytes_take(input, len),
			.replacement = { replacements + 3 * count, byte / PATTERN_LEN % 4 },
			.tag = (unsigned int)count,
		};
		count++;
	}
	return count;
}

static void check(const struct pattern *patterns, size_t count, struct bytes text, size_t piece)
{
	struct buf expected, out;
	struct automaton *automaton;
	struct matcher matcher = { 0 };

	if (automaton_new(patterns, count, &automaton) < 0)
		abort();
	buf_init(&expected, 1 << 20);
	buf_init(&out, 1 << 20);
	replace_slowly(patterns, count, text, &expected);
	while (text.len > 0)
		automaton_push(automaton, &matcher,
			       bytes_take(&text, piece < text.len ? piece : text.len), emit, &out);
	automaton_finish(automaton, &matcher, emit, &out);
	if (out.len != expected.len || (out.len && memcmp(out.data, expected.data, out.len) != 0))
		abort();
	buf_fini(&expected);
	buf_fini(&out);
	automaton_free(automaton);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size };
	struct pattern patterns[PATTERNS_MAX];
	size_t piece = take_byte(&input) + 1, count = take_patterns(&input, patterns);

	if (count > 0)
		check(patterns, count, input, piece);
	return 0;
}
