/* SPDX-License-Identifier: MIT */
/*
 * JSON is walked through byte by byte, and only where one is is remembered.
 *
 * Each open bracket has a scope, which says what the names in it mean; a table says which name
 * leads to which scope, or to which text. Everything else is passed over, but must be JSON.
 */
#include "keeper/spend_rows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/money.h"
#include "base/timestamp.h"
#include "base/units.h"

enum scope {
	SCOPE_OTHER,
	SCOPE_OUTER,    /* {"data": […]} */
	SCOPE_ROWS,     /* the list */
	SCOPE_ROW,      /* one of it */
	SCOPE_METADATA, /* what LiteLLM says about it */
	SCOPE_OURS,     /* ... and in there what warder said */
};

enum text {
	TEXT_NONE,
	TEXT_CALL_ID,
	TEXT_METADATA_CALL_ID,
	TEXT_REQUEST_ID,
	TEXT_END_USER,
	TEXT_COST,
	TEXT_START,
	TEXT_MODEL,
	TEXT_MODEL_GROUP,
	TEXT_RUN_ID,
	TEXT_ATTEMPT,
	TEXT_COUNT,
};

static const struct name {
	enum scope scope;
	const char *name;
	enum text text;   /* that its value is */
	enum scope inner; /* of its value, if that is an object or, for the rows, an array */
} names[] = {
	{ SCOPE_OUTER, "data", TEXT_NONE, SCOPE_ROWS },
	{ SCOPE_ROW, "litellm_call_id", TEXT_CALL_ID, SCOPE_OTHER },
	{ SCOPE_ROW, "request_id", TEXT_REQUEST_ID, SCOPE_OTHER },
	{ SCOPE_ROW, "end_user", TEXT_END_USER, SCOPE_OTHER },
	{ SCOPE_ROW, "spend", TEXT_COST, SCOPE_OTHER },
	{ SCOPE_ROW, "response_cost", TEXT_COST, SCOPE_OTHER }, /* as callbacks call it */
	{ SCOPE_ROW, "startTime", TEXT_START, SCOPE_OTHER },
	{ SCOPE_ROW, "model", TEXT_MODEL, SCOPE_OTHER },
	{ SCOPE_ROW, "model_group", TEXT_MODEL_GROUP, SCOPE_OTHER },
	{ SCOPE_ROW, "metadata", TEXT_NONE, SCOPE_METADATA },
	{ SCOPE_METADATA, "litellm_call_id", TEXT_METADATA_CALL_ID, SCOPE_OTHER },
	{ SCOPE_METADATA, "spend_logs_metadata", TEXT_NONE, SCOPE_OURS },
	{ SCOPE_OURS, "runId", TEXT_RUN_ID, SCOPE_OTHER },
	{ SCOPE_OURS, "attempt", TEXT_ATTEMPT, SCOPE_OTHER },
};

struct spend_rows {
	spend_on_row *on_row;
	void *owner;
	uint64_t count;
	struct json_walk walk;
	bool has_list;
	unsigned char scopes[JSON_WALK_DEPTH_MAX + 1]; /* of each open bracket, from 1 */
	const struct name *name; /* of the value that follows, if it is known */
	/* The string or plain word being read. */
	char token[SPEND_TEXT_MAX];
	size_t token_len;
	unsigned int escape;     /* 1 after a backslash, 2 to 5 in \u */
	unsigned int code, high; /* of \u; the first half of a pair, or 0 */
	char texts[TEXT_COUNT][SPEND_TEXT_MAX];
};

struct spend_rows *spend_rows_new(spend_on_row *on_row, void *owner)
{
	struct spend_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		die_no_memory();
	rows->on_row = on_row;
	rows->owner = owner;
	return rows;
}

void spend_rows_free(struct spend_rows *rows)
{
	free(rows);
}

uint64_t spend_rows_count(const struct spend_rows *rows)
{
	return rows->count;
}

