/* SPDX-License-Identifier: MIT */
/* The limits of a file: words of --limit. */
#include "config/reader.h"

/* What would end the value within the word. */
static bool is_plain(const char *text)
{
	return text && !strpbrk(text, ",:=");
}

int read_limit(struct reader *reader, const struct place *place, const struct key *key,
	       json_t *value)
{
	const char *text;
	int r = reader_read_scalar(reader, place, key, value, &text);

	if (r < 0)
		return r;
	if (!is_plain(text))
		return reader_fail_kind(reader, place, key);
	return reader_add(reader, place, key->side, key->option,
			  arena_printf(&reader->file->arena, "run:%s=%s", key->name, text));
}

/* The limits of one account or one host, as one word. */
static int read_row(struct reader *reader, const struct place *place, const struct key *key,
		    json_t *value)
{
	struct arena *arena = &reader->file->arena;
	struct entry entry = { 0 };
	const char *words = NULL;
	int r = reader_read_entry(reader, place, key, value, &entry);

	if (r < 0)
		return r;
	for (size_t i = 0; i < key_count; i++) {
		if (!entry.texts[i])
			continue;
		if (!is_plain(entry.texts[i])) {
			struct place member = entry_place(&entry, place, key->name, keys[i].name);

			return reader_fail_kind(reader, &member, &keys[i]);
		}
		words = words ? arena_printf(arena, "%s,%s=%s", words, keys[i].name, entry.texts[i])
			      : arena_printf(arena, "%s=%s", keys[i].name, entry.texts[i]);
	}
	if (!words)
		return reader_fail(reader, place, " has no limit; an example is %s", key->example);
	/* "account_limits" is of accounts, and "host_limits" of hosts. */
	return reader_add(reader, place, key->side, "--limit",
			  arena_printf(arena, "%.*s=%s:%s", (int)strcspn(key->name, "_"), key->name,
				       place->name, words));
}

int read_limits(struct reader *reader, const struct place *place, const struct key *key,
		json_t *value)
{
	return reader_each_member(reader, place, key, value, read_row);
}
