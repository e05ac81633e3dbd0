/* SPDX-License-Identifier: MIT */
/* Many patterns in a stream, however it is cut: the same as when each is tried everywhere. */
#include <stdlib.h>

#include "unit.h"

#include "../../support/replace_slowly.h"

static struct buf out;

static void emit(void *owner, struct bytes data, const struct pattern *match)
{
	(void)owner;
	(void)match;
	assert_int_equal(buf_add(&out, data.data, data.len), data.len);
}

static struct automaton *make(const struct pattern *patterns, size_t count)
{
	struct automaton *automaton = NULL;

	assert_int_equal(automaton_new(patterns, count, &automaton), 0);
	return automaton;
}

static void push_pieces(const struct automaton *automaton, struct bytes text, size_t first,
			size_t others)
{
	struct matcher matcher = { 0 };

	out.len = 0;
	for (size_t size = first; text.len > 0; size = others)
		automaton_push(automaton, &matcher,
			       bytes_take(&text, size < text.len ? size : text.len), emit, NULL);
	automaton_finish(automaton, &matcher, emit, NULL);
	assert_int_equal(matcher.node, 0);
}

static void assert_out(const struct buf *expected)
{
	assert_int_equal(out.len, expected->len);
	if (out.len > 0)
		assert_memory_equal(out.data, expected->data, out.len);
}

static void assert_same_at_every_cut(const struct pattern *patterns, size_t count,
				     struct bytes text)
{
	struct automaton *automaton = make(patterns, count);
	struct buf expected;

	buf_init(&expected, 1 << 20);
	buf_init(&out, 1 << 20);
	replace_slowly(patterns, count, text, &expected);
	for (size_t cut = 1; cut <= text.len; cut++) {
		for (size_t others = 1; others <= text.len; others++) {
			push_pieces(automaton, text, cut, others);
			assert_out(&expected);
		}
	}
	buf_fini(&out);
	buf_fini(&expected);
	automaton_free(automaton);
}

