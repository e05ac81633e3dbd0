/* SPDX-License-Identifier: MIT */
/*
 * INV-HOST-SCOPED: any placeholders in any text, cut anywhere, become values or are refused, the
 * same as when each way to write each of them is tried everywhere. The input: what the text is,
 * size of the pieces, which secrets may be there, the secrets, and steps that make the text.
 */
#include <errno.h>

#include "../support/replace_slowly.h"
#include "keeper/form.h"
#include "keeper/substitute.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRETS_MAX 3
#define LEN_MAX     20
#define TEXT_MAX    2048
#define OUT_MAX     (TEXT_MAX * LEN_MAX * 8)

struct secrets {
	struct substitute_secret list[SECRETS_MAX];
	char values[SECRETS_MAX][LEN_MAX], placeholders[SECRETS_MAX][LEN_MAX];
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

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Printable, as the vault takes them. */
static struct bytes take_printable(struct bytes *input, size_t len, char *ret_text)
{
	for (size_t i = 0; i < len; i++)
		ret_text[i] = (char)(0x20 + (take_byte(input) - 0x20) % 95);
	return (struct bytes){ ret_text, len };
}

static bool is_known(const struct secrets *secrets, struct bytes placeholder)
{
	for (size_t i = 0; i < secrets->count; i++)
		if (bytes_equal(secrets->list[i].placeholder, placeholder))
			return true;
	return false;
}

static void take_secrets(struct bytes *input, struct secrets *ret_secrets)
{
	size_t wanted = take_byte(input) % SECRETS_MAX + 1;

	ret_secrets->count = 0;
	for (size_t i = 0; i < wanted; i++) {
		size_t len = take_byte(input) % LEN_MAX + 1, other = take_byte(input);
		struct substitute_secret *secret = &ret_secrets->list[ret_secrets->count];
		char *value = ret_secrets->values[ret_secrets->count];

		secret->places = (unsigned int)take_byte(input) | KEEPER_BODY;
		secret->placeholder = take_printable(input, len,
						     ret_secrets->placeholders[ret_secrets->count]);
		if (other & 1) { /* as they are made: of the same shape */
			for (size_t k = 0; k < len; k++) {
				char c = secret->placeholder.data[k];

				value[k] = is_alnum(c) ? (char)('a' + ((size_t)c + k) % 26) : c;
			}
			secret->value = (struct bytes){ value, len };
		} else {
			secret->value = take_printable(input, other % LEN_MAX + 1, value);
		}
		if (!is_known(ret_secrets, secret->placeholder))
			ret_secrets->count++;
	}
}

/* Each byte encoded or not, as the bits say. */
static void add_mixed(struct buf *out, struct bytes text, size_t bits)
{
	static const char digits[] = "0123456789ABCDEF0123456789abcdef";

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		const char *set = digits + (bits & 128 ? 16 : 0);
		char encoded[] = { '%', set[c >> 4], set[c & 15] };

		if (bits >> i % 7 & 1)
			buf_add(out, encoded, sizeof(encoded));
		else
			buf_add(out, text.data + i, 1);
	}
}

/* Bytes as they are, or a placeholder in some form, perhaps not all of it. */
static void take_text(struct bytes *input, const struct secrets *secrets, struct buf *out)
{
	char form[FORM_SIZE(LEN_MAX)];

	while (input->len > 0 && secrets->count > 0) {
		size_t what = take_byte(input), which = take_byte(input), len;
		struct bytes placeholder = secrets->list[what % secrets->count].placeholder;

		if (what < 100) {
			struct bytes text = bytes_take(input,
						       what < input->len ? what : input->len);

			buf_add(out, text.data, text.len);
		} else if (what < 180) {
			add_mixed(out, placeholder, which);
		} else {
			len = form_write(which % form_count(), placeholder, form);
			buf_add(out, form, what & 1 && len > 0 ? len - 1 : len);
		}
	}
}

static bool is_of_same_shape(struct bytes a, struct bytes b)
{
	bool is_same = a.len == b.len;

	for (size_t i = 0; is_same && i < a.len; i++)
		is_same = is_alnum(a.data[i]) ? is_alnum(b.data[i]) : a.data[i] == b.data[i];
	return is_same;
}

/* ---- bodies, the slow way ---- */

struct patterns {
	struct pattern list[SECRETS_MAX * FORMS_MAX];
	char texts[SECRETS_MAX * FORMS_MAX][FORM_SIZE(LEN_MAX)];
	char replacements[SECRETS_MAX * FORMS_MAX][FORM_SIZE(LEN_MAX)];
	size_t count;
};

