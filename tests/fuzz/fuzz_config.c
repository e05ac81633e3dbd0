/* SPDX-License-Identifier: MIT */
/*
 * warder.json on any bytes: options of the table in pairs come out, the same ones with
 * comments around the text, or an error that tells a line.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "config/file.h"
#include "config/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAME "dir/w.json"

/* What groups make themselves has no row with an option. */
static bool is_option(const char *word, unsigned int side)
{
	static const char *const made[] = { "--ro", "--rw", "--tmpfs" };

	for (size_t i = 0; side == KEY_RUN && i < ARRAY_LEN(made); i++)
		if (strcmp(made[i], word) == 0)
			return true;
	for (size_t i = 0; i < key_count; i++)
		if (keys[i].side & side && keys[i].option && strcmp(keys[i].option, word) == 0)
			return true;
	return side == KEY_KEEPER && (strcmp(word, "--llm") == 0 || strcmp(word, "--secret") == 0 ||
				      strcmp(word, "--secret-inject") == 0);
}

static void check_words(const struct config_words *list, unsigned int side)
{
	if (list->count % 2 || list->count > CONFIG_WORDS_MAX)
		abort();
	for (size_t i = 0; i < list->count; i++) {
		struct bytes word = bytes_of(list->words[i]);
		size_t len;

		if (i % 2 == 0 && !is_option(word.data, side))
			abort();
		while (word.len > 0) {
			len = utf8_sequence(word.data, word.len);
			if (len == 0)
				abort();
			bytes_take(&word, len);
		}
	}
}

/* What only one can use is never without a mark, which says where. */
static void check_marks(const struct config_file *file)
{
	if ((file->run.count > 0 && !file->run_mark.key) ||
	    (file->shared.count > 0 && !file->shared_mark.key) ||
	    (file->run_mark.key && file->run_mark.line == 0) ||
	    (file->shared_mark.key && file->shared_mark.line == 0))
		abort();
}

static bool is_same(const struct config_words *a, const struct config_words *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->words[i], b->words[i]) != 0)
			return false;
	return true;
}

/* A line before and a comment after it change nothing but the line of an error. */
static void check_again(struct bytes text, int expected, const struct config_file *file)
{
	struct config_file again;
	struct err err = { 0 };
	struct buf more;
	int r;

	buf_init(&more, CONFIG_FILE_MAX);
	buf_add_text(&more, "/* { \" */ // [\n");
	buf_add(&more, text.data, text.len);
	buf_add_text(&more, "\n// \"");
	r = config_file_parse(NAME, (struct bytes){ more.data, more.len }, &again, &err);
	if (expected == 0 &&
	    (r < 0 || !is_same(&file->run, &again.run) || !is_same(&file->keeper, &again.keeper) ||
	     !is_same(&file->shared, &again.shared)))
		abort();
	config_file_fini(&again);
	buf_fini(&more);
}

static void check_error(const struct err *err, int r)
{
	size_t at = sizeof(NAME);

	if (err->code != -r || strncmp(err->text, NAME ":", at) != 0 || err->text[at] < '1' ||
	    err->text[at] > '9')
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = { (const char *)data, size };
	struct config_file file;
	struct err err = { 0 };
	int r = config_file_parse(NAME, text, &file, &err);

	if (r < 0)
		check_error(&err, r);
	check_words(&file.run, KEY_RUN);
	check_words(&file.keeper, KEY_KEEPER);
	check_words(&file.shared, KEY_SHARED);
	check_marks(&file);
	check_again(text, r, &file);
	config_file_fini(&file);
	return 0;
}
