/* SPDX-License-Identifier: MIT */
/* Reads the command line by the rows of settings.def. */
#include "config/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/runid.h"
#include "base/units.h"

#define MOUNTS_MAX 256
#define ENV_MAX    1024

enum kind {
	FLAG,     /* no argument; sets the field to `low` */
	STRING,   /* any text that is not empty */
	CHOICE,   /* one of the words in the argument's name, which are separated by | */
	RUN_ID,   /* an id as base/runid.h has it */
	COUNT,    /* a whole number */
	SIZE,     /* a number of bytes with a unit */
	DURATION, /* a time with a unit */
	MILLI,    /* a number with up to three places */
	MOUNT,    /* appended to the mounts, with mode `low` */
	ENV,      /* appended to the variables */
};

struct setting {
	const char *option;
	char short_option;
	enum kind kind;
	size_t offset;
	uint64_t low, high;
	const char *argument;
	const char *help;
	const char *detail;
};

static const struct setting settings[] = {
#define SETTING(option, short_option, kind, field, low, high, argument, help, detail)              \
	{ option,   short_option, kind,  offsetof(struct run_config, field), low, high,            \
	  argument, help,         detail },
#include "config/settings.def"
#undef SETTING
};

/* Field access by offset; the kind of a row says which type its field has. */
static uint64_t *number_field(struct run_config *config, const struct setting *setting)
{
	return (uint64_t *)(void *)((char *)config + setting->offset);
}

static const char **text_field(struct run_config *config, const struct setting *setting)
{
	return (const char **)(void *)((char *)config + setting->offset);
}

static int read_number(struct run_config *config, const struct setting *setting, const char *text,
		       struct err *err)
{
	static int (*const parsers[])(const char *, uint64_t *) = {
		[COUNT] = units_parse_count,
		[SIZE] = units_parse_size,
		[DURATION] = units_parse_duration,
		[MILLI] = units_parse_milli,
	};
	static const char *const forms[] = {
		[COUNT] = "a whole number",
		[SIZE] = "a size such as 512M",
		[DURATION] = "a time such as 30s or 10m",
		[MILLI] = "a number such as 1.5",
	};
	uint64_t value = 0;
	int r = parsers[setting->kind](text, &value);

	if (r == -EINVAL)
		return err_say(err, EINVAL, "--%s: '%.40s' is not %s", setting->option, text,
			       forms[setting->kind]);
	if (r < 0 || value > setting->high)
		return err_say(err, ERANGE, "--%s: '%.40s' is too large", setting->option, text);
	if (value < setting->low)
		return err_say(err, ERANGE,
			       "--%s: '%.40s' is too small; the least is %" PRIu64 "%s",
			       setting->option, text,
			       setting->kind == MILLI ? setting->low / 10 : setting->low,
			       setting->kind == DURATION ? " ms"
			       : setting->kind == SIZE   ? " bytes"
			       : setting->kind == MILLI  ? " hundredths"
							 : "");
	*number_field(config, setting) = value;
	return 0;
}

static int read_choice(struct run_config *config, const struct setting *setting, const char *text,
		       struct err *err)
{
	size_t len = strlen(text);

	for (const char *word = setting->argument; word;) {
		size_t word_len = strcspn(word, "|");

		if (len == word_len && memcmp(word, text, len) == 0) {
			*text_field(config, setting) = text;
			return 0;
		}
		word = word[word_len] ? word + word_len + 1 : NULL;
	}
	return err_say(err, EINVAL, "--%s: '%.40s' is not one of %s", setting->option, text,
		       setting->argument);
}

/* "A:B" is A and B; without a colon, the whole is A. */
static const char *split(struct arena *arena, const char *text, const char **ret_second)
{
	const char *colon = strchr(text, ':');

	*ret_second = colon ? colon + 1 : NULL;
	return colon ? arena_printf(arena, "%.*s", (int)(colon - text), text) : text;
}

