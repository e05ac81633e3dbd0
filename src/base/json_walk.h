/* SPDX-License-Identifier: MIT */
/*
 * JSON that comes byte by byte: where one is in it, and nothing of what it says. Keys, strings and
 * plain words (numbers, true, false, null) are read by whoever walks, who also says when they end.
 */
#ifndef BASE_JSON_WALK_H
#define BASE_JSON_WALK_H

#include <stdbool.h>

#include "base/attr.h"

#define JSON_WALK_DEPTH_MAX 512

enum json_walk_state {
	JSON_WALK_VALUE,       /* a value must follow */
	JSON_WALK_ARRAY_FIRST, /* a value, or the end of the array */
	JSON_WALK_FIRST_KEY,   /* a key, or the end of the object */
	JSON_WALK_NEXT_KEY,    /* a key: a comma stands before it */
	JSON_WALK_KEY,         /* in a key */
	JSON_WALK_COLON,       /* a colon must follow */
	JSON_WALK_STRING,      /* in a string that is a value */
	JSON_WALK_PLAIN,       /* in a number, or in true, false or null */
	JSON_WALK_AFTER,       /* a value has ended: a comma, or the end of what it is in */
	JSON_WALK_DONE,        /* the outermost value has ended: white space only */
	JSON_WALK_BROKEN,      /* it is not JSON, whatever else comes */
};

/* Zero at the beginning. */
struct json_walk {
	unsigned char state; /* enum json_walk_state */
	unsigned int depth;
	unsigned char is_object[JSON_WALK_DEPTH_MAX / 8]; /* by depth, a bit each */
};

/* What a byte between keys and values is. */
enum json_walk_turn {
	JSON_WALK_GOES_ON, /* white space, a comma or a colon */
	JSON_WALK_OPENS,   /* a bracket, which is counted in `depth` now */
	JSON_WALK_CLOSES,  /* ... which is not any more */
	JSON_WALK_BEGINS, /* the quote of a key or a string, or the first byte of what may be a word
			   */
	JSON_WALK_TOO_DEEP, /* a bracket that is not opened */
	JSON_WALK_FAILS,    /* it cannot stand there; the walk is broken */
};

/* Not for what is in a key, a string or a word. */
enum json_walk_turn json_walk_turn(struct json_walk *walk, char c);

/* The key, string or word that was begun has ended. */
void json_walk_end(struct json_walk *walk);

#endif
