/* SPDX-License-Identifier: MIT */
/* Walks through JSON. */
#include "base/json_walk.h"

static enum json_walk_turn fail(struct json_walk *walk)
{
	walk->state = JSON_WALK_BROKEN;
	return JSON_WALK_FAILS;
}

static bool in_object(const struct json_walk *walk)
{
	return walk->is_object[(walk->depth - 1) / 8] >> ((walk->depth - 1) % 8) & 1;
}

static void end_value(struct json_walk *walk)
{
	walk->state = walk->depth ? JSON_WALK_AFTER : JSON_WALK_DONE;
}

static enum json_walk_turn open_bracket(struct json_walk *walk, bool is_object)
{
	unsigned int bit = 1U << (walk->depth % 8);
	unsigned char *byte;

	if (walk->depth == JSON_WALK_DEPTH_MAX) {
		walk->state = JSON_WALK_BROKEN;
		return JSON_WALK_TOO_DEEP;
	}
	byte = &walk->is_object[walk->depth / 8];
	*byte = (unsigned char)(is_object ? *byte | bit : *byte & ~bit);
	walk->depth++;
	walk->state = is_object ? JSON_WALK_FIRST_KEY : JSON_WALK_ARRAY_FIRST;
	return JSON_WALK_OPENS;
}

static enum json_walk_turn close_bracket(struct json_walk *walk, bool is_object)
{
	if (in_object(walk) != is_object)
		return fail(walk);
	walk->depth--;
	end_value(walk);
	return JSON_WALK_CLOSES;
}

static enum json_walk_turn begin_value(struct json_walk *walk, char c)
{
	if (c == '{' || c == '[')
		return open_bracket(walk, c == '{');
	if (c == ']' && walk->state == JSON_WALK_ARRAY_FIRST)
		return close_bracket(walk, false);
	walk->state = c == '"' ? JSON_WALK_STRING : JSON_WALK_PLAIN;
	return JSON_WALK_BEGINS;
}

static enum json_walk_turn begin_key(struct json_walk *walk, char c)
{
	if (c == '}' && walk->state == JSON_WALK_FIRST_KEY)
		return close_bracket(walk, true);
	if (c != '"')
		return fail(walk);
	walk->state = JSON_WALK_KEY;
	return JSON_WALK_BEGINS;
}

static enum json_walk_turn go_on(struct json_walk *walk, char c)
{
	if (c == '}' || c == ']')
		return close_bracket(walk, c == '}');
	if (c != ',')
		return fail(walk);
	walk->state = in_object(walk) ? JSON_WALK_NEXT_KEY : JSON_WALK_VALUE;
	return JSON_WALK_GOES_ON;
}

enum json_walk_turn json_walk_turn(struct json_walk *walk, char c)
{
	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return JSON_WALK_GOES_ON;
	switch ((enum json_walk_state)walk->state) {
	case JSON_WALK_VALUE:
	case JSON_WALK_ARRAY_FIRST:
		return begin_value(walk, c);
	case JSON_WALK_FIRST_KEY:
	case JSON_WALK_NEXT_KEY:
		return begin_key(walk, c);
	case JSON_WALK_COLON:
		if (c != ':')
			return fail(walk);
		walk->state = JSON_WALK_VALUE;
		return JSON_WALK_GOES_ON;
	case JSON_WALK_AFTER:
		return go_on(walk, c);
	default:
		return fail(walk);
	}
}

void json_walk_end(struct json_walk *walk)
{
	if (walk->state == JSON_WALK_KEY)
		walk->state = JSON_WALK_COLON;
	else
		end_value(walk);
}
