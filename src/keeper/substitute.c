/* SPDX-License-Identifier: MIT */
/*
 * There is an automaton for each syntax, and one for targets. It knows all placeholders of the
 * run: which of them become values is a matter of the request and of the place, and decided when
 * one is found.
 *
 * A body streams, so its automaton knows the forms that encoders write, and the placeholder as
 * people type it. A target is there as a whole, and has been through more hands: each of a
 * placeholder's bytes may be percent-encoded in it or not. So it is decoded before it is searched.
 */
#include "keeper/substitute.h"

#include <errno.h>

#include "base/die.h"
#include "http/limits.h"
#include "http/path.h"
#include "keeper/form.h"
#include "keeper/pattern_list.h"

#define PLACES 6
_Static_assert(KEEPER_WEBSOCKET == 1 << (PLACES - 1), "PLACES");
_Static_assert(SUBSTITUTE_SECRETS_MAX <= 64, "a mask has 64 bits");

/* Which forms of a placeholder are one, by syntax. */
static const unsigned int syntax_kinds[] = {
	[SYNTAX_RAW] = FORM_RAW,
	[SYNTAX_JSON] = FORM_RAW | FORM_JSON,
	[SYNTAX_PERCENT] = FORM_RAW | FORM_PERCENT,
};

struct substitute_set {
	struct automaton *automata[ARRAY_LEN(syntax_kinds)];
	struct automaton *target; /* of placeholders as decode() leaves them */
	uint64_t same_shape;      /* a mask: the placeholder differs in letters and digits only */
	uint64_t allowed[PLACES]; /* by the number of the place's bit */
};

/* ---- making ---- */

static int make_automaton(const struct substitute_secret *secrets, size_t count, unsigned int kinds,
			  struct automaton **ret_automaton)
{
	struct pattern_list list;
	int r = 0;

	pattern_list_init(&list);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct pattern pattern = { secrets[i].placeholder, secrets[i].value,
					   (unsigned int)i };

		r = pattern_list_add_forms(&list, &pattern, kinds, PATTERN_SAME_SYNTAX);
	}
	if (r == 0)
		r = automaton_new(list.patterns, list.count, ret_automaton);
	pattern_list_fini(&list);
	return r;
}

/*
 * One byte of a target, off its front. A space is often written as a plus sign, and both are the
 * same here; what is no percent-encoding stands for itself.
 */
static char decode(struct bytes *text)
{
	char c = bytes_take(text, 1).data[0];
	int high, low;

	if (c == '%' && text->len >= 2 && (high = hex_digit(text->data[0])) >= 0 &&
	    (low = hex_digit(text->data[1])) >= 0) {
		bytes_take(text, 2);
		c = (char)(high << 4 | low);
	}
	return (char)(c == ' ' ? '+' : c);
}

/* A placeholder is found by what is left of it, also when a percent sign of its own was decoded. */
static int add_target_patterns(struct pattern_list *list, const struct pattern *pattern)
{
	struct bytes rest = pattern->text;
	char *text = malloc(rest.len);
	struct pattern added = *pattern;
	int r;

	if (!text)
		die_no_memory();
	for (size_t i = 0; i < rest.len; i++)
		text[i] = (char)(rest.data[i] == ' ' ? '+' : rest.data[i]);
	added.text = (struct bytes){ text, rest.len };
	r = pattern_list_add(list, &added);
	added.text.len = 0;
	while (rest.len > 0)
		text[added.text.len++] = decode(&rest);
	if (r == 0)
		r = pattern_list_add(list, &added);
	free(text);
	return r;
}

static int make_target_automaton(const struct substitute_secret *secrets, size_t count,
				 struct automaton **ret_automaton)
{
	struct pattern_list list;
	int r = 0;

	pattern_list_init(&list);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct pattern pattern = { secrets[i].placeholder, secrets[i].value,
					   (unsigned int)i };

		r = add_target_patterns(&list, &pattern);
	}
	if (r == 0)
		r = automaton_new(list.patterns, list.count, ret_automaton);
	pattern_list_fini(&list);
	return r;
}

/* A value goes into one line of a head: nothing in it may end that line. */
static bool fits_into_a_line(struct bytes value)
{
	for (size_t i = 0; i < value.len; i++)
		if ((unsigned char)value.data[i] < 0x20 || value.data[i] == 0x7f)
			return false;
	return true;
}

