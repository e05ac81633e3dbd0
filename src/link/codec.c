/* SPDX-License-Identifier: MIT */
/* Payloads: numbers and texts of known size, in a fixed order. */
#include <assert.h>
#include <errno.h>

#include "base/runid.h"
#include "http/charset.h"
#include "link/link.h"

/* ---- writing ---- */

static void put_u8(struct buf *out, uint8_t value)
{
	buf_add(out, (const char *)&value, 1);
}

static void put_u32(struct buf *out, uint32_t value)
{
	const char bytes[] = { (char)value, (char)(value >> 8), (char)(value >> 16),
			       (char)(value >> 24) };

	buf_add(out, bytes, sizeof(bytes));
}

static void put_u64(struct buf *out, uint64_t value)
{
	put_u32(out, (uint32_t)value);
	put_u32(out, (uint32_t)(value >> 32));
}

static void put_text(struct buf *out, struct bytes text)
{
	put_u32(out, (uint32_t)text.len);
	buf_add(out, text.data, text.len);
}

static void put_fields(struct buf *out, const struct http_field *fields, size_t count)
{
	put_u8(out, (uint8_t)count);
	put_u8(out, 0);
	for (size_t i = 0; i < count; i++) {
		put_text(out, fields[i].name);
		put_text(out, fields[i].value);
	}
}

/* Begins a message; end_message writes the length that is known then. */
static size_t begin_message(struct buf *out, enum link_type type, uint32_t exchange)
{
	size_t start = out->len;

	put_u32(out, (uint32_t)type);
	put_u32(out, exchange);
	put_u32(out, 0);
	return start;
}

static void end_message(struct buf *out, size_t start)
{
	size_t len;

	/* It found no room. Whoever flushes the buffer sees that it is full, and ends the link. */
	if (out->len == out->max)
		return;
	len = out->len - start - LINK_HEADER_LEN;
	assert(len <= LINK_HEAD_MAX);
	for (size_t i = 0; i < 4; i++)
		out->data[start + 8 + i] = (char)(len >> (8 * i));
}

void link_write_hello(struct buf *out, struct bytes run_id, uint32_t attempt)
{
	size_t start = begin_message(out, LINK_HELLO, 0);

	put_u32(out, attempt);
	put_text(out, run_id);
	end_message(out, start);
}

void link_write_tunnels(struct buf *out, const struct bytes *tunnels, size_t count)
{
	size_t start = begin_message(out, LINK_TUNNELS, 0);

	put_u8(out, (uint8_t)count);
	put_u8(out, 0);
	for (size_t i = 0; i < count; i++)
		put_text(out, tunnels[i]);
	end_message(out, start);
}

void link_write_names(struct buf *out, const struct link_names *names)
{
	size_t start = begin_message(out, LINK_NAMES, 0);

	put_u8(out, names->is_deny);
	put_u8(out, names->is_last);
	put_u8(out, (uint8_t)names->count);
	put_u8(out, 0);
	for (size_t i = 0; i < names->count; i++) {
		put_u8(out, names->names[i].is_known);
		put_text(out, names->names[i].pattern);
	}
	end_message(out, start);
}

void link_write_open(struct buf *out, uint32_t exchange, const struct link_open *open)
{
	size_t start = begin_message(out, LINK_OPEN, exchange);

	put_u8(out, open->kind);
	put_u8(out, open->is_tls);
	put_u8(out, open->minor);
	put_u8(out, open->framing);
	put_u64(out, open->length);
	put_text(out, open->method);
	put_text(out, open->host);
	put_text(out, open->path);
	put_fields(out, open->fields, open->field_count);
	end_message(out, start);
}

void link_write_reply(struct buf *out, uint32_t exchange, const struct link_reply *reply)
{
	size_t start = begin_message(out, LINK_REPLY, exchange);

	put_u32(out, (uint32_t)reply->status);
	put_u8(out, reply->framing);
	put_u64(out, reply->length);
	put_text(out, reply->reason);
	put_fields(out, reply->fields, reply->field_count);
	end_message(out, start);
}

void link_write_data(struct buf *out, uint32_t exchange, struct bytes data)
{
	size_t start = begin_message(out, LINK_DATA, exchange);

	assert(data.len > 0 && data.len <= LINK_DATA_MAX);
	buf_add(out, data.data, data.len);
	end_message(out, start);
}

void link_write_end(struct buf *out, uint32_t exchange, const struct link_end *end)
{
	size_t start = begin_message(out, LINK_END, exchange);

	put_fields(out, end->fields, end->field_count);
	end_message(out, start);
}

