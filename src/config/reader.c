/* SPDX-License-Identifier: MIT */
/*
 * Places, words and entries.
 *
 * jansson does not tell where a value stood; so the walk knows its own place as ordinals, and an
 * error looks the line up by counting in the text.
 */
#include "config/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/buf.h"
#include "config/jsonc.h"

#define PATH_LEN_MAX 80 /* of a place, as a message has it */
#define STEPS_MAX    8  /* places on the way to a value: the table's groups are not deeper */

/* Fills `steps` with the ordinals from the outermost object to a place; their number. */
static size_t steps_to(const struct place *place, size_t *steps)
{
	size_t count = 0;

	if (place->up) {
		count = steps_to(place->up, steps);
		assert(count < STEPS_MAX);
		steps[count++] = place->ordinal;
	}
	return count;
}

static size_t line_of(const struct reader *reader, const struct place *place)
{
	size_t steps[STEPS_MAX];
	size_t count = steps_to(place, steps);

	return jsonc_line(reader->text, steps, count);
}

/* "limits.memory", "llm[1].port"; what is too long is cut. */
static void format_path(const struct place *place, struct buf *out)
{
	char ordinal[32];

	if (!place->up)
		return;
	format_path(place->up, out);
	if (!place->name) {
		snprintf(ordinal, sizeof(ordinal), "[%zu]", place->ordinal);
		buf_add_text(out, ordinal);
		return;
	}
	if (place->up->up)
		buf_add_text(out, ".");
	buf_add_text(out, place->name);
}

int reader_fail(const struct reader *reader, const struct place *place, const char *fmt, ...)
{
	char what[256];
	struct buf path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	buf_init(&path, PATH_LEN_MAX);
	buf_add_text(&path, place->up ? "" : "the file");
	format_path(place, &path);
	err_say(reader->err, EINVAL, "%.160s:%zu: %s%s", reader->name, line_of(reader, place),
		path.data, what);
	buf_fini(&path);
	return -EINVAL;
}

int reader_fail_kind(const struct reader *reader, const struct place *place, const struct key *key)
{
	switch (key->kind) {
	case KEY_TEXT:
	case KEY_PATH:
	case KEY_VALUE:
		return reader_fail(reader, place, " must be a text such as %s", key->example);
	case KEY_NUMBER:
	case KEY_LIMIT:
		if (*key->example == '"')
			return reader_fail(reader, place, " must be a text such as %s or a number",
					   key->example);
		return reader_fail(reader, place, " must be a number such as %s", key->example);
	case KEY_GROUP:
	case KEY_PAIRS:
	case KEY_LIMITS:
	case KEY_SECRETS:
		return reader_fail(reader, place, " must be an object such as %s", key->example);
	case KEY_MOUNTS:
	case KEY_LIST:
	case KEY_WORDS:
		return reader_fail(reader, place, " must be a list such as %s", key->example);
	case KEY_FLAG:
		return reader_fail(reader, place, " must be true or false");
	case KEY_LLM:
		return reader_fail(reader, place,
				   " must be an object such as %s, or a list of them",
				   key->example);
	}
	return -EINVAL;
}

static int add_words(struct reader *reader, const struct place *place, struct config_words *list,
		     const char *option, const char *value)
{
	if (list->count + 2 > CONFIG_WORDS_MAX)
		return reader_fail(reader, place, " is one too many: a file may set %d options",
				   CONFIG_WORDS_MAX / 2);
	list->words[list->count++] = option;
	list->words[list->count++] = value;
	return 0;
}

int reader_add(struct reader *reader, const struct place *place, unsigned int side,
	       const char *option, const char *value)
{
	int r = 0;

	if (side & KEY_RUN)
		r = add_words(reader, place, &reader->file->run, option, value);
	if (r == 0 && side & KEY_KEEPER)
		r = add_words(reader, place, &reader->file->keeper, option, value);
	if (r == 0 && side & KEY_SHARED)
		r = add_words(reader, place, &reader->file->shared, option, value);
	return r;
}

void reader_mark(struct reader *reader, const struct place *place, unsigned int side)
{
	struct config_mark *mark = side & KEY_RUN ? &reader->file->run_mark
						  : &reader->file->shared_mark;
	struct buf path;

	if (side & KEY_KEEPER || mark->key)
		return;
	buf_init(&path, PATH_LEN_MAX);
	format_path(place, &path);
	mark->key = arena_strdup(&reader->file->arena, path.data);
	mark->line = line_of(reader, place);
	buf_fini(&path);
}

static const char *resolve_path(struct reader *reader, const char *path)
{
	/* An empty one stays empty, for the option to refuse. */
	if (*path == '/' || *path == '\0' || reader->dir_len == 0)
		return arena_strdup(&reader->file->arena, path);
	return arena_printf(&reader->file->arena, "%.*s%s", (int)reader->dir_len, reader->name,
			    path);
}

