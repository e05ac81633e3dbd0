/* SPDX-License-Identifier: MIT */
/* The head of a request to a host, written anew with the secrets in place. */
#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "http/h1_write.h"
#include "keeper/egress.h"

/* Fields that concern one connection, or that we write ourselves. */
static bool is_removed(struct bytes name)
{
	static const struct bytes names[] = {
		BYTES("host"),
		BYTES("content-length"),
		BYTES("expect"),
		BYTES("proxy-authorization"),
		BYTES(RUN_TOKEN_HEADER), /* names the run, to us */
		BYTES("sec-websocket-key"),
		BYTES("sec-websocket-version"),
		BYTES("sec-websocket-extensions"),
	};

	return bytes_is_any_nocase(name, names, ARRAY_LEN(names)) || http_is_of_connection(name);
}

static void write_host(struct buf *out, const struct upstream *upstream)
{
	char text[AUTHORITY_TEXT_MAX];

	authority_format_short(upstream->host, upstream->port, upstream->is_tls, text);
	h1_write_field(out, BYTES("host"), bytes_of(text));
}

/* ---- secrets ---- */

/* Whether a bound secret sets this field itself. */
static bool is_injected(const struct vault *vault, uint64_t bound, struct bytes name)
{
	for (size_t i = 0; i < vault->count; i++)
		if ((bound >> i & 1) && vault->entries[i].config->inject_header &&
		    bytes_equal_nocase(name, bytes_of(vault->entries[i].config->inject_header)))
			return true;
	return false;
}

static void write_injected(struct buf *out, const struct vault_entry *entry)
{
	const char *format = entry->config->inject_format, *mark = strstr(format, "{value}");
	struct bytes value = secret_get(entry->value);

	buf_add_text(out, entry->config->inject_header);
	buf_add_text(out, ": ");
	buf_add(out, format, (size_t)(mark - format));
	buf_add(out, value.data, value.len);
	buf_add_text(out, mark + strlen("{value}"));
	buf_add_text(out, "\r\n");
}

/* One field with secrets in place; -EPERM when a placeholder must not be there. */
static int write_field(struct exchange *exchange, const struct http_field *field, uint64_t bound)
{
	struct buf *out = &exchange->request;
	struct substitute_found found = { 0 };
	int r;

	buf_add(out, field->name.data, field->name.len);
	buf_add_text(out, ": ");
	r = substitute_header(exchange->terms->substitutes, bound, field->name, field->value, out,
			      &found);
	buf_add_text(out, "\r\n");
	return r;
}

/* ---- the head ---- */

/* Fields by which some servers take a request for another one than was judged. */
static bool is_override(const struct exchange *exchange, struct bytes name)
{
	static const struct bytes names[] = {
		BYTES("x-original-url"),         BYTES("x-rewrite-url"),
		BYTES("x-http-method-override"), BYTES("x-http-method"),
		BYTES("x-method-override"),
	};
	/* Where a rule looks at neither path nor method, nothing is got round. */
	bool is_judged = exchange->terms->charter->policy.has_paths ||
			 (exchange->rule && strpbrk(exchange->rule, " /"));

	return is_judged && bytes_is_any_nocase(name, names, ARRAY_LEN(names));
}

static bool is_passed_on(const struct exchange *exchange, uint64_t bound, struct bytes name)
{
	const struct vault *vault = &exchange->terms->charter->vault;

	/* INV-NO-REFLECTION: what comes back is searched for secrets, and so must be readable. */
	if (exchange->terms->scrubs && scrub_is_hindered_by(name))
		return false;
	return !is_removed(name) && !is_injected(vault, bound, name) &&
	       !is_override(exchange, name);
}

/* How the body goes out: its length may change where secrets take the place of placeholders. */
static struct framing choose_framing(struct exchange *exchange, const struct link_open *open,
				     enum syntax syntax)
{
	const struct vault *vault = &exchange->terms->charter->vault;

	if (open->framing == FRAMING_LENGTH && vault->count > 0 &&
	    (exchange->recode || !substitute_keeps_length(exchange->terms->substitutes, syntax)))
		return (struct framing){ FRAMING_CHUNKED, 0 };
	return (struct framing){ (enum http_framing)open->framing, open->length };
}

static bool may_have_no_body(struct bytes method)
{
	return bytes_equal(method, BYTES("GET")) || bytes_equal(method, BYTES("HEAD")) ||
	       bytes_equal(method, BYTES("OPTIONS"));
}

/* What the agent understands and can be read here. */
static void write_accepted(struct buf *out, const struct link_open *open)
{
	struct bytes accepted = { "", 0 };

	for (size_t i = 0; i < open->field_count; i++)
		if (bytes_equal_nocase(open->fields[i].name, BYTES("accept-encoding")))
			accepted = open->fields[i].value;
	buf_add_text(out, "accept-encoding: ");
	encoding_filter_accepted(accepted, out);
	buf_add_text(out, "\r\n");
}