void link_write_credit(struct buf *out, uint32_t exchange, uint32_t credit)
{
	size_t start = begin_message(out, LINK_CREDIT, exchange);

	put_u32(out, credit);
	end_message(out, start);
}

void link_write_abort(struct buf *out, uint32_t exchange)
{
	end_message(out, begin_message(out, LINK_ABORT, exchange));
}

void link_write_refused(struct buf *out, uint32_t exchange, const struct link_refused *refused)
{
	size_t start = begin_message(out, LINK_REFUSED, exchange);

	put_text(out, refused->code);
	put_text(out, refused->method);
	put_text(out, refused->host);
	put_text(out, refused->path);
	end_message(out, start);
}

void link_write_token(struct buf *out, struct bytes token)
{
	size_t start = begin_message(out, LINK_TOKEN, 0);

	assert(token.len > 0 && token.len <= LINK_TOKEN_MAX);
	put_u8(out, LINK_VERSION);
	put_u8(out, 0); /* for what a later version may ask for */
	put_text(out, token);
	end_message(out, start);
}

void link_write_notice(struct buf *out, const struct link_notice *notice)
{
	size_t start = begin_message(out, LINK_NOTICE, 0);

	put_u8(out, (uint8_t)notice->letter);
	buf_add(out, notice->text.data, notice->text.len);
	end_message(out, start);
}

void link_write_bye(struct buf *out)
{
	end_message(out, begin_message(out, LINK_BYE, 0));
}

/* ---- parsing: from here on the bytes may be the agent's ---- */

struct source {
	struct bytes left;
	bool is_bad; /* once something was missing, everything read is zero or empty */
};

static struct bytes get_bytes(struct source *source, size_t len)
{
	if (source->is_bad || source->left.len < len) {
		source->is_bad = true;
		return (struct bytes){ "", 0 };
	}
	return bytes_take(&source->left, len);
}

static uint64_t get_number(struct source *source, size_t len)
{
	struct bytes bytes = get_bytes(source, len);
	uint64_t value = 0;

	for (size_t i = bytes.len; i > 0; i--)
		value = value << 8 | (unsigned char)bytes.data[i - 1];
	return value;
}

static struct bytes get_text(struct source *source)
{
	return get_bytes(source, (size_t)get_number(source, 4));
}

static void require(struct source *source, bool is_true)
{
	if (!is_true)
		source->is_bad = true;
}

/* A value that cannot end its line, wherever it is written. */
static bool is_value(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (charset_is_control(text.data[i]))
			return false;
	return true;
}

static size_t get_fields(struct source *source, struct http_field *fields)
{
	size_t count = (size_t)get_number(source, 2);

	require(source, count <= HTTP_FIELDS_MAX);
	for (size_t i = 0; i < count && !source->is_bad; i++) {
		fields[i].name = get_text(source);
		fields[i].value = get_text(source);
		require(source, charset_is_token(fields[i].name) && is_value(fields[i].value));
	}
	return source->is_bad ? 0 : count;
}

static void get_framing(struct source *source, uint8_t *ret_framing, uint64_t *ret_length,
			enum http_framing most)
{
	*ret_framing = (uint8_t)get_number(source, 1);
	*ret_length = get_number(source, 8);
	require(source, *ret_framing <= most && *ret_length <= HTTP_LENGTH_MAX);
	require(source, (*ret_framing == FRAMING_LENGTH) == (*ret_length > 0) ||
				*ret_framing == FRAMING_NONE);
}

static int finish(const struct source *source)
{
	return source->is_bad || source->left.len > 0 ? -EPROTO : 0;
}

int link_parse_hello(struct bytes payload, struct bytes *ret_run_id, uint32_t *ret_attempt)
{
	struct source source = { .left = payload };
	char id[RUNID_MAX + 1] = "";

	*ret_attempt = (uint32_t)get_number(&source, 4);
	*ret_run_id = get_text(&source);
	require(&source, ret_run_id->len <= RUNID_MAX);
	if (!source.is_bad) {
		memcpy(id, ret_run_id->data, ret_run_id->len);
		require(&source, strlen(id) == ret_run_id->len && runid_is_valid(id));
	}
	return finish(&source);
}

int link_parse_tunnels(struct bytes payload, struct bytes *ret_tunnels, size_t *ret_count)
{
	struct source source = { .left = payload };
	size_t count = (size_t)get_number(&source, 2);

	require(&source, count <= LINK_TUNNELS_MAX);
	for (size_t i = 0; i < count && !source.is_bad; i++)
		ret_tunnels[i] = get_text(&source);
	*ret_count = source.is_bad ? 0 : count;
	return finish(&source);
}

