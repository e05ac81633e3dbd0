/* SPDX-License-Identifier: MIT */
/*
 * Reads warder.json by the table of its keys.
 *
 * Comments are blanked out, jansson parses, and the tree is walked with a function for each
 * kind of key. jansson does not tell where a value stood; so the walk knows its own place as
 * ordinals, and an error looks the line up by counting in the text.
 *
 * jansson.h and base/json.h both have a json_string: no file includes both, and this one
 * calls neither.
 */
#include "config/file.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/die.h"
#include "config/jsonc.h"
#include "config/keys.h"

#define STEPS_MAX 8 /* places on the way to a value: the table's groups are not deeper */

/* Where the walk is: a member of an object or, without a name, an element of a list. */
struct place {
	const struct place *up; /* NULL for the outermost object */
	const char *name;
	size_t ordinal;
};

struct reader {
	const char *name; /* of the file */
	size_t dir_len;   /* how much of it is its directory, with the slash */
	struct bytes text;
	struct config_file *file;
	bool is_seen[KEYS_MAX]; /* keys of which there is one at most */
	struct err *err;
};

typedef int kind_reader(struct reader *reader, const struct place *place, const struct key *key,
			json_t *value);

static kind_reader read_value;

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

/* Says "file:line: " and what is wrong at a place; `fmt` goes on after its path. */
static int fail(const struct reader *reader, const struct place *place, const char *fmt, ...)
	printf_like(3);

static int fail(const struct reader *reader, const struct place *place, const char *fmt, ...)
{
	char what[256];
	struct buf path;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	buf_init(&path, 80);
	buf_add_text(&path, place->up ? "" : "the file");
	format_path(place, &path);
	err_say(reader->err, EINVAL, "%.160s:%zu: %s%s", reader->name, line_of(reader, place),
		path.data, what);
	buf_fini(&path);
	return -EINVAL;
}

static int fail_kind(const struct reader *reader, const struct place *place, const struct key *key)
{
	switch (key->kind) {
	case KEY_TEXT:
	case KEY_PATH:
		return fail(reader, place, " must be a text such as %s", key->example);
	case KEY_NUMBER:
		if (*key->example == '"')
			return fail(reader, place, " must be a text such as %s or a number",
				    key->example);
		return fail(reader, place, " must be a number such as %s", key->example);
	case KEY_GROUP:
	case KEY_PAIRS:
		return fail(reader, place, " must be an object such as %s", key->example);
	case KEY_MOUNTS:
		return fail(reader, place, " must be a list such as %s", key->example);
	case KEY_LLM:
		return fail(reader, place, " must be an object such as %s, or a list of them",
			    key->example);
	}
	return -EINVAL;
}

static void words_init(struct config_words *list, struct arena *arena)
{
	list->words = arena_alloc(arena, (CONFIG_WORDS_MAX + 1) * sizeof(*list->words));
}

static int add_words(struct reader *reader, const struct place *place, struct config_words *list,
		     const char *option, const char *value)
{
	if (list->count + 2 > CONFIG_WORDS_MAX)
		return fail(reader, place, " is one too many: a file may set %d options",
			    CONFIG_WORDS_MAX / 2);
	list->words[list->count++] = option;
	list->words[list->count++] = value;
	return 0;
}

static int add_option(struct reader *reader, const struct place *place, unsigned int side,
		      const char *option, const char *value)
{
	int r = 0;

	if (side & KEY_RUN)
		r = add_words(reader, place, &reader->file->run, option, value);
	if (r == 0 && side & KEY_KEEPER)
		r = add_words(reader, place, &reader->file->keeper, option, value);
	return r;
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

/* The value as a word, or NULL when it is neither text nor number. */
static const char *scalar_text(struct reader *reader, json_t *value)
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

static int read_scalar(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value, const char **ret_text)
{
	bool is_path = key->kind == KEY_PATH;

	*ret_text = NULL;
	if (key->kind == KEY_NUMBER)
		*ret_text = scalar_text(reader, value);
	else if (json_is_string(value))
		*ret_text = is_path ? resolve_path(reader, json_string_value(value))
				    : arena_strdup(&reader->file->arena, json_string_value(value));
	return *ret_text ? 0 : fail_kind(reader, place, key);
}

static int read_option(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value)
{
	const char *text;
	int r = read_scalar(reader, place, key, value, &text);

	return r < 0 ? r : add_option(reader, place, key->side, key->option, text);
}

static int read_pairs(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	struct place member = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_object(value))
		return fail_kind(reader, place, key);
	json_object_foreach(value, member.name, item)
	{
		const char *text = scalar_text(reader, item);

		if (strchr(member.name, '='))
			return fail(reader, &member, ": a name cannot contain '='");
		if (!text)
			return fail(reader, &member, " must be a text or a number");
		text = arena_printf(&reader->file->arena, "%s=%s", member.name, text);
		r = add_option(reader, &member, key->side, key->option, text);
		if (r < 0)
			return r;
		member.ordinal++;
	}
	return r;
}