static int write_fields(struct exchange *exchange, const struct link_open *open, uint64_t bound)
{
	const struct vault *vault = &exchange->terms->charter->vault;
	int r = 0;

	for (size_t i = 0; r == 0 && i < open->field_count; i++)
		if (is_passed_on(exchange, bound, open->fields[i].name))
			r = write_field(exchange, &open->fields[i], bound);
	for (size_t i = 0; r == 0 && i < vault->count; i++)
		if ((bound >> i & 1) && vault->entries[i].config->inject_header)
			write_injected(&exchange->request, &vault->entries[i]);
	if (exchange->terms->scrubs)
		write_accepted(&exchange->request, open);
	return r;
}

/* Extensions are not offered: one that compresses would hide what is in a frame. */
static void write_upgrade(struct buf *out, const struct websocket *websocket)
{
	h1_write_field(out, BYTES("connection"), BYTES("Upgrade"));
	h1_write_field(out, BYTES("upgrade"), BYTES("websocket"));
	h1_write_field(out, BYTES("sec-websocket-version"), BYTES("13"));
	h1_write_field(out, BYTES("sec-websocket-key"), bytes_of(websocket->key));
}

static int write_head(struct exchange *exchange, const struct link_open *open, uint64_t bound)
{
	struct buf *out = &exchange->request;
	struct substitute_found found = { 0 };
	struct framing framing = choose_framing(exchange, open, exchange->syntax);
	int r;

	exchange->is_chunked = framing.kind == FRAMING_CHUNKED && !exchange->websocket;
	buf_add(out, open->method.data, open->method.len);
	buf_add_text(out, " ");
	r = substitute_target(exchange->terms->substitutes, bound, open->path, out, &found);
	buf_add_text(out, " HTTP/1.1\r\n");
	write_host(out, exchange->upstream);
	if (r == 0)
		r = write_fields(exchange, open, bound);
	if (exchange->websocket) {
		write_upgrade(out, exchange->websocket);
		h1_write_framing(out, FRAMING_NONE, 0);
	} else if (framing.kind == FRAMING_NONE && !may_have_no_body(open->method))
		h1_write_framing(out, FRAMING_LENGTH, 0);
	else
		h1_write_framing(out, framing.kind, framing.length);
	exchange->head_len = out->len;
	return r;
}

/* How the body is written and encoded. */
static enum refusal read_type(struct exchange *exchange, const struct link_open *open)
{
	struct bytes type = { "", 0 };
	enum encoding found = ENCODING_IDENTITY, encoding;

	for (size_t i = 0; i < open->field_count; i++) {
		const struct http_field *field = &open->fields[i];

		if (bytes_equal_nocase(field->name, BYTES("content-type")))
			type = field->value;
		if (!bytes_equal_nocase(field->name, BYTES("content-encoding")))
			continue;
		if (encoding_parse(field->value, &encoding) < 0 || found != ENCODING_IDENTITY)
			return REFUSAL_ENCODED;
		found = encoding;
	}
	exchange->syntax = substitute_syntax_of(type);
	if (found != ENCODING_IDENTITY)
		exchange->recode = recode_new(found);
	return REFUSAL_NONE;
}

/* What a body is looked through for: bound secrets where they may stand, others to refuse them. */
static enum refusal prepare_body(struct exchange *exchange, const struct link_open *open,
				 uint64_t bound)
{
	const struct vault *vault = &exchange->terms->charter->vault;
	enum refusal refusal;

	if (open->kind == LINK_KIND_WEBSOCKET)
		exchange->websocket = websocket_new(exchange->terms->substitutes, bound,
						    exchange->terms->scrubs);
	if (open->framing == FRAMING_NONE || vault->count == 0 || exchange->websocket)
		return REFUSAL_NONE;
	refusal = read_type(exchange, open);
	if (refusal != REFUSAL_NONE)
		return refusal;
	exchange->substitute = malloc(sizeof(*exchange->substitute));
	if (!exchange->substitute)
		die_no_memory();
	substitute_init(exchange->substitute, exchange->terms->substitutes, bound, KEEPER_BODY,
			exchange->syntax);
	return REFUSAL_NONE;
}

/*
 * A secret goes only over verified TLS unless its operator says otherwise: which scheme it is, is
 * the agent's choice.
 */
static uint64_t find_bound(const struct exchange *exchange, const struct authority *authority)
{
	return vault_bound(&exchange->terms->charter->vault, authority, exchange->upstream->is_tls);
}

enum refusal egress_write_request(struct exchange *exchange, const struct link_open *open,
				  const struct authority *authority)
{
	uint64_t bound = find_bound(exchange, authority);
	enum refusal refusal = prepare_body(exchange, open, bound);

	if (refusal != REFUSAL_NONE)
		return refusal;
	exchange->scrubs = exchange->terms->scrubs;
	exchange->bound = bound;
	switch (write_head(exchange, open, bound)) {
	case 0:
		return REFUSAL_NONE;
	case -EPERM:
		return REFUSAL_MISPLACED;
	default:
		return REFUSAL_TOO_LARGE;
	}
}
