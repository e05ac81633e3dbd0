/* SPDX-License-Identifier: MIT */
/* One pattern, searched for across pieces. */
#include "keeper/scrub.h"

#include <stdlib.h>

#include "base/die.h"

struct scrub_pattern {
	struct bytes text;
	bool is_odd; /* it has bytes that keys do not have: every printable end is held back */
	char stars[];
};

/* What keys are made of; public, and the same for all of them. */
static bool is_key_byte(char c)
{
	static const bool is_sign[256] = {
		['-'] = true,         ['_'] = true,         ['.'] = true,         ['+'] = true,
		['/'] = true,         ['='] = true,         ['~'] = true,         ['%'] = true,
		[':'] = true,         ['@'] = true,         ['!'] = true,         ['#'] = true,
		['$'] = true,         ['&'] = true,         ['*'] = true,         ['^'] = true,
		['|'] = true,         ['\\'] = true,        ['?'] = true,         [';'] = true,
		['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
	};

	return is_sign[(unsigned char)c];
}

struct scrub_pattern *scrub_pattern_new(const struct secret *secret)
{
	struct bytes text = secret_get(secret);
	struct scrub_pattern *pattern = calloc(1, sizeof(*pattern) + text.len);

	if (!pattern)
		die_no_memory();
	pattern->text = text;
	memset(pattern->stars, '*', text.len);
	for (size_t i = 0; i < text.len; i++)
		pattern->is_odd = pattern->is_odd || !is_key_byte(text.data[i]);
	return pattern;
}

void scrub_pattern_free(struct scrub_pattern *pattern)
{
	free(pattern);
}

bool scrub_is_in(const struct scrub_pattern *pattern, struct bytes text)
{
	return pattern && text.len >= pattern->text.len &&
	       memmem(text.data, text.len, pattern->text.data, pattern->text.len);
}

void scrub_fini(struct scrub *scrub)
{
	free(scrub->held);
	*scrub = (struct scrub){ .held = NULL };
}

static void emit_some(struct bytes data, scrub_emit *emit, void *owner)
{
	if (data.len > 0)
		emit(owner, data);
}

/* No key has a control character in it (keeper/upstream.c). */
static bool may_be_held(const struct scrub_pattern *pattern, char c)
{
	return pattern->is_odd ? (c >= 0x20 && c < 0x7f) : is_key_byte(c);
}

/* How much of the end is held back, whatever the secret is. */
static size_t end_len(const struct scrub_pattern *pattern, struct bytes data)
{
	size_t most = pattern->text.len - 1, len = 0;

	while (len < most && len < data.len && may_be_held(pattern, data.data[data.len - 1 - len]))
		len++;
	return len;
}

/* Lets through what is no secret, and keeps the end. */
static void search(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes data,
		   scrub_emit *emit, void *owner)
{
	const char *at;
	size_t len;

	while (data.len >= pattern->text.len &&
	       (at = memmem(data.data, data.len, pattern->text.data, pattern->text.len))) {
		emit_some(bytes_take(&data, (size_t)(at - data.data)), emit, owner);
		emit_some((struct bytes){ pattern->stars, pattern->text.len }, emit, owner);
		bytes_take(&data, pattern->text.len);
	}
	len = end_len(pattern, data);
	emit_some(bytes_take(&data, data.len - len), emit, owner);
	if (len == 0)
		return;
	scrub->held = malloc(len);
	if (!scrub->held)
		die_no_memory();
	memcpy(scrub->held, data.data, len);
	scrub->held_len = len;
}

void scrub_push(struct scrub *scrub, const struct scrub_pattern *pattern, struct bytes data,
		scrub_emit *emit, void *owner)
{
	struct scrub before = *scrub;
	char *joined;

	if (!pattern) {
		emit_some(data, emit, owner);
		return;
	}
	*scrub = (struct scrub){ .held = NULL };
	if (!before.held) {
		search(scrub, pattern, data, emit, owner);
		return;
	}
	joined = realloc(before.held, before.held_len + data.len);
	if (!joined)
		die_no_memory();
	memcpy(joined + before.held_len, data.data, data.len);
	search(scrub, pattern, (struct bytes){ joined, before.held_len + data.len }, emit, owner);
	free(joined);
}

void scrub_finish(struct scrub *scrub, const struct scrub_pattern *pattern, scrub_emit *emit,
		  void *owner)
{
	if (pattern)
		emit_some((struct bytes){ scrub->held, scrub->held_len }, emit, owner);
	scrub_fini(scrub);
}
