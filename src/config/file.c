/* SPDX-License-Identifier: MIT */
/*
 * Reads warder.json by the table of its keys.
 *
 * Comments are blanked out, jansson parses, and the tree is walked with a function for each
 * kind of key (reader.h).
 *
 * A file may hold secrets. Its text, and whatever jansson made of it, is wiped before it is
 * given back; what is left is the words, and the values that they name (INV-SECRETS-HOST-ONLY).
 *
 * jansson.h and base/json.h both have a json_string: no file includes both, and this one
 * calls neither.
 */
#include "config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/die.h"
#include "config/jsonc.h"
#include "config/reader.h"

static kind_reader read_value;

static int read_option(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value)
{
	const char *text;
	int r = reader_read_scalar(reader, place, key, value, &text);

	return r < 0 ? r : reader_add(reader, place, key->side, key->option, text);
}

static int read_text(struct reader *reader, const struct place *place, const struct key *key,
		     json_t *value)
{
	const char *text = json_string_value(value);

	if (!text)
		return reader_fail(reader, place, " must be a text such as those in %s",
				   key->example);
	return reader_add(reader, place, key->side, key->option,
			  arena_strdup(&reader->file->arena, text));
}

static int read_list(struct reader *reader, const struct place *place, const struct key *key,
		     json_t *value)
{
	return reader_each_element(reader, place, key, value, read_text);
}

static int read_pair(struct reader *reader, const struct place *member, const struct key *key,
		     json_t *value)
{
	const char *text = reader_scalar_text(reader, value);

	if (strchr(member->name, '='))
		return reader_fail(reader, member, ": a name cannot contain '='");
	if (!text)
		return reader_fail(reader, member, " must be a text or a number");
	text = arena_printf(&reader->file->arena, "%s=%s", member->name, text);
	return reader_add(reader, member, key->side, key->option, text);
}

static int read_pairs(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	return reader_each_member(reader, place, key, value, read_pair);
}

static int read_group_member(struct reader *reader, const struct place *member,
			     const struct key *group, json_t *value)
{
	const struct key *key;
	int r = reader_find_key(reader, member, group->name, &key);

	if (r < 0)
		return r;
	reader_mark(reader, member, key->side);
	return read_value(reader, member, key, value);
}

static int read_group(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	return reader_each_member(reader, place, key, value, read_group_member);
}

/* Source and destination, or destination and size, as the options have them: A[:B]. */
static int add_mount(struct reader *reader, const struct place *place, const char *option,
		     const char *first, const char *second)
{
	const char *text = first;

	if (strchr(first, ':') || (second && strchr(second, ':')))
		return reader_fail(reader, place, ": a path with ':' in it cannot be mounted");
	if (second)
		text = arena_printf(&reader->file->arena, "%s:%s", first, second);
	return reader_add(reader, place, KEY_RUN, option, text);
}

static int read_mount(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	const char *source, *dest, *mode, *size;
	struct entry entry = { 0 };
	int r = reader_read_entry(reader, place, key, value, &entry);

	if (r < 0)
		return r;
	source = entry_get(&entry, "mounts", "source");
	dest = entry_get(&entry, "mounts", "dest");
	mode = entry_get(&entry, "mounts", "mode");
	size = entry_get(&entry, "mounts", "size");
	if (mode && strcmp(mode, "tmpfs") == 0) {
		if (source || !dest)
			return reader_fail(reader, place, ": a tmpfs has a dest and no source");
		return add_mount(reader, place, "--tmpfs", dest, size);
	}
	if (mode && strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0) {
		struct place member = entry_place(&entry, place, "mounts", "mode");

		return reader_fail(reader, &member, " must be \"ro\", \"rw\" or \"tmpfs\"");
	}
	if (!source)
		return reader_fail(reader, place, " needs a source such as \"/srv/repo\"");
	if (size)
		return reader_fail(reader, place, ": only a tmpfs has a size");
	return add_mount(reader, place, mode && mode[1] == 'w' ? "--rw" : "--ro", source, dest);
}

static int read_mounts(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value)
{
	return reader_each_element(reader, place, key, value, read_mount);
}

