/* SPDX-License-Identifier: MIT */
/*
 * A JSON reader of one byte at a time (RFC 8259), which copies or drops as it goes.
 *
 * Between two members of an object that rules look at, the comma, the space after it and
 * the key are held until the key is whole. Then they go out, or they are dropped and the
 * value is skipped. A comma is needed only between members that are kept.
 */
#include "keeper/json_edit.h"

#include <errno.h>
#include <string.h>

/* Where in a number: each part and what may follow it. */
enum number_part {
	NUMBER_MINUS,    /* "-": a digit must follow */
	NUMBER_ZERO,     /* "0": no digit may follow */
	NUMBER_INT,      /* digits */
	NUMBER_POINT,    /* ".": a digit must follow */
	NUMBER_FRACTION, /* digits */
	NUMBER_E,        /* "e": a sign or a digit must follow */
	NUMBER_SIGN,     /* a digit must follow */
	NUMBER_EXPONENT, /* digits */
};

void json_edit_init(struct json_edit *edit, const struct json_edit_rule *rules)
{
	/* What is held, and the model, are written before they are read. */
	memset(edit, 0, offsetof(struct json_edit, held));
	edit->rules = rules;
}

static int fail(struct json_edit *edit, int error)
{
	edit->state = JSON_EDIT_BROKEN;
	return -error;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool in_object(const struct json_edit *edit)
{
	return edit->depth > 0 &&
	       edit->is_object[(edit->depth - 1) / 8] >> ((edit->depth - 1) % 8) & 1;
}

/* Whether rules look at the members of the object we are in. */
static bool is_edited(const struct json_edit *edit)
{
	return in_object(edit) && !edit->skip_depth &&
	       (edit->depth == 1 || (edit->depth == 2 && edit->is_within));
}

static void emit(const struct json_edit *edit, struct buf *out, const char *bytes, size_t len)
{
	if (!edit->skip_depth && out)
		buf_add(out, bytes, len);
}

/* Holds a byte back until the key is known. */
static int hold(struct json_edit *edit, char c)
{
	if (edit->held_len == sizeof(edit->held))
		return fail(edit, E2BIG);
	edit->held[edit->held_len++] = c;
	return 0;
}

/* ---- keys ---- */

/* Folds case as lenient parsers do: two characters outside ASCII fold into it. */
static char fold(int c)
{
	if (c == 0x17f)
		return 's';
	if (c == 0x212a)
		return 'k';
	return c < 0x80 ? ascii_lower((char)c) : '\0';
}

static int decode_escape(struct bytes *text)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = bytes_take(text, 1).data[0];
	const char *at = strchr(from, c);
	unsigned int value = 0;

	if (c != 'u')
		return at ? to[at - from] : 0;
	for (struct bytes digits = bytes_take(text, 4); digits.len > 0;)
		value = value << 4 | ((unsigned int)hex_digit(bytes_take(&digits, 1).data[0]) & 15);
	return (int)value;
}

/* One character of a key as it is meant; 0 for those that no name in here has. */
static int decode(struct bytes *text)
{
	static const struct {
		struct bytes form;
		int value;
	} others[] = { { { "\xc5\xbf", 2 }, 0x17f }, { { "\xe2\x84\xaa", 3 }, 0x212a } };
	unsigned char c;

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (text->len >= others[i].form.len &&
		    memcmp(text->data, others[i].form.data, others[i].form.len) == 0) {
			bytes_take(text, others[i].form.len);
			return others[i].value;
		}
	c = (unsigned char)bytes_take(text, 1).data[0];
	return c == '\\' ? decode_escape(text) : c;
}

static bool key_is(struct bytes key, const char *name)
{
	for (; key.len > 0 && *name; name++)
		if (fold(decode(&key)) != *name)
			return false;
	return key.len == 0 && !*name;
}

/* The same to the letter: what is asked for by this name, not what might be taken for it. */
static bool key_is_exactly(struct bytes key, const char *name)
{
	for (; key.len > 0 && *name; name++)
		if (decode(&key) != *name)
			return false;
	return key.len == 0 && !*name;
}

