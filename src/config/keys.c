/* SPDX-License-Identifier: MIT */
/* Finds keys, and writes their part of the manual page. */
#include "config/keys.h"

#include <string.h>

#include "config/nearest.h"

const struct key keys[] = {
#define RUN    KEY_RUN
#define KEEPER KEY_KEEPER
#define BOTH   KEY_BOTH
#define ONCE   KEY_ONCE
#define SHARED KEY_SHARED
#define KEY(group, name, kind, option, side, example, help)                                        \
	{ group, name, option, KEY_##kind, side, example, help },
#include "config/keys.def"
#undef KEY
};

const size_t key_count = ARRAY_LEN(keys);

_Static_assert(ARRAY_LEN(keys) <= KEYS_MAX, "KEYS_MAX is too small");

const struct key *key_find(const char *group, const char *name)
{
	for (size_t i = 0; i < key_count; i++)
		if (strcmp(keys[i].group, group) == 0 && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static void hint(struct err *err, const char *group, const char *name)
{
	err_hint(err, "did you mean '%s%s%s'?", group, *group ? "." : "", name);
}

void key_hint(const char *group, const char *name, struct err *err)
{
	struct nearest nearest;

	nearest_init(&nearest, bytes_of(name));
	for (size_t i = 0; i < key_count; i++) {
		/* The right name at the wrong place says more than a likeness. */
		if (strcmp(keys[i].name, name) == 0) {
			hint(err, keys[i].group, keys[i].name);
			return;
		}
		if (strcmp(keys[i].group, group) == 0)
			nearest_try(&nearest, keys[i].name);
	}
	if (nearest.found)
		hint(err, group, nearest.found);
	else
		err_hint(err, "warder.json(5) lists them");
}

/* A quote would begin an argument of the macro's. */
static void print_literal(const char *text, FILE *out)
{
	fputs(".Li ", out);
	for (; *text; text++)
		if (*text == '"')
			fputs("\\(dq", out);
		else
			fputc(*text, out);
	fputc('\n', out);
}

static void print_key(const struct key *key, FILE *out)
{
	fprintf(out, ".It Va %s", key->name);
	if (key->option)
		fprintf(out, " Pq Fl %s", key->option + 1);
	fprintf(out, "\n%s\n", key->help);
	if (key->kind != KEY_GROUP && key->kind != KEY_MOUNTS && key->kind != KEY_SECRETS &&
	    key->kind != KEY_LLM && key->kind != KEY_LIMITS) {
		fputs("Example:\n", out);
		print_literal(key->example, out);
	}
}

static void print_group(const char *group, FILE *out)
{
	fprintf(out, ".Bl -tag -width Ds\n");
	for (size_t i = 0; i < key_count; i++) {
		const struct key *key = &keys[i];
		bool has_members = i + 1 < key_count && strcmp(keys[i + 1].group, key->name) == 0;

		if (strcmp(key->group, group) != 0)
			continue;
		print_key(key, out);
		if (has_members)
			print_group(key->name, out);
	}
	fprintf(out, ".El\n");
}

void keys_print_mdoc(FILE *out)
{
	print_group("", out);
}