static int add_secret(struct substitute_set *set, const struct substitute_secret *secret,
		      size_t index)
{
	unsigned int places = secret->places;

	if (secret->placeholder.len == 0 || secret->value.len == 0)
		return -EINVAL;
	if (!fits_into_a_line(secret->value))
		places &= ~(unsigned int)KEEPER_HEADER;
	for (size_t i = 0; i < PLACES; i++)
		if (places & 1U << i)
			set->allowed[i] |= UINT64_C(1) << index;
	if (pattern_is_of_same_shape(secret->placeholder, secret->value))
		set->same_shape |= UINT64_C(1) << index;
	return 0;
}

int substitute_set_new(const struct substitute_secret *secrets, size_t count,
		       struct substitute_set **ret_set)
{
	struct substitute_set *set;
	int r = 0;

	*ret_set = NULL;
	if (count == 0)
		return 0;
	if (count > SUBSTITUTE_SECRETS_MAX)
		return -E2BIG;
	set = calloc(1, sizeof(*set));
	if (!set)
		die_no_memory();
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_secret(set, &secrets[i], i);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(syntax_kinds); i++)
		r = make_automaton(secrets, count, syntax_kinds[i], &set->automata[i]);
	if (r == 0)
		r = make_target_automaton(secrets, count, &set->target);
	if (r < 0)
		substitute_set_free(set);
	else
		*ret_set = set;
	return r;
}

void substitute_set_free(struct substitute_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < ARRAY_LEN(syntax_kinds); i++)
		automaton_free(set->automata[i]);
	automaton_free(set->target);
	free(set);
}

bool substitute_keeps_length(const struct substitute_set *set, enum syntax syntax)
{
	return !set || automaton_keeps_length(set->automata[syntax]);
}

/* ---- a stream ---- */

static uint64_t allowed_at(const struct substitute_set *set, enum keeper_place place)
{
	size_t i = 0;

	while (place != 1U << i)
		i++;
	return set->allowed[i];
}

void substitute_init(struct substitute *substitute, const struct substitute_set *set,
		     uint64_t bound, enum keeper_place place, enum syntax syntax)
{
	*substitute = (struct substitute){ 0 };
	if (!set)
		return;
	substitute->automaton = set->automata[syntax];
	substitute->allowed = bound & allowed_at(set, place);
}

struct sink {
	struct substitute *substitute;
	substitute_emit *emit;
	void *owner;
};

/* INV-HOST-SCOPED: here, and nowhere else, it is decided that a placeholder becomes a secret. */
static bool may_be_used(struct substitute *substitute, const struct pattern *match)
{
	uint64_t bit = UINT64_C(1) << match->tag;
	bool is_allowed = bit & substitute->allowed;

	if (is_allowed)
		substitute->found.used |= bit;
	else
		substitute->found.refused |= bit;
	return is_allowed;
}

static void on_emit(void *owner, struct bytes data, const struct pattern *match)
{
	struct sink *sink = owner;

	if (match && !may_be_used(sink->substitute, match))
		data = match->text;
	sink->emit(sink->owner, data);
}

void substitute_push(struct substitute *substitute, struct bytes data, substitute_emit *emit,
		     void *owner)
{
	struct sink sink = { substitute, emit, owner };

	if (substitute->automaton)
		automaton_push(substitute->automaton, &substitute->matcher, data, on_emit, &sink);
	else if (data.len > 0)
		emit(owner, data);
}

void substitute_finish(struct substitute *substitute, substitute_emit *emit, void *owner)
{
	struct sink sink = { substitute, emit, owner };

	if (substitute->automaton)
		automaton_finish(substitute->automaton, &substitute->matcher, on_emit, &sink);
}

/* ---- whole texts ---- */

struct output {
	struct buf *out;
	bool is_full;
};

static void append(void *owner, struct bytes data)
{
	struct output *output = owner;

	if (buf_add(output->out, data.data, data.len) < data.len)
		output->is_full = true;
}

static int finish_text(const struct substitute *substitute, const struct output *output,
		       struct substitute_found *found)
{
	found->used |= substitute->found.used;
	found->refused |= substitute->found.refused;
	if (substitute->found.refused)
		return -EPERM;
	return output->is_full ? -E2BIG : 0;
}

static int substitute_text(struct substitute *substitute, struct bytes text, struct buf *out,
			   struct substitute_found *found)
{
	struct output output = { out, false };

	substitute_push(substitute, text, append, &output);
	substitute_finish(substitute, append, &output);
	return finish_text(substitute, &output, found);
}

/* The credentials of "Basic credentials", or nothing. */
static struct bytes basic_credentials(struct bytes name, struct bytes value)
{
	struct bytes scheme;