static int read_mount(struct run_config *config, const struct setting *setting, const char *text,
		      struct err *err)
{
	struct warder_mount mount = { .mode = (enum warder_mount_mode)setting->low };
	const char *second, *first = split(&config->arena, text, &second);

	if (config->mount_count == MOUNTS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d mounts", setting->option,
			       MOUNTS_MAX);
	if (!*first || (second && (!*second || strchr(second, ':'))))
		return err_say(err, EINVAL, "--%s: '%.100s' is not %s", setting->option, text,
			       setting->argument);
	if (mount.mode != WARDER_MOUNT_TMPFS) {
		mount.source = first;
		mount.dest = second;
	} else {
		mount.dest = first;
		if (second &&
		    (units_parse_size(second, &mount.size_bytes) < 0 || mount.size_bytes < 4096))
			return err_say(err, EINVAL, "--tmpfs: '%.40s' is not a size such as 64M",
				       second);
	}
	if (!config->mounts)
		config->mounts = arena_alloc(&config->arena, MOUNTS_MAX * sizeof(mount));
	config->mounts[config->mount_count++] = mount;
	return 0;
}

static bool is_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';

		if (!is_letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return len > 0;
}

static int read_env(struct run_config *config, const struct setting *setting, const char *text,
		    struct err *err)
{
	size_t len = strcspn(text, "=");

	if (config->env_count == ENV_MAX)
		return err_say(err, E2BIG, "--env: more than %d variables", ENV_MAX);
	if (!is_name(text, len))
		return err_say(err, EINVAL, "--env: '%.*s' is not a variable's name",
			       (int)(len > 40 ? 40 : len), text);
	if (!text[len]) {
		const char *value = getenv(text);

		if (!value)
			return err_say(err, ENOENT,
				       "--env: %.40s is not set here; write %.40s=VALUE to set it",
				       text, text);
		text = arena_printf(&config->arena, "%s=%s", text, value);
	}
	if (strncmp(text, "RUN_ID=", 7) == 0)
		return err_say(err, EINVAL, "--env: RUN_ID is set by warder; use --run-id");
	if (!config->env)
		config->env = arena_alloc(&config->arena, (ENV_MAX + 1) * sizeof(*config->env));
	config->env[config->env_count++] = text;
	(void)setting;
	return 0;
}

static int apply(struct run_config *config, const struct setting *setting, const char *text,
		 struct err *err)
{
	switch (setting->kind) {
	case FLAG: /* has no argument */
		break;
	case STRING:
		if (!*text)
			return err_say(err, EINVAL, "--%s: is empty", setting->option);
		*text_field(config, setting) = text;
		return 0;
	case RUN_ID:
		if (!runid_is_valid(text))
			return err_say(err, EINVAL,
				       "--%s: '%.80s' is not an id: up to %d letters, digits, "
				       "dots, dashes and underscores",
				       setting->option, text, RUNID_MAX);
		*text_field(config, setting) = text;
		return 0;
	case CHOICE:
		return read_choice(config, setting, text, err);
	case COUNT:
	case SIZE:
	case DURATION:
	case MILLI:
		return read_number(config, setting, text, err);
	case MOUNT:
		return read_mount(config, setting, text, err);
	case ENV:
		return read_env(config, setting, text, err);
	}
	return 0;
}

static const struct setting *find_long(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (strlen(settings[i].option) == len && memcmp(settings[i].option, name, len) == 0)
			return &settings[i];
	return NULL;
}

static const struct setting *find_short(char name)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (settings[i].short_option == name && name)
			return &settings[i];
	return NULL;
}

/* The number of single-letter changes between two short words, by the usual recurrence. */
static size_t distance(const char *a, size_t a_len, const char *b)
{
	size_t row[32], b_len = strlen(b);

	if (a_len >= ARRAY_LEN(row) || b_len >= ARRAY_LEN(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = corner + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			corner = row[j];
			row[j] = best;
		}
	}
	return row[b_len];
}