static int refuse(struct err *err, const char *why)
{
	return err_say(err, EPROTO, "the spend log cannot be read: %s", why);
}

/* ---- a row ---- */

/* "RUN/ATTEMPT" */
static bool read_end_user(const char *end_user, char ret_run_id[RUNID_MAX + 1],
			  uint32_t *ret_attempt)
{
	const char *slash = strrchr(end_user, '/');
	size_t len = slash ? (size_t)(slash - end_user) : 0;
	uint64_t attempt;

	if (len == 0 || len > RUNID_MAX || units_parse_count(slash + 1, &attempt) < 0 ||
	    attempt > UINT32_MAX)
		return false;
	memcpy(ret_run_id, end_user, len);
	ret_run_id[len] = '\0';
	*ret_attempt = (uint32_t)attempt;
	return runid_is_valid(ret_run_id);
}

bool spend_row_run(const struct spend_row *row, char ret_run_id[RUNID_MAX + 1],
		   uint32_t *ret_attempt)
{
	if (!row->run_id[0])
		return read_end_user(row->end_user, ret_run_id, ret_attempt);
	snprintf(ret_run_id, RUNID_MAX + 1, "%s", row->run_id);
	*ret_attempt = row->attempt;
	return true;
}

bool spend_row_is_of(const struct spend_row *row, const char *run_id, int64_t attempt)
{
	char other[RUNID_MAX + 1];
	uint32_t other_attempt;

	if (strcmp(row->run_id, run_id) == 0 && (attempt < 0 || row->attempt == attempt))
		return true;
	return read_end_user(row->end_user, other, &other_attempt) && strcmp(other, run_id) == 0 &&
	       (attempt < 0 || other_attempt == attempt);
}

static int read_cost(const char *text, uint64_t *ret_cost)
{
	*ret_cost = 0;
	return text[0] ? money_parse(bytes_of(text), ret_cost) : 0;
}

/* As text, or as seconds since 1970. */
static uint64_t read_time(const char *text)
{
	uint64_t ms = 0, whole;
	char seconds[SPEND_TEXT_MAX];

	if (timestamp_parse(bytes_of(text), &ms) == 0)
		return ms;
	snprintf(seconds, sizeof(seconds), "%.*s", (int)strcspn(text, "."), text);
	return units_parse_count(seconds, &whole) == 0 && whole < UINT64_MAX / 1000 ? whole * 1000
										    : 0;
}

static const char *first_of(const char *a, const char *b)
{
	return a[0] ? a : b;
}

static int end_row(struct spend_rows *rows, struct err *err)
{
	char(*texts)[SPEND_TEXT_MAX] = rows->texts;
	struct spend_row row = {
		.call_id = first_of(texts[TEXT_CALL_ID], texts[TEXT_METADATA_CALL_ID]),
		.request_id = texts[TEXT_REQUEST_ID],
		.end_user = texts[TEXT_END_USER],
		.run_id = runid_is_valid(texts[TEXT_RUN_ID]) ? texts[TEXT_RUN_ID] : "",
		.model = first_of(texts[TEXT_MODEL_GROUP], texts[TEXT_MODEL]),
		.start_ms = read_time(texts[TEXT_START]),
	};
	char *suffix = strstr(texts[TEXT_REQUEST_ID], "_cache_hit");
	uint64_t attempt = 0;

	if (!row.call_id[0] && !row.request_id[0])
		return refuse(err, "a row has no id; are these sums by day, of an older LiteLLM?");
	if (read_cost(texts[TEXT_COST], &row.cost) < 0)
		return refuse(err, "what a call has cost is no amount");
	if (suffix)
		*suffix = '\0'; /* made unique by LiteLLM: the same reply, given again */
	if (units_parse_count(texts[TEXT_ATTEMPT], &attempt) == 0 && attempt <= UINT32_MAX)
		row.attempt = (uint32_t)attempt;
	rows->count++;
	return rows->on_row(rows->owner, &row, err);
}