static bool is_removed(const struct json_edit *edit, struct bytes key)
{
	for (const struct json_edit_rule *rule = edit->rules; rule->name; rule++) {
		const char *within = edit->depth == 2 ? edit->within : NULL;

		if (!rule->within != !within || (within && strcmp(within, rule->within) != 0))
			continue;
		if (key_is(key, rule->name))
			return true;
	}
	return false;
}

/* Remembers whether the value that follows is an object with members to remove. */
static int note_within(struct json_edit *edit, struct bytes key)
{
	edit->within = NULL;
	for (const struct json_edit_rule *rule = edit->rules; rule->name; rule++)
		if (rule->within && key_is(key, rule->within))
			edit->within = rule->within;
	edit->is_model = key_is_exactly(key, "model");
	edit->has_model |= edit->is_model;
	/* Route and record follow the model: of two, each would be some reader's only one. */
	if (key_is(key, "model") && edit->model_count++ > 0)
		return fail(edit, EBADMSG);
	return 0;
}

/* The key in `held` is whole: keep what is held, or drop it and skip the value. */
static int decide(struct json_edit *edit, struct buf *out)
{
	struct bytes key = { edit->held + edit->key_start + 1,
			     edit->held_len - edit->key_start - 2 };
	bool *has_kept = &edit->has_kept[edit->depth - 1];
	size_t start = edit->held[0] == ',' && !*has_kept ? 1 : 0;

	if (edit->depth == 1 && note_within(edit, key) < 0)
		return -EBADMSG;
	if (is_removed(edit, key)) {
		edit->skip_depth = edit->depth;
	} else {
		emit(edit, out, edit->held + start, edit->held_len - start);
		*has_kept = true;
	}
	edit->held_len = 0;
	return 0;
}

/* ---- values ---- */

static void end_value(struct json_edit *edit)
{
	edit->is_model = edit->is_model && edit->depth > 1;
	if (edit->skip_depth == edit->depth)
		edit->skip_depth = 0;
	edit->state = edit->depth ? JSON_EDIT_AFTER : JSON_EDIT_DONE;
}

static int open_container(struct json_edit *edit, bool is_object)
{
	unsigned int bit = 1U << (edit->depth % 8);
	unsigned char *byte = &edit->is_object[edit->depth / 8];

	if (edit->depth == JSON_EDIT_DEPTH_MAX)
		return fail(edit, E2BIG);
	*byte = (unsigned char)(is_object ? *byte | bit : *byte & ~bit);
	edit->depth++;
	if (edit->depth == 2)
		edit->is_within = is_object && edit->within;
	if (edit->depth <= 2)
		edit->has_kept[edit->depth - 1] = false;
	edit->state = is_object ? JSON_EDIT_FIRST_KEY : JSON_EDIT_ARRAY_FIRST;
	return 0;
}

static void close_container(struct json_edit *edit)
{
	edit->depth--;
	edit->held_len = 0;
	end_value(edit);
}