	if (!bytes_equal_nocase(name, BYTES("authorization")) ||
	    !bytes_split(&value, ' ', &scheme) || !bytes_equal_nocase(scheme, BYTES("basic")))
		return (struct bytes){ NULL, 0 };
	while (value.len > 0 && value.data[0] == ' ')
		bytes_take(&value, 1);
	return value;
}

static int add_basic(struct buf *out, struct bytes credentials)
{
	static char digits[(HTTP_HEAD_MAX + 2) / 3 * 4];
	size_t len = form_write_base64(credentials, digits);
	size_t added = buf_add(out, "Basic ", 6) + buf_add(out, digits, len);

	explicit_bzero(digits, len);
	return added < len + 6 ? -E2BIG : 0;
}

/* What base64 hides is substituted there and written anew. *ret_is_done: it had a placeholder. */
static int substitute_basic(const struct substitute_set *set, uint64_t bound,
			    struct bytes credentials, struct buf *out,
			    struct substitute_found *found, bool *ret_is_done)
{
	static char text[HTTP_HEAD_MAX];
	struct substitute substitute;
	struct buf inner;
	size_t len;
	int r;

	*ret_is_done = false;
	if (credentials.len == 0 || credentials.len > sizeof(text) ||
	    form_read_base64(credentials, text, &len) < 0)
		return 0;
	substitute_init(&substitute, set, bound, KEEPER_BASIC, SYNTAX_RAW);
	buf_init(&inner, HTTP_HEAD_MAX);
	r = substitute_text(&substitute, (struct bytes){ text, len }, &inner, found);
	*ret_is_done = substitute.found.used || substitute.found.refused;
	if (r == 0 && *ret_is_done)
		r = add_basic(out, (struct bytes){ inner.data, inner.len });
	if (inner.data)
		explicit_bzero(inner.data, inner.size);
	buf_fini(&inner);
	return r;
}

int substitute_header(const struct substitute_set *set, uint64_t bound, struct bytes name,
		      struct bytes value, struct buf *out, struct substitute_found *found)
{
	struct bytes credentials = basic_credentials(name, value);
	struct substitute substitute;
	bool is_done;
	int r = substitute_basic(set, bound, credentials, out, found, &is_done);

	if (r < 0 || is_done)
		return r;
	if (substitute_is_reflected(name))
		bound = 0;
	substitute_init(&substitute, set, bound, KEEPER_HEADER, SYNTAX_RAW);
	return substitute_text(&substitute, value, out, found);
}

/* ---- targets ---- */

/* A target, decoded. It is the agent's, and has no secret in it. */
struct spelling {
	struct substitute substitute;
	uint64_t in_path, in_query; /* which may be there */
	uint64_t same_shape;
	struct output output;
	struct bytes source;
	size_t path_len; /* of the source */
	size_t at;       /* how much of the text has gone out */
	size_t len;
	char text[HTTP_TARGET_MAX];
	uint32_t from[HTTP_TARGET_MAX + 1]; /* where each byte, and the end, is in the source */
};

static void spell(struct spelling *spelling, struct bytes source)
{
	struct bytes rest = source, query;

	spelling->source = source;
	spelling->path_len = http_path_split(source, &query).len;
	spelling->at = spelling->len = 0;
	while (rest.len > 0) {
		spelling->from[spelling->len] = (uint32_t)(source.len - rest.len);
		spelling->text[spelling->len++] = decode(&rest);
	}
	spelling->from[spelling->len] = (uint32_t)source.len;
}

/* As they came: `len` bytes from the `at`th on. */
static struct bytes source_of(const struct spelling *spelling, size_t at, size_t len)
{
	return (struct bytes){ spelling->source.data + spelling->from[at],
			       spelling->from[at + len] - spelling->from[at] };
}