/* As it would be written by hand: 1.5 and not 1.5000000000000000. */
static const char *format_real(struct arena *arena, double value)
{
	char text[64];

	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	return arena_strdup(arena, text);
}

const char *reader_scalar_text(struct reader *reader, json_t *value)
{
	struct arena *arena = &reader->file->arena;

	if (json_is_string(value))
		return arena_strdup(arena, json_string_value(value));
	if (json_is_integer(value))
		return arena_printf(arena, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (json_is_real(value))
		return format_real(arena, json_real_value(value));
	return NULL;
}

/* Texts, as one word with commas between them. */
static int join_texts(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value, const char **ret_text)
{
	struct arena *arena = &reader->file->arena;
	struct place element = { .up = place };
	const char *joined = NULL;
	json_t *item;

	if (!json_is_array(value))
		return reader_fail_kind(reader, place, key);
	json_array_foreach(value, element.ordinal, item)
	{
		const char *text = json_string_value(item);

		/* What separates words, or ends a list of hosts, cannot be in one. */
		if (!text || !*text || strpbrk(text, ",@"))
			return reader_fail(reader, &element, " must be a text such as those in %s",
					   key->example);
		joined = joined ? arena_printf(arena, "%s,%s", joined, text)
				: arena_strdup(arena, text);
	}
	if (!joined)
		return reader_fail(reader, place, " must not be empty; an example is %s",
				   key->example);
	*ret_text = joined;
	return 0;
}

int reader_read_scalar(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value, const char **ret_text)
{
	const char *text = json_string_value(value);

	*ret_text = NULL;
	switch (key->kind) {
	case KEY_WORDS:
		return join_texts(reader, place, key, value, ret_text);
	case KEY_FLAG:
		if (!json_is_boolean(value))
			return reader_fail_kind(reader, place, key);
		*ret_text = json_is_true(value) ? "true" : NULL;
		return 0;
	case KEY_VALUE: /* no copy of it but one */
		*ret_text = text ? "" : NULL;
		break;
	case KEY_NUMBER:
	case KEY_LIMIT:
		*ret_text = reader_scalar_text(reader, value);
		break;
	case KEY_PATH:
		*ret_text = text ? resolve_path(reader, text) : NULL;
		break;
	default:
		*ret_text = text ? arena_strdup(&reader->file->arena, text) : NULL;
		break;
	}
	return *ret_text ? 0 : reader_fail_kind(reader, place, key);
}

int reader_each_element(struct reader *reader, const struct place *place, const struct key *key,
			json_t *value, kind_reader *read)
{
	struct place element = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_array(value))
		return reader_fail_kind(reader, place, key);
	json_array_foreach(value, element.ordinal, item)
	{
		r = read(reader, &element, key, item);
		if (r < 0)
			return r;
	}
	return r;
}

int reader_each_member(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value, kind_reader *read)
{
	struct place member = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_object(value))
		return reader_fail_kind(reader, place, key);
	json_object_foreach(value, member.name, item)
	{
		r = read(reader, &member, key, item);
		if (r < 0)
			return r;
		member.ordinal++;
	}
	return r;
}

int reader_find_key(const struct reader *reader, const struct place *member, const char *group,
		    const struct key **ret_key)
{
	*ret_key = key_find(group, member->name);
	if (*ret_key)
		return 0;
	reader_fail(reader, member, " is not a known key");
	key_hint(group, member->name, reader->err);
	return -EINVAL;
}

/* ---- entries ---- */

const char *entry_get(const struct entry *entry, const char *group, const char *name)
{
	return entry->texts[key_find(group, name) - keys];
}

struct place entry_place(const struct entry *entry, const struct place *up, const char *group,
			 const char *name)
{
	size_t ordinal = entry->ordinals[key_find(group, name) - keys];

	return (struct place){ .up = up, .name = name, .ordinal = ordinal };
}

static int read_member(struct reader *reader, const struct place *member, const char *group,
		       json_t *value, struct entry *entry)
{
	const struct key *key;
	size_t row;
	int r = reader_find_key(reader, member, group, &key);

	if (r < 0)
		return r;
	row = (size_t)(key - keys);
	if (key->side & KEY_ONCE && reader->is_seen[row])
		return reader_fail(reader, member, ": another entry has a %s already", key->name);
	reader->is_seen[row] = true;
	entry->ordinals[row] = member->ordinal;
	reader_mark(reader, member, key->side);
	/* The members of a group within it are rows as well. */
	if (key->kind == KEY_GROUP) {
		entry->texts[row] = "";
		return reader_read_entry(reader, member, key, value, entry);
	}
	return reader_read_scalar(reader, member, key, value, &entry->texts[row]);
}

int reader_read_entry(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value, struct entry *entry)
{
	struct place member = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_object(value))
		return reader_fail(reader, place, " must be an object");
	json_object_foreach(value, member.name, item)
	{
		r = read_member(reader, &member, key->name, item, entry);
		if (r < 0)
			return r;
		member.ordinal++;
	}
	return r;
}
