/* SPDX-License-Identifier: MIT */
/*
 * INV-NO-REFLECTION: any secrets in any text, cut anywhere: the same as when each form of each of
 * them is tried everywhere. The input: size of the pieces, secrets, and steps that make the text.
 */
#include "../support/replace_slowly.h"
#include "keeper/form.h"
#include "keeper/scrub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRETS_MAX 3
#define VALUE_MAX   24
#define TEXT_MAX    4096

struct secrets {
	struct scrub_secret list[SECRETS_MAX];
	char values[SECRETS_MAX][VALUE_MAX], placeholders[SECRETS_MAX][VALUE_MAX];
	size_t count;
};

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static size_t take_byte(struct bytes *input)
{
	return input->len > 0 ? (uint8_t)bytes_take(input, 1).data[0] : 0;
}

/* Printable, as the vault takes them. */
static struct bytes take_printable(struct bytes *input, size_t len, char *ret_text)
{
	for (size_t i = 0; i < len; i++)
		ret_text[i] = (char)(0x20 + (take_byte(input) - 0x20) % 95);
	return (struct bytes){ ret_text, len };
}

static void take_secrets(struct bytes *input, struct secrets *ret_secrets)
{
	ret_secrets->count = take_byte(input) % SECRETS_MAX + 1;
	for (size_t i = 0; i < ret_secrets->count; i++) {
		size_t len = take_byte(input) % VALUE_MAX + 1;
		size_t other = take_byte(input) % (VALUE_MAX + 1);

		ret_secrets->list[i].value = take_printable(input, len, ret_secrets->values[i]);
		/* As a rule it is as long. */
		ret_secrets->list[i].placeholder = take_printable(input, other % 4 ? len : other,
								  ret_secrets->placeholders[i]);
	}
}

/* Bytes as they are, or a form of a secret, perhaps not all of it. */
static void take_text(struct bytes *input, const struct secrets *secrets, struct buf *out)
{
	char form[FORM_SIZE(VALUE_MAX)];

	while (input->len > 0) {
		size_t what = take_byte(input), which = take_byte(input), len;

		if (what < 128) {
			struct bytes text = bytes_take(input,
						       what < input->len ? what : input->len);

			buf_add(out, text.data, text.len);
			continue;
		}
		len = form_write(which % form_count(), secrets->list[what % secrets->count].value,
				 form);
		buf_add(out, form, what & 64 && len > 0 ? len - 1 : len);
	}
}

/* ---- the slow way ---- */

struct patterns {
	struct pattern list[SECRETS_MAX * FORMS_MAX];
	char texts[SECRETS_MAX * FORMS_MAX][FORM_SIZE(VALUE_MAX)];
	char replacements[SECRETS_MAX * FORMS_MAX][FORM_SIZE(VALUE_MAX)];
	size_t count, longest;
};

static void add_pattern(struct patterns *patterns, const struct scrub_secret *secret, size_t form)
{
	static const struct bytes stars = BYTES("************************");
	char *text = patterns->texts[patterns->count];
	char *replacement = patterns->replacements[patterns->count];
	size_t len = form_write(form, secret->value, text), written;

	if (len == 0 || (len < 6 && form_kind(form) != FORM_RAW))
		return;
	written = form_write(form,
			     secret->placeholder.len ? secret->placeholder
						     : bytes_cut(stars, secret->value.len),
			     replacement);
	for (; written < len; written++)
		replacement[written] = '*';
	patterns->list[patterns->count++] = (struct pattern){ { text, len },
							      { replacement, len },
							      0 };
	if (len > patterns->longest)
		patterns->longest = len;
}

static void find_patterns(const struct secrets *secrets, struct patterns *ret_patterns)
{
	ret_patterns->count = ret_patterns->longest = 0;
	for (size_t i = 0; i < secrets->count; i++)
		for (size_t form = 0; form < form_count(); form++)
			add_pattern(ret_patterns, &secrets->list[i], form);
}

static void emit(void *owner, struct bytes data)
{
	buf_add(owner, data.data, data.len);
}

static void check_text(const struct secrets *secrets, struct bytes text, size_t piece)
{
	static struct patterns patterns;
	struct scrub_set *set;
	struct scrub scrub = { .held = NULL };
	struct buf expected, out;
	struct bytes rest = text;

	check(scrub_set_new(secrets->list, secrets->count, &set) == 0);
	find_patterns(secrets, &patterns);
	buf_init(&expected, TEXT_MAX);
	buf_init(&out, TEXT_MAX);
	replace_slowly(patterns.list, patterns.count, text, &expected);
	while (rest.len > 0) {
		scrub_push(&scrub, set, bytes_take(&rest, piece < rest.len ? piece : rest.len),
			   emit, &out);
		check(scrub.held_len < patterns.longest);
		check(out.len + scrub.held_len == text.len - rest.len);
	}
	scrub_finish(&scrub, set, emit, &out);
	check(out.len == text.len && expected.len == text.len);
	check(out.len == 0 || memcmp(out.data, expected.data, out.len) == 0);
	check((scrub.count > 0) == scrub_is_in(set, text));
	scrub_fini(&scrub);
	scrub_set_free(set);
	buf_fini(&expected);
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size };
	static struct secrets secrets;
	size_t piece = take_byte(&input) + 1;
	struct buf text;

	take_secrets(&input, &secrets);
	buf_init(&text, TEXT_MAX);
	take_text(&input, &secrets, &text);
	check_text(&secrets, (struct bytes){ text.data, text.len }, piece);
	buf_fini(&text);
	return 0;
}
