/* SPDX-License-Identifier: MIT */
/* The search for a cost. */
#include "keeper/cost.h"

static const char key[] = "\"cost\":";

#define KEY_LEN (sizeof(key) - 1)

static bool is_in_number(char c)
{
	return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static void end_number(struct cost *cost)
{
	if (cost->len > 0) {
		memcpy(cost->last, cost->text, cost->len);
		cost->last[cost->len] = '\0';
	}
	cost->matched = cost->len = 0;
}

static void read_number(struct cost *cost, char c)
{
	if (cost->len == 0 && c == ' ')
		return;
	if (!is_in_number(c) || cost->len == COST_MAX - 1) {
		end_number(cost);
		return;
	}
	cost->text[cost->len++] = c;
}

static void match(struct cost *cost, char c)
{
	bool may_begin = !cost->was_escape;

	/* `"cost" :` is the same key. */
	if (c == ' ' && cost->matched == KEY_LEN - 1)
		return;
	if (c == key[cost->matched] && (cost->matched > 0 || may_begin))
		cost->matched++;
	else
		cost->matched = c == '"' && may_begin;
}

void cost_push(struct cost *cost, struct bytes data)
{
	while (data.len > 0) {
		if (cost->matched == 0) {
			/* From quote to quote; what is between cannot begin the key. */
			const char *quote = memchr(data.data, '"', data.len);
			size_t skip = quote ? (size_t)(quote - data.data) : data.len;

			if (skip > 0)
				cost->was_escape = data.data[skip - 1] == '\\';
			bytes_take(&data, skip);
			if (data.len == 0)
				return;
		}
		if (cost->matched == KEY_LEN)
			read_number(cost, data.data[0]);
		if (cost->matched < KEY_LEN)
			match(cost, data.data[0]);
		cost->was_escape = bytes_take(&data, 1).data[0] == '\\';
	}
}