int link_parse_names(struct bytes payload, struct link_names *ret_names)
{
	struct source source = { .left = payload };
	size_t count;

	ret_names->is_deny = (uint8_t)get_number(&source, 1);
	ret_names->is_last = (uint8_t)get_number(&source, 1);
	count = (size_t)get_number(&source, 2);
	require(&source, ret_names->is_deny <= 1 && ret_names->is_last <= 1);
	require(&source, count <= LINK_NAMES_MAX);
	for (size_t i = 0; i < count && !source.is_bad; i++) {
		ret_names->names[i].is_known = (uint8_t)get_number(&source, 1);
		ret_names->names[i].pattern = get_text(&source);
		require(&source, ret_names->names[i].is_known <= 1);
	}
	ret_names->count = source.is_bad ? 0 : count;
	return finish(&source);
}

int link_parse_open(struct bytes payload, struct link_open *ret_open)
{
	struct source source = { .left = payload };

	/* Fields beyond field_count are nobody's: wiping them costs as much as reading the rest. */
	ret_open->kind = (uint8_t)get_number(&source, 1);
	ret_open->is_tls = (uint8_t)get_number(&source, 1);
	ret_open->minor = (uint8_t)get_number(&source, 1);
	get_framing(&source, &ret_open->framing, &ret_open->length, FRAMING_CHUNKED);
	ret_open->method = get_text(&source);
	ret_open->host = get_text(&source);
	ret_open->path = get_text(&source);
	require(&source, ret_open->kind <= LINK_KIND_TUNNEL);
	require(&source, ret_open->is_tls <= 1 && ret_open->minor <= 1);
	/* Only a reply, to HEAD, has a length and no body. */
	require(&source, ret_open->framing == FRAMING_LENGTH || ret_open->length == 0);
	require(&source, charset_is_token(ret_open->method));
	require(&source, ret_open->host.len == 0 || charset_is_authority(ret_open->host));
	require(&source,
		charset_is_target(ret_open->path) && ret_open->path.len <= HTTP_TARGET_MAX);
	ret_open->field_count = get_fields(&source, ret_open->fields);
	return finish(&source);
}

int link_parse_reply(struct bytes payload, struct link_reply *ret_reply)
{
	struct source source = { .left = payload };

	ret_reply->status = (int)get_number(&source, 4);
	get_framing(&source, &ret_reply->framing, &ret_reply->length, FRAMING_CLOSE);
	ret_reply->reason = get_text(&source);
	require(&source, ret_reply->status >= 100 && ret_reply->status <= 999);
	require(&source, is_value(ret_reply->reason));
	ret_reply->field_count = get_fields(&source, ret_reply->fields);
	return finish(&source);
}

int link_parse_end(struct bytes payload, struct link_end *ret_end)
{
	struct source source = { .left = payload };

	ret_end->field_count = get_fields(&source, ret_end->fields);
	return finish(&source);
}

int link_parse_credit(struct bytes payload, uint32_t *ret_credit)
{
	struct source source = { .left = payload };

	*ret_credit = (uint32_t)get_number(&source, 4);
	require(&source, *ret_credit > 0 && *ret_credit <= LINK_CREDIT_FIRST);
	return finish(&source);
}

int link_parse_refused(struct bytes payload, struct link_refused *ret_refused)
{
	struct source source = { .left = payload };

	ret_refused->code = get_text(&source);
	ret_refused->method = get_text(&source);
	ret_refused->host = get_text(&source);
	ret_refused->path = get_text(&source);
	require(&source, charset_is_token(ret_refused->code));
	require(&source, ret_refused->method.len == 0 || charset_is_token(ret_refused->method));
	require(&source, ret_refused->host.len == 0 || charset_is_authority(ret_refused->host));
	require(&source, ret_refused->path.len == 0 || charset_is_target(ret_refused->path));
	return finish(&source);
}

int link_parse_token(struct bytes payload, struct bytes *ret_token)
{
	struct source source = { .left = payload };
	uint64_t version = get_number(&source, 1);
	uint64_t flags = get_number(&source, 1);

	/* What comes after it may mean anything then. */
	if (!source.is_bad && version != LINK_VERSION)
		return -EPROTONOSUPPORT;
	*ret_token = get_text(&source);
	require(&source, flags == 0);
	require(&source, ret_token->len > 0 && ret_token->len <= LINK_TOKEN_MAX);
	require(&source, is_value(*ret_token));
	return finish(&source);
}

int link_parse_notice(struct bytes payload, struct link_notice *ret_notice)
{
	struct source source = { .left = payload };

	ret_notice->letter = (char)get_number(&source, 1);
	ret_notice->text = get_bytes(&source, source.left.len);
	require(&source, ret_notice->letter > ' ' && ret_notice->letter < 0x7f);
	return finish(&source);
}
