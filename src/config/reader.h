/* SPDX-License-Identifier: MIT */
/*
 * What the readers of a file's parts share: where they are, what they say about what is wrong
 * there, and the words that come out. For config/ only.
 */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include <jansson.h>

#include "config/file.h"
#include "config/keys.h"

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

/* Says "file:line: " and what is wrong at a place; `fmt` goes on after its path. */
int reader_fail(const struct reader *reader, const struct place *place, const char *fmt, ...)
	printf_like(3);

/* The same for a value that is not what the key takes. */
int reader_fail_kind(const struct reader *reader, const struct place *place, const struct key *key);

/* One more option, for whoever it is for. */
int reader_add(struct reader *reader, const struct place *place, unsigned int side,
	       const char *option, const char *value) must_check;

/* Takes down where the first key is that only a run, or only a shared keeper, can use. */
void reader_mark(struct reader *reader, const struct place *place, unsigned int side);

/* The value as a word, or NULL when it is neither text nor number. */
const char *reader_scalar_text(struct reader *reader, json_t *value);

/* The row of a member; an error names the nearest. */
int reader_find_key(const struct reader *reader, const struct place *member, const char *group,
		    const struct key **ret_key) must_check;

/* A value of the key's kind as a word. */
int reader_read_scalar(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value, const char **ret_text) must_check;

/* Calls `read` for each element of a list, or for each member of an object. */
int reader_each_element(struct reader *reader, const struct place *place, const struct key *key,
			json_t *value, kind_reader *read) must_check;
int reader_each_member(struct reader *reader, const struct place *place, const struct key *key,
		       json_t *value, kind_reader *read) must_check;

/* The members of one object, by row of the table. */
struct entry {
	const char *texts[KEYS_MAX]; /* NULL for those it has not, "" for groups and secrets */
	size_t ordinals[KEYS_MAX];
};

/* Reads an object of the members that the key's group has; groups within it as well. */
int reader_read_entry(struct reader *reader, const struct place *place, const struct key *key,
		      json_t *value, struct entry *entry) must_check;

const char *entry_get(const struct entry *entry, const char *group, const char *name);

/* Where a member of the entry at `up` stands. */
struct place entry_place(const struct entry *entry, const struct place *up, const char *group,
			 const char *name);

/* file_limits.c: a limit of the run, and those of accounts or hosts. */
kind_reader read_limit, read_limits;

/* file_secrets.c: the secrets object, or a whole file of this form. */
kind_reader read_secrets;

/* Whether a file is one of secrets and nothing else. */
bool is_secrets_file(json_t *root);

#endif