/* --llm comes first: the options after it are its own. */
static int read_upstream(struct reader *reader, const struct place *place, const struct key *key,
			 json_t *value)
{
	const char *match, *upstream;
	struct entry entry = { 0 };
	int r = reader_read_entry(reader, place, key, value, &entry);

	if (r < 0)
		return r;
	match = entry_get(&entry, "llm", "match");
	upstream = entry_get(&entry, "llm", "upstream");
	if (!upstream)
		return reader_fail(reader, place,
				   " needs an upstream such as \"http://litellm:4000\"");
	if (match && (!*match || strchr(match, '='))) {
		struct place member = entry_place(&entry, place, "llm", "match");

		return reader_fail(reader, &member, " must not be empty or contain '='");
	}
	if (match)
		upstream = arena_printf(&reader->file->arena, "%s=%s", match, upstream);
	r = reader_add(reader, place, KEY_KEEPER, "--llm", upstream);
	for (size_t i = 0; r == 0 && i < key_count; i++)
		if (entry.texts[i] && keys[i].option)
			r = reader_add(reader, place, keys[i].side, keys[i].option, entry.texts[i]);
	return r;
}

static int read_llm(struct reader *reader, const struct place *place, const struct key *key,
		    json_t *value)
{
	if (json_is_object(value))
		return read_upstream(reader, place, key, value);
	return reader_each_element(reader, place, key, value, read_upstream);
}

/* What stands only within an entry is never asked for here. */
static int read_value(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	static kind_reader *const readers[] = {
		[KEY_GROUP] = read_group,   [KEY_TEXT] = read_option,
		[KEY_PATH] = read_option,   [KEY_NUMBER] = read_option,
		[KEY_PAIRS] = read_pairs,   [KEY_LIST] = read_list,
		[KEY_LIMIT] = read_limit,   [KEY_LIMITS] = read_limits,
		[KEY_MOUNTS] = read_mounts, [KEY_SECRETS] = read_secrets,
		[KEY_LLM] = read_llm,
	};

	return readers[key->kind](reader, place, key, value);
}

/* A file of secrets and nothing else stands for the object of that name. */
static int read_root(struct reader *reader, json_t *root)
{
	static const struct key outermost = { .name = "", .kind = KEY_GROUP, .example = "{}" };
	const struct place top = { 0 };

	if (is_secrets_file(root))
		return read_secrets(reader, &top, key_find("", "secrets"), root);
	return read_value(reader, &top, &outermost, root);
}

/*
 * What jansson has found, in words that quote nothing: its own text ends in "near" and a
 * piece of the file, which may be a piece of somebody's key.
 */
static const char *syntax_text(const json_error_t *error)
{
	static const char *const plain[] = {
		"string or '}' expected", "':' expected",         "'}' expected",
		"']' expected",           "invalid token",        "unexpected token",
		"invalid escape",         "end of file expected",
	};

	switch (json_error_code(error)) {
	case json_error_duplicate_key:
		return "a key is there twice";
	case json_error_invalid_utf8:
		return "not UTF-8";
	case json_error_numeric_overflow:
		return "a number is too large";
	case json_error_premature_end_of_input:
		return "the file ends too early";
	default:
		break;
	}
	if (strncmp(error->text, "unexpected newline", 18) == 0)
		return "a text has no closing quote";
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (strncmp(error->text, plain[i], strlen(plain[i])) == 0)
			return plain[i];
	return "not JSON";
}

static int load(const struct reader *reader, json_t **ret_root)
{
	json_error_t error;

	*ret_root = json_loadb(reader->text.data, reader->text.len, JSON_REJECT_DUPLICATES, &error);
	if (*ret_root)
		return 0;
	if (json_error_code(&error) == json_error_out_of_memory)
		die_no_memory();
	return err_say(reader->err, EINVAL, "%.160s:%d: %s", reader->name,
		       error.line > 0 ? error.line : 1, syntax_text(&error));
}

static int strip(const struct reader *reader, char *text)
{
	size_t line = 1;
	int r = jsonc_strip(text, reader->text.len, &line);

	if (r == -E2BIG)
		return err_say(reader->err, E2BIG, "%.160s:%zu: nested deeper than %d",
			       reader->name, line, JSONC_DEPTH_MAX);
	if (r < 0)
		return err_say(reader->err, EINVAL, "%.160s:%zu: a comment has no end",
			       reader->name, line);
	return 0;
}

