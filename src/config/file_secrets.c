/* SPDX-License-Identifier: MIT */
/* The secrets of a file: options for what they are, and their values apart. */
#include <errno.h>

#include "config/keeper_config.h"
#include "config/options.h"
#include "config/reader.h"

/* How a member is known by which a top-level object must be a secret. */
static bool is_secret_object(json_t *value)
{
	static const char *const members[] = { "value", "from", "hosts", "placeholder", "inject" };

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (json_object_get(value, members[i]))
			return true;
	return false;
}

bool is_secrets_file(json_t *root)
{
	bool has_secret = false;
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value)
	{
		if (key_find("", name))
			return false;
		has_secret = has_secret || is_secret_object(value);
	}
	return has_secret;
}

/* Puts a value aside and names it as a source. */
static const char *keep_value(struct reader *reader, const char *name, const char *text)
{
	struct config_file *file = reader->file;

	if (!file->values)
		file->values = arena_alloc(&file->arena,
					   KEEPER_SECRETS_MAX * sizeof(*file->values));
	file->values[file->value_count++] = (struct config_value){
		arena_strdup(&file->arena, name),
		arena_strdup(&file->arena, text),
	};
	return arena_printf(&file->arena, "config:%s", name);
}

static int find_source(struct reader *reader, const struct place *place, const struct entry *entry,
		       json_t *value, const char **ret_source)
{
	const char *from = entry_get(entry, "secrets", "from");
	const char *text = json_string_value(json_object_get(value, "value"));

	if (!text == !from)
		return reader_fail(reader, place,
				   text ? ": has a value and a from; one is enough"
					: " needs a value or a from such as "
					  "\"env:NAME\"");
	if (text && !*text) {
		struct place member = entry_place(entry, place, "secrets", "value");

		return reader_fail(reader, &member, " is empty");
	}
	if (text && reader->file->value_count == KEEPER_SECRETS_MAX)
		return reader_fail(reader, place, " is one too many: there may be %d",
				   KEEPER_SECRETS_MAX);
	*ret_source = text ? keep_value(reader, place->name, text) : from;
	return 0;
}

/* --secret comes first: the options after it name it. */
static int add_secret(struct reader *reader, const struct place *place, const struct entry *entry,
		      const char *source)
{
	const char *hosts = entry_get(entry, "secrets", "hosts");

	if (!hosts)
		return reader_fail(reader, place, " needs hosts such as [\"api.example.com\"]");
	return reader_add(
		reader, place, KEY_KEEPER, "--secret",
		arena_printf(&reader->file->arena, "%s=%s@%s", place->name, source, hosts));
}

static int add_inject(struct reader *reader, const struct place *place, const struct entry *entry)
{
	const char *header = entry_get(entry, "inject", "header");
	const char *format = entry_get(entry, "inject", "format");

	if (!entry_get(entry, "secrets", "inject"))
		return 0;
	if (!header) {
		struct place member = entry_place(entry, place, "secrets", "inject");

		return reader_fail(reader, &member, " needs a header such as \"Authorization\"");
	}
	return reader_add(reader, place, KEY_KEEPER, "--secret-inject",
			  arena_printf(&reader->file->arena, "%s=%s: %s", place->name, header,
				       format ? format : "{value}"));
}

static int add_others(struct reader *reader, const struct place *place, const struct entry *entry)
{
	struct arena *arena = &reader->file->arena;
	int r = 0;

	for (size_t i = 0; r == 0 && i < key_count; i++)
		if (entry->texts[i] && keys[i].option)
			r = reader_add(reader, place, KEY_KEEPER, keys[i].option,
				       keys[i].kind == KEY_FLAG
					       ? arena_strdup(arena, place->name)
					       : arena_printf(arena, "%s=%s", place->name,
							      entry->texts[i]));
	return r;
}

static int read_secret(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value)
{
	struct entry entry = { 0 };
	const char *source = NULL;
	int r;

	if (!option_is_variable(place->name, strlen(place->name)))
		return reader_fail(reader, place,
				   ": a secret's name is a variable's: letters, "
				   "digits and underscores, no digit first");
	if (!json_is_object(value))
		return reader_fail(reader, place,
				   " must be an object with a value, or a from, and "
				   "hosts");
	r = reader_read_entry(reader, place, key, value, &entry);
	if (r == 0)
		r = find_source(reader, place, &entry, value, &source);
	if (r == 0)
		r = add_secret(reader, place, &entry, source);
	if (r == 0)
		r = add_inject(reader, place, &entry);
	return r < 0 ? r : add_others(reader, place, &entry);
}

int read_secrets(struct reader *reader, const struct place *place, const struct key *key,
		 json_t *value)
{
	return reader_each_member(reader, place, key, value, read_secret);
}
