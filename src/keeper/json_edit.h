/* SPDX-License-Identifier: MIT */
/*
 * Takes the members that name a user out of a JSON body while it streams, and leaves every
 * other byte as it is (INV-ATTRIBUTION).
 *
 * Some upstreams let the body outrank the headers that we set. Members of the outermost
 * object, and those one object below it, can be removed. A key is compared as the most
 * lenient parser would read it, escapes decoded and case folded; a body that is not JSON
 * is refused, because another parser might find in it what we did not, and so is a string
 * in place of that object.
 */
#ifndef KEEPER_JSON_EDIT_H
#define KEEPER_JSON_EDIT_H

#include "base/buf.h"
#include "base/bytes.h"

#define JSON_EDIT_DEPTH_MAX 512
#define JSON_EDIT_HELD_MAX  1024 /* a comma, white space and a key, until the key is known */
#define JSON_EDIT_MODEL_MAX 128

enum json_edit_state {
	JSON_EDIT_VALUE,       /* a value must follow */
	JSON_EDIT_ARRAY_FIRST, /* a value, or the end of the array */
	JSON_EDIT_FIRST_KEY,   /* a key, or the end of the object */
	JSON_EDIT_NEXT_KEY,    /* a key: a comma stands before it */
	JSON_EDIT_KEY,         /* in a key */
	JSON_EDIT_COLON,       /* a colon must follow */
	JSON_EDIT_STRING,      /* in a string that is a value */
	JSON_EDIT_NUMBER,      /* in a number; what follows it ends it */
	JSON_EDIT_WORD,        /* in true, false or null */
	JSON_EDIT_AFTER,       /* a value has ended: a comma, or the end of what it is in */
	JSON_EDIT_DONE,        /* the outermost value has ended: white space only */
	JSON_EDIT_BROKEN,
};

/* A member to remove: `name` of the outermost object, or of the object `within` it. */
struct json_edit_rule {
	const char *within; /* NULL: of the outermost object itself */
	const char *name;
};

struct json_edit {
	const struct json_edit_rule *rules; /* ends with a NULL name */
	enum json_edit_state state;
	unsigned int depth;
	unsigned char is_object[JSON_EDIT_DEPTH_MAX / 8]; /* by depth */
	const char *word;                                 /* what is left of true, false or null */
	unsigned int escape;     /* in a string: 1 after a backslash, 2 to 5 in \u */
	unsigned int number;     /* enum number_part of json_edit.c */
	bool is_within;          /* the outermost key's value is an object that rules name */
	const char *within;      /* its name */
	bool has_kept[2];        /* a member was kept, in the outermost object and below */
	unsigned int skip_depth; /* where the member stands that is being removed, or 0 */
	size_t held_len;
	size_t key_start; /* of the key in `held` */
	bool is_model;    /* the current value is the outermost "model" */
	size_t model_len;
	bool has_model;
	unsigned int model_count; /* how often the outermost object had one, in any case */
	char held[JSON_EDIT_HELD_MAX];
	char model[JSON_EDIT_MODEL_MAX + 1];
};

void json_edit_init(struct json_edit *edit, const struct json_edit_rule *rules);

/* Whether a model has been read whole. */
static inline bool json_edit_has_model(const struct json_edit *edit)
{
	return edit->has_model && !edit->is_model;
}

/*
 * Adds to `out` (or nowhere, when that is NULL) what is kept of `input`: at most as much as
 * came in since the last key.
 * 0, -EBADMSG when it is not JSON, or -E2BIG when it is nested or spaced beyond the limits.
 */
int json_edit_push(struct json_edit *edit, struct bytes input, struct buf *out) must_check;

/* The body has ended: 0 when that was a whole value, or nothing at all. */
int json_edit_finish(struct json_edit *edit) must_check;

#endif
