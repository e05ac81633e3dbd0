/* SPDX-License-Identifier: MIT */
/*
 * The search for a cost: lines of a stream of events, and in their data a JSON reader that walks,
 * byte by byte, and remembers only where it is.
 */
#include "keeper/cost.h"

#include "base/attr.h"

/* Of a line, up to its end. */
enum line {
	LINE_NAME,  /* its field's name is being read */
	LINE_SPACE, /* that was "data:"; one space may follow */
	LINE_DATA,
	LINE_OTHER,
};

enum state {
	STATE_VALUE,       /* a value must follow */
	STATE_ARRAY_FIRST, /* a value, or the end of the array */
	STATE_FIRST_KEY,   /* a key, or the end of the object */
	STATE_NEXT_KEY,    /* a key: a comma stands before it */
	STATE_KEY,         /* in a key */
	STATE_COLON,       /* a colon must follow */
	STATE_STRING,      /* in a string that is a value */
	STATE_PLAIN,       /* in a number, or in true, false or null */
	STATE_AFTER,       /* a value has ended: a comma, or the end of what it is in */
	STATE_DONE,        /* the outermost value has ended: white space only */
	STATE_BROKEN,      /* it is not JSON */
};

/* What an object is, by how it was come to. */
enum scope {
	SCOPE_OTHER,
	SCOPE_OUTER,
	SCOPE_RESPONSE, /* of an event of the Responses API */
	SCOPE_USAGE,
	SCOPE_COST, /* no object: a number */
};

static const struct {
	struct bytes name;
	enum scope scope, inner; /* where it stands, and what its value is */
} members[] = {
	{ BYTES("usage"), SCOPE_OUTER, SCOPE_USAGE },
	{ BYTES("response"), SCOPE_OUTER, SCOPE_RESPONSE },
	{ BYTES("usage"), SCOPE_RESPONSE, SCOPE_USAGE },
	{ BYTES("cost"), SCOPE_USAGE, SCOPE_COST },
};

#define SEEN_COST (1U << (ARRAY_LEN(members) - 1))

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Of a number or a word; whether it is one is asked where it matters. */
static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '.' || c == '-' || c == '+';
}

/* ---- what is found ---- */

static enum scope scope_of(const struct cost *cost)
{
	return cost->depth <= COST_PATH_MAX ? (enum scope)cost->scopes[cost->depth] : SCOPE_OTHER;
}

/* What the value is that follows. */
static enum scope inner_of(const struct cost *cost)
{
	if (cost->depth == 0)
		return SCOPE_OUTER;
	return cost->member ? members[cost->member - 1].inner : SCOPE_OTHER;
}

static void end_key(struct cost *cost)
{
	const struct bytes key = { cost->text, cost->len };

	cost->state = STATE_COLON;
	cost->member = 0;
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		if (members[i].scope != scope_of(cost) || !bytes_equal(members[i].name, key) ||
		    (members[i].inner == SCOPE_RESPONSE && !cost->is_events))
			continue;
		cost->is_in_doubt |= cost->seen >> i & 1;
		cost->seen |= (unsigned char)(1U << i);
		cost->member = (unsigned char)(i + 1);
	}
}

/* A number that is too long to be kept is not known. */
static void end_plain(struct cost *cost)
{
	bool is_number = (cost->text[0] >= '0' && cost->text[0] <= '9') || cost->text[0] == '-';

	if (inner_of(cost) == SCOPE_COST && is_number && cost->len < COST_MAX) {
		memcpy(cost->named, cost->text, cost->len);
		cost->named[cost->len] = '\0';
	}
	cost->state = cost->depth ? STATE_AFTER : STATE_DONE;
}

/* The body, or an event, has ended: what it says counts if it was whole. */
static void end_document(struct cost *cost)
{
	if (cost->state == STATE_DONE && cost->is_in_doubt)
		cost->found[0] = '\0';
	else if (cost->state == STATE_DONE && cost->seen & SEEN_COST)
		memcpy(cost->found, cost->named, sizeof(cost->found));
	cost->state = STATE_VALUE;
	cost->depth = 0;
	cost->member = cost->seen = 0;
	cost->is_in_doubt = false;
	cost->named[0] = '\0';
}

/* ---- JSON ---- */

static bool in_object(const struct cost *cost)
{
	return cost->is_object[(cost->depth - 1) / 8] >> ((cost->depth - 1) % 8) & 1;
}

static void open_bracket(struct cost *cost, bool is_object)
{
	enum scope scope = is_object ? inner_of(cost) : SCOPE_OTHER;
	unsigned int bit = 1U << (cost->depth % 8);
	unsigned char *byte;

	if (cost->depth == COST_DEPTH_MAX) {
		cost->state = STATE_BROKEN;
		return;
	}
	byte = &cost->is_object[cost->depth / 8];
	*byte = (unsigned char)(is_object ? *byte | bit : *byte & ~bit);
	if (++cost->depth <= COST_PATH_MAX)
		cost->scopes[cost->depth] = (unsigned char)(scope == SCOPE_COST ? SCOPE_OTHER
										: scope);
	cost->member = 0;
	cost->state = is_object ? STATE_FIRST_KEY : STATE_ARRAY_FIRST;
}

static void close_bracket(struct cost *cost, bool is_object)
{
	if (in_object(cost) != is_object) {
		cost->state = STATE_BROKEN;
		return;
	}
	cost->depth--;
	cost->state = cost->depth ? STATE_AFTER : STATE_DONE;
}

