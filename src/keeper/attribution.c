/* SPDX-License-Identifier: MIT */
/* The head of a request, written anew. */
#include "keeper/attribution.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/runid.h"
#include "http/h1_write.h"
#include "http/path.h"
#include "keeper/scrub.h"

#define FOLDED_MAX 32 /* longer than any name that is compared whole */

/* Names as they are compared: lower case; a last '*' stands for anything. */
static const char *const removed[] = {
	/* credentials */
	"authorization",
	"proxy-authorization",
	"x-api-key",
	"api-key",
	"x-goog-api-key",
	"ocp-apim-subscription-key",
	"cookie",
	RUN_TOKEN_HEADER,
	/* identity */
	"x-litellm-*",
	"x-pass-*",
	/* we write our own */
	"host",
	"content-length",
	"expect",
};

/* Some servers take an underscore for a dash. */
static char fold(char c)
{
	return c == '_' ? '-' : ascii_lower(c);
}

static bool is_named(struct bytes name, const char *pattern)
{
	for (size_t i = 0; i < name.len; i++, pattern++) {
		if (*pattern == '*')
			return true;
		if (fold(name.data[i]) != *pattern)
			return false;
	}
	return *pattern == '\0' || *pattern == '*';
}

/* A name as it is compared, in `text`; a long one is none that matters. */
static struct bytes folded(struct bytes name, char text[FOLDED_MAX])
{
	if (name.len > FOLDED_MAX)
		return name;
	for (size_t i = 0; i < name.len; i++)
		text[i] = fold(name.data[i]);
	return (struct bytes){ text, name.len };
}

bool attribution_is_removed(struct bytes name)
{
	char text[FOLDED_MAX];

	for (size_t i = 0; i < ARRAY_LEN(removed); i++)
		if (fold(name.data[0]) == removed[i][0] && is_named(name, removed[i]))
			return true;
	return http_is_of_connection(folded(name, text));
}

/* INV-NO-REFLECTION: what comes back is searched for the key. */
static bool would_hide(struct bytes name)
{
	char text[FOLDED_MAX];

	return scrub_is_hindered_by(folded(name, text));
}

/* One character of a query, decoded and in lower case. */
static char decode(struct bytes *text)
{
	char c = bytes_take(text, 1).data[0];

	if (c == '%' && text->len >= 2 && hex_digit(text->data[0]) >= 0 &&
	    hex_digit(text->data[1]) >= 0) {
		c = (char)(hex_digit(text->data[0]) << 4 | hex_digit(text->data[1]));
		bytes_take(text, 2);
	}
	return ascii_lower(c);
}

/* Whether it is this name, however it is written. */
static bool is_parameter(struct bytes name, const char *parameter)
{
	for (; name.len > 0 && *parameter; parameter++)
		if (decode(&name) != *parameter)
			return false;
	return name.len == 0 && !*parameter;
}

static bool is_any_parameter(struct bytes name, const char *const *parameters)
{
	for (size_t i = 0; i < PROVIDER_PARAMETERS_MAX && parameters[i]; i++)
		if (is_parameter(name, parameters[i]))
			return true;
	return false;
}

/* Adds the query without the parameters in which clients of this provider send a key. */
static void add_query(struct buf *out, struct bytes query, const char *const *parameters)
{
	const char *before = "?";
	struct bytes part, name, rest;

	if (!query.data)
		return;
	if (!parameters[0]) {
		buf_add_text(out, "?");
		buf_add(out, query.data, query.len);
		return;
	}
	do {
		if (!bytes_split(&query, '&', &part)) {
			part = query;
			query.len = 0;
		}
		rest = part;
		name = bytes_split(&rest, '=', &name) ? name : part;
		if (part.len == 0 || is_any_parameter(name, parameters))
			continue;
		buf_add_text(out, before);
		buf_add(out, part.data, part.len);
		before = "&";
	} while (query.len > 0);
}

static void write_request_line(struct buf *out, const struct keeper_llm *llm, struct bytes method,
			       struct bytes path, struct bytes query)
{
	buf_add(out, method.data, method.len);
	buf_add_text(out, " ");
	buf_add_text(out, llm->url.base);
	buf_add(out, path.data, path.len);
	add_query(out, query, llm->provider->key_parameters);
	buf_add_text(out, " HTTP/1.1\r\n");
}

/* What the operator says of every run is not a run's to say. */
static bool is_operators(const struct keeper_config *config, const char *name)
{
	for (size_t i = 0; i < config->metadata_count; i++)
		if (strcmp(config->metadata[i].name, name) == 0)
			return true;
	return false;
}

/* {"runId":…,"attempt":…} and what the operator adds; ASCII without line ends, as JSON is here. */
static void write_metadata(struct buf *out, const struct run *run)
{
	const struct keeper_config *config = run->terms->charter->config;
	struct json json = { .out = out };

	buf_add_text(out, "x-litellm-spend-logs-metadata: ");
	json_open(&json, NULL, '{');
	json_text(&json, "runId", run->run_id);
	json_number(&json, "attempt", run->attempt);
	for (size_t i = 0; i < config->metadata_count; i++)
		json_text(&json, config->metadata[i].name, config->metadata[i].value);
	for (size_t i = 0; i < run->metadata_count; i++)
		if (!is_operators(config, run->metadata[i].name))
			json_text(&json, run->metadata[i].name, run->metadata[i].value);
	json_close(&json, '}');
	buf_add_text(out, "\r\n");
}

static void write_identity(struct buf *out, const struct identity *identity)
{
	const struct run *run = identity->run;
	char text[RUNID_MAX + 16];

	snprintf(text, sizeof(text), "%s/%" PRIu32, run->run_id, run->attempt);
	h1_write_field(out, BYTES("x-litellm-end-user-id"),
		       bytes_of(run->account ? run->account : text));
	write_metadata(out, run);
	/* A call whose reply never comes can still be found in its log. */
	if (identity->call_id[0])
		h1_write_field(out, BYTES("x-litellm-call-id"), bytes_of(identity->call_id));
}

void attribution_write(struct buf *out, const struct identity *identity,
		       const struct keeper_llm *llm, const struct secret *key,
		       const struct link_open *open, struct bytes path,
		       const struct framing *framing)
{
	struct bytes query;

	http_path_split(open->path, &query);
	write_request_line(out, llm, open->method, path, query);
	h1_write_field(out, BYTES("host"), bytes_of(llm->url.authority));
	for (size_t i = 0; i < open->field_count; i++)
		if (!attribution_is_removed(open->fields[i].name) &&
		    !(key && would_hide(open->fields[i].name)))
			h1_write_field(out, open->fields[i].name, open->fields[i].value);
	if (key) {
		struct bytes value = secret_get(key);

		/* INV-NO-REFLECTION: a reply is searched for the key, and so must be readable. */
		h1_write_field(out, BYTES("accept-encoding"), BYTES("identity"));
		buf_add_text(out, llm->provider->key_header);
		buf_add_text(out, ": ");
		buf_add_text(out, llm->provider->key_prefix);
		buf_add(out, value.data, value.len);
		buf_add_text(out, "\r\n");
	}
	if (llm->provider->is_litellm)
		write_identity(out, identity);
	/* A request that could have a body says when it has none (RFC 9110 8.6). */
	if (framing->kind == FRAMING_NONE && !bytes_equal(open->method, BYTES("GET")) &&
	    !bytes_equal(open->method, BYTES("HEAD")))
		h1_write_framing(out, FRAMING_LENGTH, 0);
	else
		h1_write_framing(out, framing->kind, framing->length);
}