/* The row of a member; an error names the nearest. */
static int find_key(const struct reader *reader, const struct place *member, const char *group,
		    const struct key **ret_key)
{
	*ret_key = key_find(group, member->name);
	if (*ret_key)
		return 0;
	fail(reader, member, " is not a known key");
	key_hint(group, member->name, reader->err);
	return -EINVAL;
}

static int read_group(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	struct place member = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_object(value))
		return fail_kind(reader, place, key);
	json_object_foreach(value, member.name, item)
	{
		const struct key *row;

		r = find_key(reader, &member, key->name, &row);
		if (r == 0)
			r = read_value(reader, &member, row, item);
		if (r < 0)
			return r;
		member.ordinal++;
	}
	return r;
}

/* The members of one entry of a list, by row of the table. */
struct entry {
	const char *texts[KEYS_MAX]; /* NULL for those it has not */
	size_t ordinals[KEYS_MAX];
};

static const char *entry_get(const struct entry *entry, const char *group, const char *name)
{
	return entry->texts[key_find(group, name) - keys];
}

/* Where a member of the entry at `up` stands. */
static struct place entry_place(const struct entry *entry, const struct place *up,
				const char *group, const char *name)
{
	size_t ordinal = entry->ordinals[key_find(group, name) - keys];

	return (struct place){ .up = up, .name = name, .ordinal = ordinal };
}

static int read_member(struct reader *reader, const struct place *member, const char *group,
		       json_t *value, struct entry *entry)
{
	const struct key *key;
	size_t row;
	int r = find_key(reader, member, group, &key);

	if (r < 0)
		return r;
	row = (size_t)(key - keys);
	if (key->side & KEY_ONCE && reader->is_seen[row])
		return fail(reader, member, ": another entry has a %s already", key->name);
	reader->is_seen[row] = true;
	entry->ordinals[row] = member->ordinal;
	return read_scalar(reader, member, key, value, &entry->texts[row]);
}

static int read_entry(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value, struct entry *ret_entry)
{
	struct place member = { .up = place };
	json_t *item;
	int r = 0;

	*ret_entry = (struct entry){ 0 };
	if (!json_is_object(value))
		return fail(reader, place, " must be an object");
	json_object_foreach(value, member.name, item)
	{
		r = read_member(reader, &member, key->name, item, ret_entry);
		if (r < 0)
			return r;
		member.ordinal++;
	}
	return r;
}

/* Source and destination, or destination and size, as the options have them: A[:B]. */
static int add_mount(struct reader *reader, const struct place *place, const char *option,
		     const char *first, const char *second)
{
	const char *text = first;

	if (strchr(first, ':') || (second && strchr(second, ':')))
		return fail(reader, place, ": a path with ':' in it cannot be mounted");
	if (second)
		text = arena_printf(&reader->file->arena, "%s:%s", first, second);
	return add_option(reader, place, KEY_RUN, option, text);
}

static int read_mount(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	const char *source, *dest, *mode, *size;
	struct entry entry;
	int r = read_entry(reader, place, key, value, &entry);

	if (r < 0)
		return r;
	source = entry_get(&entry, "mounts", "source");
	dest = entry_get(&entry, "mounts", "dest");
	mode = entry_get(&entry, "mounts", "mode");
	size = entry_get(&entry, "mounts", "size");
	if (mode && strcmp(mode, "tmpfs") == 0) {
		if (source || !dest)
			return fail(reader, place, ": a tmpfs has a dest and no source");
		return add_mount(reader, place, "--tmpfs", dest, size);
	}
	if (mode && strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0) {
		struct place member = entry_place(&entry, place, "mounts", "mode");

		return fail(reader, &member, " must be \"ro\", \"rw\" or \"tmpfs\"");
	}
	if (!source)
		return fail(reader, place, " needs a source such as \"/srv/repo\"");
	if (size)
		return fail(reader, place, ": only a tmpfs has a size");
	return add_mount(reader, place, mode && mode[1] == 'w' ? "--rw" : "--ro", source, dest);
}

