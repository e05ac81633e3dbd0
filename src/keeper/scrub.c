/* SPDX-License-Identifier: MIT */
/* Every form of every secret is a pattern, and the placeholder's same form its replacement. */
#include "keeper/scrub.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "keeper/form.h"
#include "keeper/pattern_list.h"

struct scrub_set {
	struct automaton *automaton;
	size_t longest; /* of the patterns */
	bool is_odd;    /* one has bytes that keys do not have: every printable end is held back */
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

/* ---- making ---- */

static int add_secret(struct pattern_list *list, const struct scrub_secret *secret)
{
	struct pattern pattern = { .text = secret->value, .replacement = secret->placeholder };
	char *stars = malloc(secret->value.len);
	int r;

	if (!stars)
		die_no_memory();
	memset(stars, '*', secret->value.len);
	if (pattern.replacement.len == 0)
		pattern.replacement = (struct bytes){ stars, secret->value.len };
	/* Lengths were announced before the text came. */
	r = pattern_list_add_forms(list, &pattern, FORM_ANY, PATTERN_SAME_LENGTH);
	free(stars);
	return r;
}

static void measure(struct scrub_set *set, struct bytes text)
{
	if (text.len > set->longest)
		set->longest = text.len;
	for (size_t i = 0; i < text.len; i++)
		set->is_odd = set->is_odd || !is_key_byte(text.data[i]);
}

int scrub_set_new(const struct scrub_secret *secrets, size_t count, struct scrub_set **ret_set)
{
	struct automaton *automaton = NULL;
	struct pattern_list list;
	int r = count > SCRUB_SECRETS_MAX ? -E2BIG : 0;

	*ret_set = NULL;
	if (count == 0)
		return 0;
	pattern_list_init(&list);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = secrets[i].value.len > 0 ? add_secret(&list, &secrets[i]) : -EINVAL;
	if (r == 0)
		r = automaton_new(list.patterns, list.count, &automaton);
	if (r == 0) {
		*ret_set = calloc(1, sizeof(**ret_set));
		if (!*ret_set)
			die_no_memory();
		(*ret_set)->automaton = automaton;
		for (size_t i = 0; i < list.count; i++)
			measure(*ret_set, list.patterns[i].text);
	}
	pattern_list_fini(&list);
	return r;
}

void scrub_set_free(struct scrub_set *set)
{
	if (!set)
		return;
	automaton_free(set->automaton);
	free(set);
}

/* ---- scrubbing ---- */

void scrub_fini(struct scrub *scrub)
{
	free(scrub->held);
	scrub->held = NULL;
	scrub->held_len = 0;
}

/* Lets through what lies before the end that is held back. */
struct sink {
	struct scrub *scrub;
	scrub_emit *emit;
	void *owner;
	size_t at;  /* how far the text has been looked at */
	size_t end; /* from here on it is held back */
};

static void on_emit(void *owner, struct bytes data, const struct pattern *match)
{
	struct sink *sink = owner;
	size_t at = sink->at;

	sink->at += data.len;
	if (at >= sink->end)
		return; /* looked at again with what follows it */
	if (match) {
		sink->scrub->count++;
		sink->end = sink->at > sink->end ? sink->at : sink->end;
	} else if (sink->at > sink->end) {
		data.len = sink->end - at;
	}
	if (data.len > 0)
		sink->emit(sink->owner, data);
}

/* No secret has a control character in it (keeper/vault.c). */
static bool may_be_held(const struct scrub_set *set, char c)
{
	return set->is_odd ? (c >= 0x20 && c < 0x7f) : is_key_byte(c);
}

/* How much of the end is held back, whatever the secrets are. */
static size_t end_len(const struct scrub_set *set, struct bytes data)
{
	size_t most = set->longest - 1, len = 0;

	while (len < most && len < data.len && may_be_held(set, data.data[data.len - 1 - len]))
		len++;
	return len;
}

/* Every secret that is whole is replaced; the end is kept as it came, unless it was a part of one.
 */
static void search(struct scrub *scrub, const struct scrub_set *set, struct bytes data, size_t held,
		   scrub_emit *emit, void *owner)
{
	struct sink sink = { scrub, emit, owner, 0, data.len - held };
	struct matcher matcher = { 0 };

	automaton_push(set->automaton, &matcher, data, on_emit, &sink);
	automaton_finish(set->automaton, &matcher, on_emit, &sink);
	bytes_take(&data, sink.end);
	if (data.len == 0)
		return;
	scrub->held = malloc(data.len);
	if (!scrub->held)
		die_no_memory();
	memcpy(scrub->held, data.data, data.len);
	scrub->held_len = data.len;
}

void scrub_push(struct scrub *scrub, const struct scrub_set *set, struct bytes data,
		scrub_emit *emit, void *owner)
{
	char *held = scrub->held;
	size_t held_len = scrub->held_len;

	if (!set) {
		if (data.len > 0)
			emit(owner, data);
		return;
	}
	scrub->held = NULL;
	scrub->held_len = 0;
	if (held) {
		held = realloc(held, held_len + data.len);
		if (!held)
			die_no_memory();
		memcpy(held + held_len, data.data, data.len);
		data = (struct bytes){ held, held_len + data.len };
	}
	search(scrub, set, data, end_len(set, data), emit, owner);
	free(held);
}

void scrub_finish(struct scrub *scrub, const struct scrub_set *set, scrub_emit *emit, void *owner)
{
	struct bytes data = { scrub->held, scrub->held_len };
	char *held = scrub->held;

	scrub->held = NULL;
	scrub->held_len = 0;
	if (set && data.len > 0)
		search(scrub, set, data, 0, emit, owner);
	free(held);
}

bool scrub_is_in(const struct scrub_set *set, struct bytes text)
{
	return set && automaton_find(set->automaton, text);
}

static void append(void *owner, struct bytes data)
{
	char **at = owner;

	memcpy(*at, data.data, data.len);
	*at += data.len;
}

bool scrub_text(const struct scrub_set *set, struct bytes text, char *ret_text)
{
	struct scrub scrub = { .held = NULL };

	scrub_push(&scrub, set, text, append, &ret_text);
	scrub_finish(&scrub, set, append, &ret_text);
	scrub_fini(&scrub);
	return scrub.count > 0;
}

bool scrub_is_hindered_by(struct bytes field_name)
{
	static const struct bytes names[] = {
		BYTES("accept-encoding"),
		BYTES("grpc-accept-encoding"),
		BYTES("range"),
		BYTES("if-range"),
	};

	return bytes_is_any_nocase(field_name, names, ARRAY_LEN(names));
}