/* jansson keeps texts in pieces of its own; none of them stays readable. */
union piece {
	size_t size;
	max_align_t alignment;
};

static void *piece_new(size_t size)
{
	union piece *piece = size < SIZE_MAX / 2 ? malloc(sizeof(*piece) + size) : NULL;

	if (!piece)
		return NULL;
	piece->size = size;
	return piece + 1;
}

static void piece_free(void *data)
{
	union piece *piece = data;

	if (!piece)
		return;
	piece--;
	explicit_bzero(piece + 1, piece->size);
	free(piece);
}

static void words_init(struct config_words *list, struct arena *arena)
{
	list->words = arena_alloc(arena, (CONFIG_WORDS_MAX + 1) * sizeof(*list->words));
}

int config_file_parse(const char *name, struct bytes text, struct config_file *ret_file,
		      struct err *err)
{
	const char *slash = strrchr(name, '/');
	struct reader reader = {
		.name = name,
		.dir_len = slash ? (size_t)(slash - name) + 1 : 0,
		.file = ret_file,
		.err = err,
	};
	json_t *root = NULL;
	char *copy;
	int r;

	*ret_file = (struct config_file){ 0 };
	if (text.len > CONFIG_FILE_MAX)
		return err_say(err, EFBIG, "%.160s is larger than %zu bytes", name,
			       CONFIG_FILE_MAX);
	json_set_alloc_funcs(piece_new, piece_free);
	words_init(&ret_file->run, &ret_file->arena);
	words_init(&ret_file->keeper, &ret_file->arena);
	words_init(&ret_file->shared, &ret_file->arena);
	copy = malloc(text.len + 1);
	if (!copy)
		die_no_memory();
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	reader.text = (struct bytes){ copy, text.len };
	r = strip(&reader, copy);
	if (r == 0)
		r = load(&reader, &root);
	if (r == 0)
		r = read_root(&reader, root);
	json_decref(root);
	explicit_bzero(copy, text.len);
	free(copy);
	if (r < 0)
		config_file_fini(ret_file);
	return r;
}

/* The whole of a file, and one byte more, to see that there is more; or -errno. */
static ssize_t read_whole(const char *path, char *text)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len <= CONFIG_FILE_MAX) {
		ssize_t n = read(fd, text + len, CONFIG_FILE_MAX + 1 - len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)len;
}

int config_file_read(const char *path, struct config_file *ret_file, struct err *err)
{
	/* In one piece from the start: what grows leaves copies behind. */
	char *text = malloc(CONFIG_FILE_MAX + 1);
	ssize_t len;
	int r;

	*ret_file = (struct config_file){ 0 };
	if (!text)
		die_no_memory();
	len = read_whole(path, text);
	if (len < 0)
		r = err_set(err, (int)-len, "%.160s", path);
	else
		r = config_file_parse(path, (struct bytes){ text, (size_t)len }, ret_file, err);
	if (len > 0)
		explicit_bzero(text, (size_t)len);
	free(text);
	return r;
}

int config_file_expect(const struct config_file *file, const char *name, enum config_use use,
		       struct err *err)
{
	const struct config_mark *mark = use == CONFIG_FOR_RUN ? &file->shared_mark
							       : &file->run_mark;

	if (!mark->key)
		return 0;
	return err_say(err, EINVAL, "%.160s:%zu: %s %s", name, mark->line, mark->key,
		       use == CONFIG_FOR_RUN
			       ? "is for 'warder keeper', and this file for a run or a gate"
			       : "is for 'warder run'; a shared keeper has no sandbox");
}

void config_file_wipe_values(struct config_file *file)
{
	for (size_t i = 0; i < file->value_count; i++)
		explicit_bzero(file->values[i].text, strlen(file->values[i].text));
	file->value_count = 0;
}

void config_file_fini(struct config_file *file)
{
	config_file_wipe_values(file);
	arena_fini(&file->arena);
	*file = (struct config_file){ 0 };
}
