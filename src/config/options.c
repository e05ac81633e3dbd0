/* SPDX-License-Identifier: MIT */
/* Reads a command line by the rows of a table. */
#include "config/options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/runid.h"
#include "base/units.h"
#include "config/nearest.h"

/* Field access by offset; the kind of a row says which type its field has. */
static uint64_t *number_field(void *config, const struct option *option)
{
	return (uint64_t *)(void *)((char *)config + option->offset);
}

static const char **text_field(void *config, const struct option *option)
{
	return (const char **)(void *)((char *)config + option->offset);
}

static int read_number(void *config, const struct option *option, const char *text, struct err *err)
{
	static int (*const parsers[])(const char *, uint64_t *) = {
		[OPTION_COUNT] = units_parse_count,
		[OPTION_SIZE] = units_parse_size,
		[OPTION_DURATION] = units_parse_duration,
		[OPTION_MILLI] = units_parse_milli,
	};
	static const char *const forms[] = {
		[OPTION_COUNT] = "a whole number",
		[OPTION_SIZE] = "a size such as 512M",
		[OPTION_DURATION] = "a time such as 30s or 10m",
		[OPTION_MILLI] = "a number such as 1.5",
	};
	uint64_t value = 0;
	int r = parsers[option->kind](text, &value);

	if (r == -EINVAL)
		return err_say(err, EINVAL, "--%s: '%.40s' is not %s", option->name, text,
			       forms[option->kind]);
	if (r < 0 || value > option->high)
		return err_say(err, ERANGE, "--%s: '%.40s' is too large", option->name, text);
	if (value < option->low)
		return err_say(err, ERANGE,
			       "--%s: '%.40s' is too small; the least is %" PRIu64 "%s",
			       option->name, text,
			       option->kind == OPTION_MILLI ? option->low / 10 : option->low,
			       option->kind == OPTION_DURATION ? " ms"
			       : option->kind == OPTION_SIZE   ? " bytes"
			       : option->kind == OPTION_MILLI  ? " hundredths"
							       : "");
	*number_field(config, option) = value;
	return 0;
}

static int read_choice(void *config, const struct option *option, const char *text, struct err *err)
{
	size_t len = strlen(text);

	for (const char *word = option->argument; word;) {
		size_t word_len = strcspn(word, "|");

		if (len == word_len && memcmp(word, text, len) == 0) {
			*text_field(config, option) = text;
			return 0;
		}
		word = word[word_len] ? word + word_len + 1 : NULL;
	}
	return err_say(err, EINVAL, "--%s: '%.40s' is not one of %s", option->name, text,
		       option->argument);
}

static int apply(void *config, const struct option *option, const char *text, struct err *err)
{
	switch (option->kind) {
	case OPTION_FLAG: /* has no argument */
		break;
	case OPTION_STRING:
		if (!*text)
			return err_say(err, EINVAL, "--%s: is empty", option->name);
		*text_field(config, option) = text;
		return 0;
	case OPTION_RUN_ID:
		if (!runid_is_valid(text))
			return err_say(err, EINVAL,
				       "--%s: '%.80s' is not an id: up to %d letters, digits, "
				       "dots, dashes and underscores",
				       option->name, text, RUNID_MAX);
		*text_field(config, option) = text;
		return 0;
	case OPTION_CHOICE:
		return read_choice(config, option, text, err);
	case OPTION_COUNT:
	case OPTION_SIZE:
	case OPTION_DURATION:
	case OPTION_MILLI:
		return read_number(config, option, text, err);
	case OPTION_OWN:
		return option->read(config, option, text, err);
	}
	return 0;
}

static const struct option *find_long(const struct option_table *table, const char *name,
				      size_t len)
{
	for (size_t i = 0; i < table->count; i++)
		if (strlen(table->rows[i].name) == len &&
		    memcmp(table->rows[i].name, name, len) == 0)
			return &table->rows[i];
	return NULL;
}

static const struct option *find_short(const struct option_table *table, char name)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->rows[i].letter == name && name)
			return &table->rows[i];
	return NULL;
}