static void begin_text(struct cost *cost, enum state state)
{
	cost->state = (unsigned char)state;
	cost->len = 0;
	cost->was_escape = false;
}

static void add_to_text(struct cost *cost, char c)
{
	if (cost->len < COST_MAX)
		cost->text[cost->len++] = c;
}

static void read_value(struct cost *cost, char c)
{
	if (c == '{' || c == '[') {
		open_bracket(cost, c == '{');
	} else if (c == ']' && cost->state == STATE_ARRAY_FIRST) {
		close_bracket(cost, false);
	} else if (c == '"') {
		begin_text(cost, STATE_STRING);
	} else if (is_plain(c)) {
		begin_text(cost, STATE_PLAIN);
		add_to_text(cost, c);
	} else {
		cost->state = STATE_BROKEN;
	}
}

static void read_member(struct cost *cost, char c)
{
	if (c == '"')
		begin_text(cost, STATE_KEY);
	else if (c == '}' && cost->state == STATE_FIRST_KEY)
		close_bracket(cost, true);
	else
		cost->state = STATE_BROKEN;
}

/* In a string. Where a cost might be named, a key that is not plain might be another's. */
static void read_string(struct cost *cost, char c)
{
	if (cost->was_escape) {
		cost->was_escape = false;
	} else if (c == '\\') {
		cost->was_escape = true;
		cost->is_in_doubt |= cost->state == STATE_KEY && scope_of(cost) != SCOPE_OTHER;
	} else if (c == '"' && cost->state == STATE_KEY) {
		end_key(cost);
	} else if (c == '"') {
		cost->state = cost->depth ? STATE_AFTER : STATE_DONE;
	} else if ((unsigned char)c < ' ') {
		cost->state = STATE_BROKEN;
	} else if (cost->state == STATE_KEY) {
		add_to_text(cost, c);
	}
}

static void read_after(struct cost *cost, char c)
{
	if (c == ',')
		cost->state = in_object(cost) ? STATE_NEXT_KEY : STATE_VALUE;
	else if (c == '}' || c == ']')
		close_bracket(cost, c == '}');
	else
		cost->state = STATE_BROKEN;
}

static void read_json(struct cost *cost, char c)
{
	if (cost->state == STATE_KEY || cost->state == STATE_STRING) {
		read_string(cost, c);
		return;
	}
	if (cost->state == STATE_PLAIN) {
		if (is_plain(c)) {
			add_to_text(cost, c);
			return;
		}
		end_plain(cost);
	}
	if (is_space(c))
		return;
	switch ((enum state)cost->state) {
	case STATE_VALUE:
	case STATE_ARRAY_FIRST:
		read_value(cost, c);
		break;
	case STATE_FIRST_KEY:
	case STATE_NEXT_KEY:
		read_member(cost, c);
		break;
	case STATE_COLON:
		cost->state = c == ':' ? STATE_VALUE : STATE_BROKEN;
		break;
	case STATE_AFTER:
		read_after(cost, c);
		break;
	default:
		cost->state = STATE_BROKEN;
	}
}

/* ---- events ---- */

static void end_line(struct cost *cost)
{
	if (cost->line == LINE_NAME && cost->name_len == 0)
		end_document(cost);
	else if (cost->line == LINE_SPACE || cost->line == LINE_DATA)
		read_json(cost, '\n'); /* the data goes on in the next such line */
	cost->line = LINE_NAME;
	cost->name_len = 0;
}

static void read_line(struct cost *cost, char c)
{
	static const char name[] = "data:";

	if (cost->line == LINE_NAME) {
		if (c != name[cost->name_len++])
			cost->line = LINE_OTHER;
		else if (cost->name_len == sizeof(name) - 1)
			cost->line = LINE_SPACE;
		return;
	}
	if (cost->line == LINE_SPACE) {
		cost->line = LINE_DATA;
		if (c == ' ')
			return;
	}
	if (cost->line == LINE_DATA)
		read_json(cost, c);
}

/* A line ends with a line feed, a carriage return, or both. */
static void read_events(struct cost *cost, char c)
{
	bool is_second_half = c == '\n' && cost->was_return;

	cost->was_return = c == '\r';
	if (c != '\n' && c != '\r')
		read_line(cost, c);
	else if (!is_second_half)
		end_line(cost);
}

/* ---- the reply ---- */

/* Most of a reply is in strings, and most of a string says nothing here. */
static size_t count_dull(const struct cost *cost, struct bytes data)
{
	size_t len = 0;

	if (cost->state != STATE_STRING || cost->was_escape ||
	    (cost->is_events && cost->line != LINE_DATA))
		return 0;
	while (len < data.len && data.data[len] != '"' && data.data[len] != '\\' &&
	       (unsigned char)data.data[len] >= ' ')
		len++;
	return len;
}

void cost_push(struct cost *cost, struct bytes data)
{
	while (data.len > 0) {
		size_t dull = count_dull(cost, data);

		if (dull > 0) {
			bytes_take(&data, dull);
			cost->was_return = false;
		} else if (cost->is_events) {
			read_events(cost, bytes_take(&data, 1).data[0]);
		} else {
			read_json(cost, bytes_take(&data, 1).data[0]);
		}
	}
}

void cost_finish(struct cost *cost)
{
	/* An event without its empty line is none. */
	if (!cost->is_events)
		end_document(cost);
	memcpy(cost->last, cost->found, sizeof(cost->last));
}