/* ---- brackets ---- */

static enum scope scope_of(const struct spend_rows *rows)
{
	return rows->walk.depth ? rows->scopes[rows->walk.depth] : SCOPE_OTHER;
}

/* What an object or array is, by where it stands. */
static enum scope find_scope(const struct spend_rows *rows, enum scope outer, bool is_object)
{
	enum scope inner = rows->name ? rows->name->inner : SCOPE_OTHER;

	if (rows->walk.depth == 1)
		return is_object ? SCOPE_OUTER : SCOPE_ROWS;
	if (outer == SCOPE_ROWS)
		return is_object ? SCOPE_ROW : SCOPE_OTHER;
	return is_object == (inner != SCOPE_ROWS) ? inner : SCOPE_OTHER;
}

static int open_bracket(struct spend_rows *rows, struct err *err)
{
	enum scope outer = rows->scopes[rows->walk.depth - 1];
	enum scope scope = find_scope(rows, outer, rows->walk.state == JSON_WALK_FIRST_KEY);

	if (outer == SCOPE_ROWS && scope != SCOPE_ROW)
		return refuse(err, "what is in the list is no row");
	if (scope == SCOPE_ROWS)
		rows->has_list = true;
	if (scope == SCOPE_ROW)
		memset(rows->texts, 0, sizeof(rows->texts));
	rows->scopes[rows->walk.depth] = (unsigned char)scope;
	rows->name = NULL;
	return 0;
}

static int close_bracket(struct spend_rows *rows, struct err *err)
{
	rows->name = NULL;
	return rows->scopes[rows->walk.depth + 1] == SCOPE_ROW ? end_row(rows, err) : 0;
}

/* ---- strings, numbers and words ---- */

static void add_byte(struct spend_rows *rows, unsigned int c)
{
	if (rows->token_len < sizeof(rows->token) - 1)
		rows->token[rows->token_len++] = (char)c;
}

static void add_code(struct spend_rows *rows, unsigned int code)
{
	if (code < 0x80) {
		add_byte(rows, code);
		return;
	}
	if (code >= 0x10000)
		add_byte(rows, 0xf0 | code >> 18);
	if (code >= 0x800)
		add_byte(rows, code >= 0x10000 ? 0x80 | (code >> 12 & 0x3f) : 0xe0 | code >> 12);
	add_byte(rows, code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
	add_byte(rows, 0x80 | (code & 0x3f));
}

/* A character beyond the first 65536 is written as two halves; half of one is none. */
static void add_unit(struct spend_rows *rows, unsigned int unit)
{
	unsigned int high = rows->high;

	rows->high = 0;
	if (unit >= 0xd800 && unit < 0xdc00)
		rows->high = unit;
	else if (unit >= 0xdc00 && unit < 0xe000)
		add_code(rows, high ? 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00) : 0xfffd);
	else
		add_code(rows, unit ? unit : 0xfffd); /* a NUL would end the text for us */
}

static void add_plain(struct spend_rows *rows, char c)
{
	rows->high = 0;
	add_byte(rows, (unsigned char)c);
}

/* One byte behind a backslash; false when it cannot stand there. */
static bool add_escaped(struct spend_rows *rows, char c)
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *at;

	if (rows->escape == 1 && c != 'u') {
		at = c ? strchr(plain, c) : NULL;
		rows->escape = rows->high = 0;
		if (at)
			add_byte(rows, (unsigned char)meant[at - plain]);
		return at;
	}
	if (rows->escape == 1)
		rows->code = 0;
	else if (hex_digit(c) < 0)
		return false;
	else
		rows->code = rows->code << 4 | (unsigned int)hex_digit(c);
	if (rows->escape++ == 5) {
		rows->escape = 0;
		add_unit(rows, rows->code);
	}
	return true;
}

