/* SPDX-License-Identifier: MIT */
/* Patterns while they are collected. */
#include "keeper/pattern_list.h"

#include <errno.h>

#include "base/die.h"
#include "keeper/form.h"

/* Shorter forms, other than the text itself, would be found where they are not. */
#define ENCODED_MIN 6

struct pattern_block {
	struct pattern_block *next;
	size_t len;
	char text[];
};

void pattern_list_init(struct pattern_list *list)
{
	*list = (struct pattern_list){ .patterns = calloc(AUTOMATON_PATTERNS_MAX,
							  sizeof(*list->patterns)) };
	if (!list->patterns)
		die_no_memory();
}

void pattern_list_fini(struct pattern_list *list)
{
	while (list->blocks) {
		struct pattern_block *block = list->blocks;

		list->blocks = block->next;
		explicit_bzero(block->text, block->len);
		free(block);
	}
	free(list->patterns);
	*list = (struct pattern_list){ 0 };
}

/* Room in one block, which is the list's. */
static char *add_block(struct pattern_list *list, size_t len)
{
	struct pattern_block *block = malloc(sizeof(*block) + len);

	if (!block)
		die_no_memory();
	block->next = list->blocks;
	block->len = len;
	list->blocks = block;
	return block->text;
}

static struct bytes copy(struct bytes text, char *ret_text)
{
	if (text.len > 0)
		memcpy(ret_text, text.data, text.len);
	return (struct bytes){ ret_text, text.len };
}

int pattern_list_add(struct pattern_list *list, const struct pattern *pattern)
{
	struct bytes text = pattern->text, replacement = pattern->replacement;
	char *room;

	for (size_t i = 0; i < list->count; i++)
		if (bytes_equal(list->patterns[i].text, text))
			return 0;
	if (list->count == AUTOMATON_PATTERNS_MAX || text.len > AUTOMATON_BYTES_MAX - list->bytes)
		return -E2BIG;
	room = add_block(list, text.len + replacement.len);
	list->bytes += text.len;
	list->patterns[list->count++] = (struct pattern){
		.text = copy(text, room),
		.replacement = copy(replacement, room + text.len),
		.tag = pattern->tag,
	};
	return 0;
}

/* ---- forms ---- */

static char *allocate(size_t size)
{
	char *data = calloc(1, size);

	if (!data)
		die_no_memory();
	return data;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool pattern_is_of_same_shape(struct bytes a, struct bytes b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (is_alnum(a.data[i]) ? !is_alnum(b.data[i]) : a.data[i] != b.data[i])
			return false;
	return true;
}

/* The first of its kind is right wherever that kind is. */
static size_t right_form(unsigned int kinds)
{
	size_t form = 0;

	if (kinds != FORM_RAW)
		kinds &= ~(unsigned int)FORM_RAW;
	while (!(kinds & form_kind(form)))
		form++;
	return form;
}

static size_t write_replacement(size_t form, const struct pattern *pattern, size_t len,
				unsigned int kinds, enum pattern_fit fit, char *ret_text)
{
	size_t written;

	if (fit == PATTERN_SAME_SYNTAX &&
	    !pattern_is_of_same_shape(pattern->text, pattern->replacement))
		form = right_form(kinds);
	written = form_write(form, pattern->replacement, ret_text);
	if (fit == PATTERN_SAME_SYNTAX)
		return written;
	if (written < len)
		memset(ret_text + written, '*', len - written);
	return len;
}

int pattern_list_add_forms(struct pattern_list *list, const struct pattern *pattern,
			   unsigned int kinds, enum pattern_fit fit)
{
	size_t longer = pattern->text.len > pattern->replacement.len ? pattern->text.len
								     : pattern->replacement.len;
	size_t size = FORM_SIZE(longer);
	char *text = allocate(size), *replacement = allocate(size);
	int r = 0;

	for (size_t form = 0; r == 0 && form < form_count(); form++) {
		size_t len = kinds & form_kind(form) ? form_write(form, pattern->text, text) : 0;
		size_t least = fit == PATTERN_SAME_LENGTH && form_kind(form) != FORM_RAW
				       ? ENCODED_MIN
				       : 1;
		struct pattern added = { { text, len }, { replacement, 0 }, pattern->tag };

		if (len < least)
			continue;
		added.replacement.len = write_replacement(form, pattern, len, kinds, fit,
							  replacement);
		r = pattern_list_add(list, &added);
	}
	explicit_bzero(text, size);
	explicit_bzero(replacement, size);
	free(text);
	free(replacement);
	return r;
}