static int say_unknown(const struct option_table *table, const char *word, struct err *err)
{
	struct bytes name = { word, strcspn(word, "=") };
	struct nearest nearest;

	err_say(err, EINVAL, "unknown option '%.*s'", (int)(name.len > 60 ? 60 : name.len), word);
	bytes_take(&name, name.len < 2 ? name.len : 2); /* the dashes */
	nearest_init(&nearest, name);
	for (size_t i = 0; name.len > 0 && i < table->count; i++)
		nearest_try(&nearest, table->rows[i].name);
	if (nearest.found)
		err_hint(err, "did you mean --%s?", nearest.found);
	else
		err_hint(err, "'warder %s --help' lists them; what is not an option goes after --",
			 table->verb);
	return -EINVAL;
}

/* One word of the command line and what belongs to it. */
struct word {
	const struct option *option;
	const char *argument; /* NULL: not attached to the word */
};

static int read_word(const struct option_table *table, const char *text, struct word *ret_word,
		     struct err *err)
{
	size_t len = strcspn(text, "=");

	if (text[1] == '-') {
		ret_word->option = find_long(table, text + 2, len - 2);
		ret_word->argument = text[len] ? text + len + 1 : NULL;
	} else {
		ret_word->option = find_short(table, text[1]);
		ret_word->argument = text[2] ? text + 2 : NULL;
	}
	if (!ret_word->option)
		return say_unknown(table, text, err);
	if (ret_word->option->kind == OPTION_FLAG && ret_word->argument)
		return err_say(err, EINVAL, "--%s takes no argument", ret_word->option->name);
	return 0;
}

/* Reads the option at argv[*i] and, where it takes one, its argument. */
static int read_option(const struct option_table *table, void *config, int argc, char **argv,
		       int *i, struct err *err)
{
	struct word word = { 0 };
	int r = read_word(table, argv[*i], &word, err);

	if (r < 0)
		return r;
	if (word.option->kind == OPTION_FLAG) {
		*number_field(config, word.option) = word.option->low;
		return 0;
	}
	if (!word.argument) {
		if (*i + 1 >= argc)
			return err_say(err, EINVAL, "--%s needs an argument: %s", word.option->name,
				       word.option->argument);
		word.argument = argv[++*i];
	}
	return apply(config, word.option, word.argument, err);
}

int options_parse(const struct option_table *table, void *config, int argc, char **argv,
		  int *ret_rest, struct err *err)
{
	struct err later;
	int i, first = 0;

	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		int r;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		r = read_option(table, config, argc, argv, &i, first == 0 ? err : &later);
		if (first == 0)
			first = r;
	}
	*ret_rest = i;
	return first;
}

int options_apply(const struct option_table *table, void *config, const char *name,
		  const char *text, struct err *err)
{
	const struct option *option = find_long(table, name, strlen(name));

	if (!option)
		return say_unknown(table, name, err);
	if (option->kind != OPTION_FLAG)
		return apply(config, option, text, err);
	*number_field(config, option) = option->low;
	return 0;
}

bool option_is_variable(const char *text, size_t len)
{
	static const char characters[] = "0123456789_"
					 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "abcdefghijklmnopqrstuvwxyz";
	bool begins_with_digit = text[0] >= '0' && text[0] <= '9';

	return len > 0 && len <= OPTION_VARIABLE_MAX && strspn(text, characters) >= len &&
	       !begins_with_digit;
}

void options_print_help(const struct option_table *table, FILE *out)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *s = &table->rows[i];
		char left[64];
		int len;

		len = snprintf(left, sizeof(left), "  %c%c --%s%s%s", s->letter ? '-' : ' ',
			       s->letter ? s->letter : ' ', s->name, s->argument ? " " : "",
			       s->argument ? s->argument : "");
		if (len < 30)
			fprintf(out, "%-30s %s\n", left, s->help);
		else
			fprintf(out, "%s\n%-30s %s\n", left, "", s->help);
	}
}

void options_print_mdoc(const struct option_table *table, FILE *out)
{
	fprintf(out, ".Bl -tag -width Ds\n");
	for (size_t i = 0; i < table->count; i++) {
		const struct option *s = &table->rows[i];

		fprintf(out, ".It ");
		if (s->letter)
			fprintf(out, "Fl %c , ", s->letter);
		fprintf(out, "Fl -%s", s->name);
		if (s->argument)
			fprintf(out, " Ar %s", s->argument);
		fprintf(out, "\n%c%s.\n", s->help[0] >= 'a' ? s->help[0] - 'a' + 'A' : s->help[0],
			s->help + 1);
		if (*s->detail)
			fprintf(out, "%s\n", s->detail);
	}
	fprintf(out, ".El\n");
}