/* The token is the value of a name that matters. */
static void keep_token(struct spend_rows *rows)
{
	enum text text = rows->name ? rows->name->text : TEXT_NONE;

	rows->token[rows->token_len] = '\0';
	if (text != TEXT_NONE)
		memcpy(rows->texts[text], rows->token, rows->token_len + 1);
	rows->name = NULL;
}

static const struct name *find_name(const struct spend_rows *rows)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].scope == scope_of(rows) && strcmp(names[i].name, rows->token) == 0)
			return &names[i];
	return NULL;
}

static void end_string(struct spend_rows *rows)
{
	rows->token[rows->token_len] = '\0';
	if (rows->walk.state == JSON_WALK_KEY)
		rows->name = find_name(rows);
	else
		keep_token(rows);
	json_walk_end(&rows->walk);
}

static int in_string(struct spend_rows *rows, char c, struct err *err)
{
	if (rows->escape)
		return add_escaped(rows, c) ? 0 : refuse(err, "it is not JSON");
	if (c == '"')
		end_string(rows);
	else if (c == '\\')
		rows->escape = 1;
	else if ((unsigned char)c < 0x20)
		return refuse(err, "it is not JSON");
	else
		add_plain(rows, c);
	return 0;
}

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' ||
	       c == '.' || c == 'E';
}

/* true, false, null or something like a number, which whoever needs it reads. */
static int end_plain(struct spend_rows *rows, struct err *err)
{
	static const char *const words[] = { "null", "true", "false" };
	bool is_word = false;

	rows->token[rows->token_len] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		is_word |= strcmp(rows->token, words[i]) == 0;
	if (is_word)
		rows->name = NULL; /* as if it were not there */
	if (is_word || rows->token[0] == '-' || (rows->token[0] >= '0' && rows->token[0] <= '9'))
		keep_token(rows);
	else
		return refuse(err, "it is not JSON");
	json_walk_end(&rows->walk);
	return 0;
}

/* ---- the walk ---- */

static int begin_token(struct spend_rows *rows, char c, struct err *err)
{
	bool is_key = rows->walk.state == JSON_WALK_KEY;

	if (!is_key && (rows->walk.depth == 0 || scope_of(rows) == SCOPE_ROWS))
		return refuse(err, "it is no list of rows");
	rows->token_len = 0;
	rows->escape = rows->high = 0;
	if (rows->walk.state != JSON_WALK_PLAIN)
		return 0;
	if (!is_plain(c))
		return refuse(err, "it is not JSON");
	add_byte(rows, (unsigned char)c);
	return 0;
}

static int between(struct spend_rows *rows, char c, struct err *err)
{
	switch (json_walk_turn(&rows->walk, c)) {
	case JSON_WALK_OPENS:
		return open_bracket(rows, err);
	case JSON_WALK_CLOSES:
		return close_bracket(rows, err);
	case JSON_WALK_BEGINS:
		return begin_token(rows, c, err);
	case JSON_WALK_TOO_DEEP:
		return refuse(err, "it is nested too deeply");
	case JSON_WALK_FAILS:
		return refuse(err, "it is not JSON");
	default:
		return 0;
	}
}

static int step(struct spend_rows *rows, char c, struct err *err)
{
	int r;

	if (rows->walk.state == JSON_WALK_KEY || rows->walk.state == JSON_WALK_STRING)
		return in_string(rows, c, err);
	if (rows->walk.state == JSON_WALK_PLAIN) {
		if (is_plain(c)) {
			add_byte(rows, (unsigned char)c);
			return 0;
		}
		r = end_plain(rows, err);
		if (r < 0)
			return r;
	}
	return between(rows, c, err);
}

int spend_rows_push(struct spend_rows *rows, struct bytes data, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < data.len; i++)
		r = step(rows, data.data[i], err);
	return r;
}

int spend_rows_end(const struct spend_rows *rows, struct err *err)
{
	if (rows->walk.state != JSON_WALK_DONE)
		return refuse(err, "it ends in the middle");
	return rows->has_list ? 0 : refuse(err, "there is no list in it");
}
