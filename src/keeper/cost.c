/* SPDX-License-Identifier: MIT */
/* The search for a cost: lines of a stream of events, and in their data JSON, byte by byte. */
#include "keeper/cost.h"

#include "base/attr.h"

/* Of a line, up to its end. */
enum line {
	LINE_NAME,  /* its field's name is being read */
	LINE_SPACE, /* that was "data:"; one space may follow */
	LINE_DATA,
	LINE_OTHER,
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

/* Of a number or a word; whether it is one is asked where it matters. */
static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '.' || c == '-' || c == '+';
}

/* ---- what is found ---- */

static enum scope scope_at(const struct cost *cost, unsigned int depth)
{
	return depth <= COST_PATH_MAX ? (enum scope)cost->scopes[depth] : SCOPE_OTHER;
}

/* What the value is that follows. */
static enum scope inner_of(const struct cost *cost)
{
	return cost->member ? members[cost->member - 1].inner : SCOPE_OTHER;
}

static void end_key(struct cost *cost)
{
	const struct bytes key = { cost->text, cost->len };
	enum scope scope = scope_at(cost, cost->walk.depth);

	json_walk_end(&cost->walk);
	cost->member = 0;
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		if (members[i].scope != scope || !bytes_equal(members[i].name, key) ||
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
	json_walk_end(&cost->walk);
}

/* The body, or an event, has ended: what it says counts if it was whole. */
static void end_document(struct cost *cost)
{
	bool is_whole = cost->walk.state == JSON_WALK_DONE;

	if (is_whole && cost->is_in_doubt)
		cost->found[0] = '\0';
	else if (is_whole && cost->seen & SEEN_COST)
		memcpy(cost->found, cost->named, sizeof(cost->found));
	cost->walk.state = JSON_WALK_VALUE;
	cost->walk.depth = 0;
	cost->member = cost->seen = 0;
	cost->is_in_doubt = false;
	cost->named[0] = '\0';
}

/* ---- JSON ---- */

static void open_bracket(struct cost *cost)
{
	enum scope scope = cost->walk.depth == 1 ? SCOPE_OUTER : inner_of(cost);

	if (cost->walk.state != JSON_WALK_FIRST_KEY || scope == SCOPE_COST)
		scope = SCOPE_OTHER; /* no object */
	if (cost->walk.depth <= COST_PATH_MAX)
		cost->scopes[cost->walk.depth] = (unsigned char)scope;
	cost->member = 0;
}

static void add_to_text(struct cost *cost, char c)
{
	if (cost->len < COST_MAX)
		cost->text[cost->len++] = c;
}

static void begin_text(struct cost *cost, char c)
{
	cost->len = 0;
	cost->was_escape = false;
	if (cost->walk.state != JSON_WALK_PLAIN)
		return;
	add_to_text(cost, c);
	if (!is_plain(c))
		cost->walk.state = JSON_WALK_BROKEN;
}

/* In a string. Where a cost might be named, a key that is not plain might be another's. */
static void read_string(struct cost *cost, char c)
{
	bool is_key = cost->walk.state == JSON_WALK_KEY;

	if (cost->was_escape) {
		cost->was_escape = false;
	} else if (c == '\\') {
		cost->was_escape = true;
		cost->is_in_doubt |= is_key && scope_at(cost, cost->walk.depth) != SCOPE_OTHER;
	} else if (c == '"' && is_key) {
		end_key(cost);
	} else if (c == '"') {
		json_walk_end(&cost->walk);
	} else if ((unsigned char)c < ' ') {
		cost->walk.state = JSON_WALK_BROKEN;
	} else if (is_key) {
		add_to_text(cost, c);
	}
}

static void read_json(struct cost *cost, char c)
{
	if (cost->walk.state == JSON_WALK_KEY || cost->walk.state == JSON_WALK_STRING) {
		read_string(cost, c);
		return;
	}
	if (cost->walk.state == JSON_WALK_PLAIN) {
		if (is_plain(c)) {
			add_to_text(cost, c);
			return;
		}
		end_plain(cost);
	}
	switch (json_walk_turn(&cost->walk, c)) {
	case JSON_WALK_OPENS:
		open_bracket(cost);
		break;
	case JSON_WALK_BEGINS:
		begin_text(cost, c);
		break;
	default:
		break;
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

	if (cost->walk.state != JSON_WALK_STRING || cost->was_escape ||
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