static int say_unknown(const char *word, struct err *err)
{
	size_t len = strcspn(word, "="), best = len / 3 + 1; /* farther away is no likeness */
	const char *nearest = NULL;

	err_say(err, EINVAL, "unknown option '%.*s'", (int)(len > 60 ? 60 : len), word);
	for (size_t i = 0; len > 2 && i < ARRAY_LEN(settings); i++) {
		size_t d = distance(word + 2, len - 2, settings[i].option);

		if (d < best) {
			best = d;
			nearest = settings[i].option;
		}
	}
	if (nearest)
		err_hint(err, "did you mean --%s?", nearest);
	else
		err_hint(err, "'warder run --help' lists them; "
			      "an option of the command itself goes after --");
	return -EINVAL;
}

/* One word of the command line and what belongs to it. */
struct word {
	const struct setting *setting;
	const char *argument; /* NULL: not attached to the word */
};

static int read_word(const char *text, struct word *ret_word, struct err *err)
{
	size_t len = strcspn(text, "=");

	if (text[1] == '-') {
		ret_word->setting = find_long(text + 2, len - 2);
		ret_word->argument = text[len] ? text + len + 1 : NULL;
	} else {
		ret_word->setting = find_short(text[1]);
		ret_word->argument = text[2] ? text + 2 : NULL;
	}
	if (!ret_word->setting)
		return say_unknown(text, err);
	if (ret_word->setting->kind == FLAG && ret_word->argument)
		return err_say(err, EINVAL, "--%s takes no argument", ret_word->setting->option);
	return 0;
}

/* Reads the option at argv[*i] and, where it takes one, its argument. */
static int read_option(struct run_config *config, int argc, char **argv, int *i, struct err *err)
{
	struct word word = { 0 };
	int r = read_word(argv[*i], &word, err);

	if (r < 0)
		return r;
	if (word.setting->kind == FLAG) {
		*number_field(config, word.setting) = word.setting->low;
		return 0;
	}
	if (!word.argument) {
		if (*i + 1 >= argc)
			return err_say(err, EINVAL, "--%s needs an argument: %s",
				       word.setting->option, word.setting->argument);
		word.argument = argv[++*i];
	}
	return apply(config, word.setting, word.argument, err);
}

int run_config_parse(struct run_config *config, int argc, char **argv, struct err *err)
{
	struct err later;
	int i, first = 0;

	*config = (struct run_config){ .cgroup = "auto" };
	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		int r;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		r = read_option(config, argc, argv, &i, first == 0 ? err : &later);
		if (first == 0)
			first = r;
	}
	config->argv = (const char *const *)argv + i;
	if (first == 0 && i >= argc && !config->help)
		first = err_say(err, EINVAL,
				"no command; write 'warder run [options] -- COMMAND [ARG...]'");
	return first;
}

void run_config_fini(struct run_config *config)
{
	arena_fini(&config->arena);
}

void run_config_print_help(FILE *out)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		char left[64];
		int len;

		len = snprintf(left, sizeof(left), "  %c%c --%s%s%s", s->short_option ? '-' : ' ',
			       s->short_option ? s->short_option : ' ', s->option,
			       s->argument ? " " : "", s->argument ? s->argument : "");
		if (len < 30)
			fprintf(out, "%-30s %s\n", left, s->help);
		else
			fprintf(out, "%s\n%-30s %s\n", left, "", s->help);
	}
}

void run_config_print_mdoc(FILE *out)
{
	fprintf(out, ".Bl -tag -width Ds\n");
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];

		fprintf(out, ".It ");
		if (s->short_option)
			fprintf(out, "Fl %c , ", s->short_option);
		fprintf(out, "Fl -%s", s->option);
		if (s->argument)
			fprintf(out, " Ar %s", s->argument);
		fprintf(out, "\n%c%s.\n", s->help[0] >= 'a' ? s->help[0] - 'a' + 'A' : s->help[0],
			s->help + 1);
		if (*s->detail)
			fprintf(out, "%s\n", s->detail);
	}
	fprintf(out, ".El\n");
}