static int begin_value(struct json_edit *edit, char c)
{
	static const char *const words[] = { "true", "false", "null" };

	if (c == '{' || c == '[')
		return open_container(edit, c == '{');
	if (c == '"') {
		/* Some upstreams read JSON out of a string where an object belongs. */
		if (edit->depth == 1 && edit->within && in_object(edit) && !edit->skip_depth)
			return fail(edit, EBADMSG);
		edit->state = JSON_EDIT_STRING;
		return 0;
	}
	if (c == '-' || is_digit(c)) {
		edit->number = c == '-' ? NUMBER_MINUS : c == '0' ? NUMBER_ZERO : NUMBER_INT;
		edit->state = JSON_EDIT_NUMBER;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (c == words[i][0]) {
			edit->word = words[i] + 1;
			edit->state = JSON_EDIT_WORD;
			return 0;
		}
	return fail(edit, EBADMSG);
}

/* One byte in a string; 1 when it was the closing quote. */
static int step_string(struct json_edit *edit, char c)
{
	if (edit->escape == 1) {
		if (!strchr("\"\\/bfnrtu", c) || !c)
			return fail(edit, EBADMSG);
		edit->escape = c == 'u' ? 2 : 0;
	} else if (edit->escape > 1) {
		if (hex_digit(c) < 0)
			return fail(edit, EBADMSG);
		edit->escape = edit->escape == 5 ? 0 : edit->escape + 1;
	} else if (c == '\\') {
		edit->escape = 1;
	} else if ((unsigned char)c < 0x20) {
		return fail(edit, EBADMSG);
	} else if (c == '"') {
		return 1;
	}
	return 0;
}

static bool may_follow(enum number_part part, char c, enum number_part *ret_part)
{
	bool is_integer = part == NUMBER_ZERO || part == NUMBER_INT;

	if (is_digit(c)) {
		static const enum number_part after_digit[] = {
			[NUMBER_INT] = NUMBER_INT,           [NUMBER_POINT] = NUMBER_FRACTION,
			[NUMBER_FRACTION] = NUMBER_FRACTION, [NUMBER_E] = NUMBER_EXPONENT,
			[NUMBER_SIGN] = NUMBER_EXPONENT,     [NUMBER_EXPONENT] = NUMBER_EXPONENT,
		};

		*ret_part = part == NUMBER_MINUS ? (c == '0' ? NUMBER_ZERO : NUMBER_INT)
						 : after_digit[part];
		return part != NUMBER_ZERO;
	}
	if (c == '.' && is_integer)
		*ret_part = NUMBER_POINT;
	else if ((c == 'e' || c == 'E') && (is_integer || part == NUMBER_FRACTION))
		*ret_part = NUMBER_E;
	else if ((c == '+' || c == '-') && part == NUMBER_E)
		*ret_part = NUMBER_SIGN;
	else
		return false;
	return true;
}

static bool may_end(enum number_part part)
{
	return part == NUMBER_ZERO || part == NUMBER_INT || part == NUMBER_FRACTION ||
	       part == NUMBER_EXPONENT;
}

/* ---- states ---- */

static void note_model(struct json_edit *edit, char c)
{
	if (edit->is_model && edit->depth == 1 && edit->model_len < JSON_EDIT_MODEL_MAX)
		edit->model[edit->model_len++] = c;
}

static int in_string(struct json_edit *edit, char c, struct buf *out)
{
	int r = step_string(edit, c);

	emit(edit, out, &c, 1);
	if (r == 0)
		note_model(edit, c);
	if (r > 0)
		end_value(edit);
	return r < 0 ? r : 0;
}

static int in_key(struct json_edit *edit, char c, struct buf *out)
{
	bool is_held = is_edited(edit);
	int r = step_string(edit, c);

	if (r < 0)
		return r;
	if (!is_held)
		emit(edit, out, &c, 1);
	else if (hold(edit, c) < 0)
		return -E2BIG;
	if (r > 0) {
		edit->state = JSON_EDIT_COLON;
		if (is_held)
			return decide(edit, out);
	}
	return 0;
}

static int in_word(struct json_edit *edit, char c, struct buf *out)
{
	if (c != *edit->word)
		return fail(edit, EBADMSG);
	emit(edit, out, &c, 1);
	if (!*++edit->word)
		end_value(edit);
	return 0;
}

static int before_key(struct json_edit *edit, char c, struct buf *out)
{
	if (c == '}' && edit->state == JSON_EDIT_FIRST_KEY) {
		emit(edit, out, &c, 1);
		close_container(edit);
		return 0;
	}
	if (c != '"')
		return fail(edit, EBADMSG);
	edit->state = JSON_EDIT_KEY;
	if (!is_edited(edit)) {
		emit(edit, out, &c, 1);
		return 0;
	}
	edit->key_start = edit->held_len;
	return hold(edit, c);
}

static int after_value(struct json_edit *edit, char c, struct buf *out)
{
	bool is_object = in_object(edit);

	if (c == ',') {
		edit->state = is_object ? JSON_EDIT_NEXT_KEY : JSON_EDIT_VALUE;
		if (is_edited(edit))
			return hold(edit, c);
		emit(edit, out, &c, 1);
		return 0;
	}
	if (c != (is_object ? '}' : ']'))
		return fail(edit, EBADMSG);
	emit(edit, out, &c, 1);
	close_container(edit);
	return 0;
}

static int on_space(struct json_edit *edit, char c, struct buf *out)
{
	if (edit->state == JSON_EDIT_NEXT_KEY && is_edited(edit))
		return hold(edit, c);
	emit(edit, out, &c, 1);
	return 0;
}

/* A byte between tokens. */
static int between(struct json_edit *edit, char c, struct buf *out)
{
	if (is_space(c))
		return on_space(edit, c, out);
	switch (edit->state) {
	case JSON_EDIT_ARRAY_FIRST:
		if (c == ']') {
			emit(edit, out, &c, 1);
			close_container(edit);
			return 0;
		}
		emit(edit, out, &c, 1);
		return begin_value(edit, c);
	case JSON_EDIT_VALUE:
		emit(edit, out, &c, 1);
		return begin_value(edit, c);
	case JSON_EDIT_FIRST_KEY:
	case JSON_EDIT_NEXT_KEY:
		return before_key(edit, c, out);
	case JSON_EDIT_COLON:
		if (c != ':')
			return fail(edit, EBADMSG);
		emit(edit, out, &c, 1);
		edit->state = JSON_EDIT_VALUE;
		return 0;
	case JSON_EDIT_AFTER:
		return after_value(edit, c, out);
	default:
		return fail(edit, EBADMSG);
	}
}

static int step(struct json_edit *edit, char c, struct buf *out)
{
	enum number_part part;

	switch (edit->state) {
	case JSON_EDIT_STRING:
		return in_string(edit, c, out);
	case JSON_EDIT_KEY:
		return in_key(edit, c, out);
	case JSON_EDIT_WORD:
		return in_word(edit, c, out);
	case JSON_EDIT_NUMBER:
		if (may_follow((enum number_part)edit->number, c, &part)) {
			edit->number = part;
			emit(edit, out, &c, 1);
			return 0;
		}
		if (!may_end((enum number_part)edit->number))
			return fail(edit, EBADMSG);
		end_value(edit);
		return between(edit, c, out);
	default:
		return between(edit, c, out);
	}
}

#define EVERY_BYTE(c) (UINT64_C(0x0101010101010101) * (c))

/* Bit 7 of every byte that is zero, and perhaps of one above such a byte. */
static uint64_t zero_bytes(uint64_t word)
{
	return (word - EVERY_BYTE(0x01)) & ~word & EVERY_BYTE(0x80);
}

/* Whether eight bytes have no quote, no backslash and no control character. */
static bool is_plain_word(const char *bytes)
{
	uint64_t word, special;

	memcpy(&word, bytes, sizeof(word));
	special = zero_bytes(word ^ EVERY_BYTE('"')) | zero_bytes(word ^ EVERY_BYTE('\\')) |
		  ((word - EVERY_BYTE(0x20)) & ~word & EVERY_BYTE(0x80));
	return special == 0;
}

/* Most of a body is text in strings: as much of it as needs no look at each byte. */
static size_t plain_run(const struct json_edit *edit, struct bytes input)
{
	size_t len = 0;

	if (edit->state != JSON_EDIT_STRING || edit->escape || edit->is_model)
		return 0;
	while (input.len - len >= sizeof(uint64_t) && is_plain_word(input.data + len))
		len += sizeof(uint64_t);
	while (len < input.len && input.data[len] != '"' && input.data[len] != '\\' &&
	       (unsigned char)input.data[len] >= 0x20)
		len++;
	return len;
}

int json_edit_push(struct json_edit *edit, struct bytes input, struct buf *out)
{
	while (input.len > 0) {
		size_t len = plain_run(edit, input);
		int r;

		if (edit->state == JSON_EDIT_BROKEN)
			return -EBADMSG;
		if (len > 0) {
			emit(edit, out, input.data, len);
			bytes_take(&input, len);
			continue;
		}
		r = step(edit, bytes_take(&input, 1).data[0], out);
		if (r < 0)
			return r;
	}
	return 0;
}

int json_edit_finish(struct json_edit *edit)
{
	if (edit->state == JSON_EDIT_NUMBER && edit->depth == 0 &&
	    may_end((enum number_part)edit->number))
		return 0;
	if (edit->state == JSON_EDIT_DONE || (edit->state == JSON_EDIT_VALUE && edit->depth == 0))
		return 0;
	return fail(edit, EBADMSG);
}