static int read_mounts(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value)
{
	struct place element = { .up = place };
	json_t *item;
	int r = 0;

	if (!json_is_array(value))
		return fail_kind(reader, place, key);
	json_array_foreach(value, element.ordinal, item)
	{
		r = read_mount(reader, &element, key, item);
		if (r < 0)
			return r;
	}
	return r;
}

/* --llm comes first: the options after it are its own. */
static int read_upstream(struct reader *reader, const struct place *place, const struct key *key,
			 json_t *value)
{
	const char *match, *upstream;
	struct entry entry;
	int r = read_entry(reader, place, key, value, &entry);

	if (r < 0)
		return r;
	match = entry_get(&entry, "llm", "match");
	upstream = entry_get(&entry, "llm", "upstream");
	if (!upstream)
		return fail(reader, place, " needs an upstream such as \"http://litellm:4000\"");
	if (match && (!*match || strchr(match, '='))) {
		struct place member = entry_place(&entry, place, "llm", "match");

		return fail(reader, &member, " must not be empty or contain '='");
	}
	if (match)
		upstream = arena_printf(&reader->file->arena, "%s=%s", match, upstream);
	r = add_option(reader, place, KEY_KEEPER, "--llm", upstream);
	for (size_t i = 0; r == 0 && i < key_count; i++)
		if (entry.texts[i] && keys[i].option)
			r = add_option(reader, place, keys[i].side, keys[i].option, entry.texts[i]);
	return r;
}

static int read_llm(struct reader *reader, const struct place *place, const struct key *key,
		    json_t *value)
{
	struct place element = { .up = place };
	json_t *item;
	int r = 0;

	if (json_is_object(value))
		return read_upstream(reader, place, key, value);
	if (!json_is_array(value))
		return fail_kind(reader, place, key);
	json_array_foreach(value, element.ordinal, item)
	{
		r = read_upstream(reader, &element, key, item);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_value(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value)
{
	static kind_reader *const readers[] = {
		[KEY_GROUP] = read_group,   [KEY_TEXT] = read_option, [KEY_PATH] = read_option,
		[KEY_NUMBER] = read_option, [KEY_PAIRS] = read_pairs, [KEY_MOUNTS] = read_mounts,
		[KEY_LLM] = read_llm,
	};

	return readers[key->kind](reader, place, key, value);
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

int config_file_parse(const char *name, struct bytes text, struct config_file *ret_file,
		      struct err *err)
{
	static const struct key outermost = { .name = "", .kind = KEY_GROUP, .example = "{}" };
	const struct place top = { 0 };
	const char *slash = strrchr(name, '/');
	struct reader reader = {
		.name = name,
		.dir_len = slash ? (size_t)(slash - name) + 1 : 0,
		.file = ret_file,
		.err = err,
	};
	_cleanup_free_ char *copy = NULL;
	json_t *root = NULL;
	int r;

	*ret_file = (struct config_file){ 0 };
	if (text.len > CONFIG_FILE_MAX)
		return err_say(err, EFBIG, "%.160s is larger than %zu bytes", name,
			       CONFIG_FILE_MAX);
	words_init(&ret_file->run, &ret_file->arena);
	words_init(&ret_file->keeper, &ret_file->arena);
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
		r = read_value(&reader, &top, &outermost, root);
	json_decref(root);
	if (r < 0)
		config_file_fini(ret_file);
	return r;
}

int config_file_read(const char *path, struct config_file *ret_file, struct err *err)
{
	_cleanup_file_ FILE *file = fopen(path, "re");
	char piece[4096];
	struct buf text;
	size_t len;
	int r;

	*ret_file = (struct config_file){ 0 };
	if (!file)
		return err_set(err, errno, "%.160s", path);
	buf_init(&text, CONFIG_FILE_MAX + 1); /* one more, to see that there is more */
	while (text.len < text.max && (len = fread(piece, 1, sizeof(piece), file)) > 0)
		buf_add(&text, piece, len);
	if (ferror(file))
		r = err_set(err, errno, "%.160s", path);
	else
		r = config_file_parse(path, (struct bytes){ text.data ? text.data : "", text.len },
				      ret_file, err);
	buf_fini(&text);
	return r;
}

void config_file_fini(struct config_file *file)
{
	arena_fini(&file->arena);
	*file = (struct config_file){ 0 };
}