static void it_finds_the_leftmost_and_longest_at_every_cut(void **state)
{
	static const struct {
		const char *patterns[6]; /* "pattern=replacement" */
		const char *text;
	} rows[] = {
		{ { "sk-123=SK" }, "xsk-123ysk-12sk-123sk-123z" },
		{ { "ab=1", "abcdX=2" }, "abcd abcdX abcdabcdXab" },
		{ { "abcdX=1", "bc=2" }, "abcdY abcdX abcabcd" },
		{ { "abcdX=1", "bc=2", "cdY=3" }, "abcdY abcdX abcabcd" },
		{ { "a=1", "aaaaab=2" }, "aaaaaaaaaabaaac" },
		{ { "aab=1", "aa=", "ba=22" }, "aaaab aab aaaabab" },
		{ { "abab=1", "ba=2", "bab=3" }, "abababab ab aba abab" },
		{ { "he=1", "she=2", "his=3", "hers=4", "s=5", "her=6" }, "ushershishehehers" },
		{ { "abcdefgh=1", "cde=2", "defghi=3" }, "abcdefgabcdefghabcdefi" },
		{ { "x=" }, "axbxxc" },
		{ { "abcdefghijklmnopqrstuvwxyz=1", "ghijkl=2", "klmno=3" },
		  "abcdefghijklmnopqrstuvwxy abcdefghijklmnopqrstuvwxyz" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pattern patterns[6];
		size_t count = 0;

		for (; count < 6 && rows[i].patterns[count]; count++) {
			struct bytes text = bytes_of(rows[i].patterns[count]);

			bytes_split(&text, '=', &patterns[count].text);
			patterns[count].replacement = text;
		}
		assert_same_at_every_cut(patterns, count, bytes_of(rows[i].text));
	}
}

static size_t below(size_t n)
{
	return (size_t)rand() % n;
}

static void fill(char *text, size_t len, size_t letters)
{
	for (size_t i = 0; i < len; i++)
		text[i] = (char)('a' + below(letters));
}

#define PATTERNS 12

/* Some are parts of others, so that they nest and share beginnings. */
static size_t make_patterns(struct pattern *patterns, char texts[PATTERNS][24])
{
	static const char replacements[] = "0123456789";
	size_t count = 1 + below(PATTERNS), shortest = 1 + below(8), letters = 1 + below(4);

	memset(patterns, 0, PATTERNS * sizeof(*patterns));
	for (size_t i = 0; i < count; i++) {
		size_t len = shortest + below(16), from = below(i + 1);

		fill(texts[i], len, letters);
		if (from < i && below(2)) {
			size_t start = below(patterns[from].text.len);

			len = patterns[from].text.len - start;
			memmove(texts[i], texts[from] + start, len);
		}
		patterns[i] = (struct pattern){
			.text = { texts[i], len },
			.replacement = { replacements + below(4), below(6) },
		};
	}
	return count;
}

/* Text that the patterns have much in common with. */
static size_t make_text(const struct pattern *patterns, size_t count, char *text, size_t size)
{
	size_t len = 0;

	while (len + 24 < size) {
		struct bytes pattern = patterns[below(count)].text;
		size_t part = 1 + below(pattern.len);

		if (below(4) == 0) {
			part = 1 + below(20);
			fill(text + len, part, 1 + below(5));
		} else {
			memcpy(text + len, pattern.data, part);
		}
		len += part;
		if (below(60) == 0)
			break;
	}
	return len;
}

static void it_agrees_with_the_slow_way(void **state)
{
	(void)state;
	srand(1);
	buf_init(&out, 1 << 20);
	for (int round = 0; round < 20000; round++) {
		char texts[PATTERNS][24], text[512];
		struct pattern patterns[PATTERNS];
		size_t count = make_patterns(patterns, texts);
		size_t len = make_text(patterns, count, text, sizeof(text));
		struct automaton *automaton = make(patterns, count);
		struct buf expected;

		buf_init(&expected, 1 << 20);
		replace_slowly(patterns, count, (struct bytes){ text, len }, &expected);
		push_pieces(automaton, (struct bytes){ text, len }, 1 + below(40), 1 + below(40));
		assert_out(&expected);
		push_pieces(automaton, (struct bytes){ text, len }, sizeof(text), 1);
		assert_out(&expected);
		buf_fini(&expected);
		automaton_free(automaton);
	}
	buf_fini(&out);
}

static void no_more_is_held_back_than_could_begin_a_match(void **state)
{
	(void)state;
	srand(2);
	buf_init(&out, 1 << 20);
	for (int round = 0; round < 3000; round++) {
		char texts[PATTERNS][24], text[128];
		struct pattern patterns[PATTERNS];
		size_t count = make_patterns(patterns, texts);
		size_t len = make_text(patterns, count, text, sizeof(text));
		struct automaton *automaton = make(patterns, count);
		struct matcher matcher = { 0 };

		for (size_t i = 0; i < len; i++) {
			automaton_push(automaton, &matcher, (struct bytes){ text + i, 1 }, emit,
				       NULL);
			assert_int_equal(
				automaton_held(automaton, &matcher),
				count_undecided(patterns, count, (struct bytes){ text, i + 1 }));
		}
		automaton_free(automaton);
	}
	buf_fini(&out);
}

/* Long texts with few matches: what the filter passes over has none. */
static void the_filter_misses_nothing(void **state)
{
	static char text[20000];

	(void)state;
	srand(3);
	buf_init(&out, 1 << 20);
	for (size_t shortest = 1; shortest <= 40; shortest++) {
		char texts[3][64];
		struct pattern patterns[3];
		struct automaton *automaton;
		struct buf expected;

		for (size_t i = 0; i < 3; i++) {
			fill(texts[i], 64, 26);
			patterns[i] = (struct pattern){ .text = { texts[i], shortest + i * 7 },
							.replacement = BYTES("<>") };
		}
		automaton = make(patterns, 3);
		for (size_t i = 0; i < sizeof(text); i++)
			text[i] = (char)below(256);
		for (int i = 0; i < 200; i++)
			memcpy(text + below(sizeof(text) - 64), texts[i % 3], shortest + 14);
		buf_init(&expected, 1 << 20);
		replace_slowly(patterns, 3, (struct bytes){ text, sizeof(text) }, &expected);
		for (size_t piece = 3; piece < 30000; piece = piece * 3 + 1) {
			push_pieces(automaton, (struct bytes){ text, sizeof(text) }, piece, piece);
			assert_out(&expected);
		}
		buf_fini(&expected);
		automaton_free(automaton);
	}
	buf_fini(&out);
}

static void a_match_says_which_pattern_it_was(void **state)
{
	const struct pattern patterns[] = {
		{ BYTES("second"), BYTES("2nd"), 2 },
		{ BYTES("first"), BYTES("1st"), 1 },
		{ BYTES("first"), BYTES("no"), 3 },
	};
	struct automaton *automaton = make(patterns, 3);

	(void)state;
	assert_int_equal(automaton_find(automaton, BYTES("a first and a second"))->tag, 1);
	assert_int_equal(automaton_find(automaton, BYTES("a secon second"))->tag, 2);
	assert_null(automaton_find(automaton, BYTES("secon firs")));
	assert_null(automaton_find(automaton, BYTES("")));
	assert_false(automaton_keeps_length(automaton));
	automaton_free(automaton);
}

static void what_is_too_much_is_refused(void **state)
{
	static char big[AUTOMATON_BYTES_MAX + 1];
	static struct pattern many[AUTOMATON_PATTERNS_MAX + 1];
	struct automaton *automaton = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i].text = (struct bytes){ big, 1 };
	assert_int_equal(automaton_new(many, ARRAY_LEN(many), &automaton), -E2BIG);
	assert_int_equal(automaton_new(many, 0, &automaton), -EINVAL);
	many[1].text.len = 0;
	assert_int_equal(automaton_new(many, 2, &automaton), -EINVAL);
	many[1].text.len = AUTOMATON_BYTES_MAX;
	assert_int_equal(automaton_new(many, 2, &automaton), -E2BIG);
	assert_null(automaton);
}

int main(void)
{
	RUN_TESTS(TEST(it_finds_the_leftmost_and_longest_at_every_cut),
		  TEST(it_agrees_with_the_slow_way),
		  TEST(no_more_is_held_back_than_could_begin_a_match),
		  TEST(the_filter_misses_nothing), TEST(a_match_says_which_pattern_it_was),
		  TEST(what_is_too_much_is_refused));
}