/* The form that is right there, whatever the value. */
static const struct {
	unsigned int kinds;
	enum form_kind right;
} syntaxes[] = {
	[SYNTAX_RAW] = { FORM_RAW, FORM_RAW },
	[SYNTAX_JSON] = { FORM_RAW | FORM_JSON, FORM_JSON },
	[SYNTAX_PERCENT] = { FORM_RAW | FORM_PERCENT, FORM_PERCENT },
};

static void find_patterns(const struct secrets *secrets, enum syntax syntax, uint64_t allowed,
			  struct patterns *ret_patterns)
{
	size_t right = 0;

	while (form_kind(right) != syntaxes[syntax].right)
		right++;
	ret_patterns->count = 0;
	for (size_t i = 0; i < secrets->count; i++) {
		const struct substitute_secret *secret = &secrets->list[i];
		bool is_same = is_of_same_shape(secret->placeholder, secret->value);

		for (size_t form = 0; form < form_count(); form++) {
			size_t n = ret_patterns->count, len, replaced;

			if (!(syntaxes[syntax].kinds & form_kind(form)))
				continue;
			len = form_write(form, secret->placeholder, ret_patterns->texts[n]);
			replaced = allowed >> i & 1
					   ? form_write(is_same ? form : right, secret->value,
							ret_patterns->replacements[n])
					   : form_write(form, secret->placeholder,
							ret_patterns->replacements[n]);
			ret_patterns->list[n] = (struct pattern){
				{ ret_patterns->texts[n], len },
				{ ret_patterns->replacements[n], replaced },
				(unsigned int)i,
			};
			ret_patterns->count++;
		}
	}
}

static struct substitute_found replace_and_note(const struct patterns *patterns, uint64_t allowed,
						struct bytes text, struct buf *out)
{
	struct substitute_found found = { 0, 0 };

	replace_slowly(patterns->list, patterns->count, text, out);
	while (text.len > 0) {
		const struct pattern *match = find_longest(patterns->list, patterns->count, text);
		uint64_t bit = match ? UINT64_C(1) << match->tag : 0;

		found.used |= bit & allowed;
		found.refused |= bit & ~allowed;
		bytes_take(&text, match ? match->text.len : 1);
	}
	return found;
}

static void emit(void *owner, struct bytes data)
{
	buf_add(owner, data.data, data.len);
}

static void check_same(const struct buf *a, const struct buf *b)
{
	check(bytes_equal((struct bytes){ a->data, a->len }, (struct bytes){ b->data, b->len }));
}

static void check_body(const struct substitute_set *set, const struct secrets *secrets,
		       enum syntax syntax, uint64_t bound, struct bytes text, size_t piece)
{
	static struct patterns patterns;
	struct substitute substitute;
	struct substitute_found found;
	struct buf expected, out;

	buf_init(&expected, OUT_MAX);
	buf_init(&out, OUT_MAX);
	find_patterns(secrets, syntax, bound, &patterns);
	found = replace_and_note(&patterns, bound, text, &expected);
	check(!substitute_keeps_length(set, syntax) || expected.len == text.len);
	substitute_init(&substitute, set, bound, KEEPER_BODY, syntax);
	while (text.len > 0)
		substitute_push(&substitute, bytes_take(&text, piece < text.len ? piece : text.len),
				emit, &out);
	substitute_finish(&substitute, emit, &out);
	check_same(&out, &expected);
	check(substitute.found.used == found.used && substitute.found.refused == found.refused);
	buf_fini(&expected);
	buf_fini(&out);
}

/* ---- targets, the slow way ---- */

/* How many bytes of the text are its first one, when it is decoded; a space is a plus sign. */
static size_t decode_first(struct bytes text, char *ret_c)
{
	size_t len = 1;

	*ret_c = text.data[0];
	if (text.len >= 3 && text.data[0] == '%' && hex_digit(text.data[1]) >= 0 &&
	    hex_digit(text.data[2]) >= 0) {
		*ret_c = (char)(hex_digit(text.data[1]) * 16 + hex_digit(text.data[2]));
		len = 3;
	}
	if (*ret_c == ' ')
		*ret_c = '+';
	return len;
}

/* How many bytes of the text are the placeholder, or 0; *ret_count: how many characters. */
static size_t match_len(struct bytes text, struct bytes placeholder, bool is_decoded,
			size_t *ret_count)
{
	size_t at = 0, count = 0;

	while (placeholder.len > 0) {
		char wanted = (char)(placeholder.data[0] == ' ' ? '+' : placeholder.data[0]), c;
		size_t len = is_decoded ? decode_first(placeholder, &wanted) : 1;

		if (at == text.len)
			return 0;
		at += decode_first((struct bytes){ text.data + at, text.len - at }, &c);
		if (c != wanted)
			return 0;
		bytes_take(&placeholder, len);
		count++;
	}
	*ret_count = count;
	return at;
}