/* Where a question mark is a part of it, it is in both. */
static uint64_t allowed_within(const struct spelling *spelling, size_t at, size_t len)
{
	uint64_t allowed = UINT64_MAX;

	if (spelling->from[at] < spelling->path_len)
		allowed &= spelling->in_path;
	if (spelling->from[at + len] > spelling->path_len)
		allowed &= spelling->in_query;
	return allowed;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static void add_encoded(struct output *output, char c)
{
	static const char digits[] = "0123456789ABCDEF";
	char text[] = { '%', digits[(unsigned char)c >> 4], digits[(unsigned char)c & 15] };

	append(output, (struct bytes){ text, sizeof(text) });
}

/* RFC 3986 2.3 */
static bool is_unreserved(char c)
{
	return is_alnum(c) || (c && strchr("-._~", c));
}

/* Nothing of it is more than a value: only what never means anything is not encoded. */
static void add_value(struct output *output, struct bytes value)
{
	for (size_t i = 0; i < value.len; i++) {
		if (is_unreserved(value.data[i]))
			append(output, (struct bytes){ value.data + i, 1 });
		else
			add_encoded(output, value.data[i]);
	}
}

/*
 * All but letters and digits is the same in both, and stays as it was written. But for a percent
 * sign: with the value's digits behind it, it may mean what it did not.
 */
static void add_value_as_spelled(struct spelling *spelling, struct bytes value)
{
	for (size_t i = 0; i < value.len; i++) {
		struct bytes source = source_of(spelling, spelling->at + i, 1);
		bool is_changed = is_alnum(value.data[i]);

		if (value.data[i] == '%' || (is_changed && source.len > 1))
			add_encoded(&spelling->output, value.data[i]);
		else
			append(&spelling->output,
			       is_changed ? (struct bytes){ value.data + i, 1 } : source);
	}
}

static void on_spelled(void *owner, struct bytes data, const struct pattern *match)
{
	struct spelling *spelling = owner;
	size_t len = match ? match->text.len : data.len;

	spelling->substitute.allowed = allowed_within(spelling, spelling->at, len);
	if (!match || !may_be_used(&spelling->substitute, match))
		append(&spelling->output, source_of(spelling, spelling->at, len));
	else if (len == data.len && (spelling->same_shape >> match->tag & 1))
		add_value_as_spelled(spelling, data);
	else
		add_value(&spelling->output, data);
	spelling->at += len;
}

int substitute_target(const struct substitute_set *set, uint64_t bound, struct bytes target,
		      struct buf *out, struct substitute_found *found)
{
	static struct spelling spelling;
	struct matcher matcher = { 0 };

	if (!set)
		return buf_add(out, target.data, target.len) < target.len ? -E2BIG : 0;
	if (target.len > HTTP_TARGET_MAX)
		return -E2BIG;
	spell(&spelling, target);
	spelling.substitute = (struct substitute){ 0 };
	spelling.in_path = bound & allowed_at(set, KEEPER_PATH);
	spelling.in_query = bound & allowed_at(set, KEEPER_QUERY);
	spelling.same_shape = set->same_shape;
	spelling.output = (struct output){ out, false };
	automaton_push(set->target, &matcher, (struct bytes){ spelling.text, spelling.len },
		       on_spelled, &spelling);
	automaton_finish(set->target, &matcher, on_spelled, &spelling);
	return finish_text(&spelling.substitute, &spelling.output, found);
}

/* ---- fields ---- */

static bool is_one_of(struct bytes name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_equal_nocase(name, bytes_of(names[i])))
			return true;
	return false;
}

bool substitute_is_reflected(struct bytes field_name)
{
	static const char *const names[] = {
		"accept",
		"accept-charset",
		"accept-encoding",
		"accept-language",
		"cookie",
		"forwarded",
		"from",
		"host",
		"origin",
		"pragma",
		"referer",
		"user-agent",
		"via",
		"x-correlation-id",
		"x-real-ip",
		"x-request-id",
		"x-trace-id",
		"traceparent",
		"tracestate",
		"baggage",
		"content-type",
		"content-language",
		"content-location",
		"content-disposition",
		"access-control-request-headers",
		"access-control-request-method",
	};

	return is_one_of(field_name, names, ARRAY_LEN(names)) ||
	       bytes_has_prefix_nocase(field_name, BYTES("x-forwarded-"));
}

enum syntax substitute_syntax_of(struct bytes content_type)
{
	static const char *const json[] = { "application/json", "text/json", "application/jsonl",
					    "application/x-ndjson", "application/json-seq" };
	static const char suffix[] = "+json";
	size_t len = 0, suffix_len = sizeof(suffix) - 1;
	struct bytes type;

	while (len < content_type.len && !strchr("; \t", content_type.data[len]))
		len++;
	type = (struct bytes){ content_type.data, len };
	if (bytes_equal_nocase(type, BYTES("application/x-www-form-urlencoded")))
		return SYNTAX_PERCENT;
	if (is_one_of(type, json, ARRAY_LEN(json)) ||
	    (len > suffix_len &&
	     strncasecmp(type.data + len - suffix_len, suffix, suffix_len) == 0))
		return SYNTAX_JSON;
	return SYNTAX_RAW;
}