struct hit {
	size_t secret, len, count;
	bool is_decoded;
};

/* Of those that begin here the one with the most characters; of equal ones the first. */
static bool find_hit(const struct secrets *secrets, struct bytes text, struct hit *ret_hit)
{
	ret_hit->count = 0;
	for (size_t i = 0; i < secrets->count; i++) {
		for (int is_decoded = 0; is_decoded < 2; is_decoded++) {
			struct bytes placeholder = secrets->list[i].placeholder;
			size_t count, len = match_len(text, placeholder, is_decoded, &count);

			if (len > 0 && count > ret_hit->count)
				*ret_hit = (struct hit){ i, len, count, is_decoded };
		}
	}
	return ret_hit->count > 0;
}

static void add_percent(struct buf *out, char c)
{
	char form[FORM_SIZE(1)];
	size_t right = 0;

	while (form_kind(right) != FORM_PERCENT)
		right++;
	buf_add(out, form, form_write(right, (struct bytes){ &c, 1 }, form));
}

static void add_value(struct buf *out, const struct substitute_secret *secret,
		      const struct hit *hit, struct bytes text)
{
	bool is_spelled = hit->count == secret->value.len &&
			  is_of_same_shape(secret->placeholder, secret->value);

	for (size_t i = 0; i < secret->value.len; i++) {
		char c = secret->value.data[i], old;
		struct bytes source = { "", 0 };

		if (is_spelled)
			source = bytes_take(&text, decode_first(text, &old));
		if (is_spelled && is_alnum(c) && source.len == 3)
			add_mixed(out, (struct bytes){ &c, 1 }, 1);
		else if (is_spelled && !is_alnum(c) && c != '%')
			buf_add(out, source.data, source.len);
		else
			add_percent(out, c);
	}
}

static struct substitute_found target_slowly(const struct secrets *secrets, uint64_t bound,
					     struct bytes target, struct buf *out)
{
	struct substitute_found found = { 0, 0 };
	bool is_query = false;

	while (target.len > 0) {
		struct hit hit;
		bool is_hit = find_hit(secrets, target, &hit), may;
		struct bytes text;
		unsigned int places;
		char c;

		if (!is_hit) {
			text = bytes_take(&target, decode_first(target, &c));
			is_query = is_query || memchr(text.data, '?', text.len);
			buf_add(out, text.data, text.len);
			continue;
		}
		text = bytes_take(&target, hit.len);
		places = is_query                           ? KEEPER_QUERY
			 : memchr(text.data, '?', text.len) ? KEEPER_QUERY | KEEPER_PATH
							    : KEEPER_PATH;
		/* A placeholder may begin with it: then none of it is in the path. */
		if (!is_query && text.data[0] == '?')
			places = KEEPER_QUERY;
		is_query = is_query || places & KEEPER_QUERY;
		may = bound >> hit.secret & 1 &&
		      (secrets->list[hit.secret].places & places) == places;
		if (may)
			found.used |= UINT64_C(1) << hit.secret;
		else
			found.refused |= UINT64_C(1) << hit.secret;
		if (may)
			add_value(out, &secrets->list[hit.secret], &hit, text);
		else
			buf_add(out, text.data, text.len);
	}
	return found;
}

static void check_target(const struct substitute_set *set, const struct secrets *secrets,
			 uint64_t bound, struct bytes text)
{
	struct substitute_found found = { 0, 0 }, slowly;
	struct buf expected, out;

	buf_init(&expected, OUT_MAX);
	buf_init(&out, OUT_MAX);
	slowly = target_slowly(secrets, bound, text, &expected);
	check(substitute_target(set, bound, text, &out, &found) == (slowly.refused ? -EPERM : 0));
	check_same(&out, &expected);
	check(slowly.used == found.used && slowly.refused == found.refused);
	buf_fini(&expected);
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes input = { (const char *)data, size };
	size_t what = take_byte(&input) % 5, piece = take_byte(&input) + 1;
	uint64_t bound = take_byte(&input) | 1;
	static struct secrets secrets;
	struct substitute_set *set;
	struct buf text;

	take_secrets(&input, &secrets);
	check(substitute_set_new(secrets.list, secrets.count, &set) == 0);
	buf_init(&text, TEXT_MAX);
	take_text(&input, &secrets, &text);
	if (what < ARRAY_LEN(syntaxes))
		check_body(set, &secrets, (enum syntax)what, bound,
			   (struct bytes){ text.data, text.len }, piece);
	else
		check_target(set, &secrets, bound, (struct bytes){ text.data, text.len });
	buf_fini(&text);
	substitute_set_free(set);
	return 0;
}
