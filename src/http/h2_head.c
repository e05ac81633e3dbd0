/* SPDX-License-Identifier: MIT */
/*
 * Heads of HTTP/2 messages.
 *
 * nghttp2 has checked by now what makes a message malformed (RFC 9113 8.1.1): which pseudo
 * fields there are, each once and before all others, names without capitals, nothing that
 * concerns a connection, one Content-Length that is a number and comes true. Here is the rest,
 * as the HTTP/1 reader has it, so that no request gets further by one way than by the other.
 */
#include "http/h2_head.h"

#include <assert.h>
#include <errno.h>

#include "base/die.h"
#include "http/charset.h"

/* ---- coming in ---- */

struct h2_block *h2_block_new(void)
{
	struct h2_block *block = malloc(sizeof(*block));

	if (!block)
		die_no_memory();
	/* All but what is large and counted. */
	http_head_clear(&block->head);
	block->fault = FAULT_NONE;
	block->size = block->count = block->held_count = 0;
	block->authority = block->status = (struct bytes){ NULL, 0 };
	buf_init(&block->cookie, HTTP_HEAD_MAX);
	return block;
}

void h2_block_free(struct h2_block *block)
{
	if (!block)
		return;
	for (size_t i = 0; i < block->held_count; i++)
		nghttp2_rcbuf_decref(block->held[i]);
	buf_fini(&block->cookie);
	free(block);
}

static struct bytes view_of(nghttp2_rcbuf *text)
{
	nghttp2_vec vec = nghttp2_rcbuf_get_buf(text);

	return (struct bytes){ (const char *)vec.base, vec.len };
}

static void hold(struct h2_block *block, nghttp2_rcbuf *text)
{
	assert(block->held_count < ARRAY_LEN(block->held));
	nghttp2_rcbuf_incref(text);
	block->held[block->held_count++] = text;
}

static void set_fault(struct h2_block *block, enum http_fault fault)
{
	if (!block->fault)
		block->fault = fault;
}

/* nghttp2 lets each of them pass once, and no other. */
static void add_pseudo(struct h2_block *block, struct bytes name, nghttp2_rcbuf *value)
{
	const struct {
		struct bytes name;
		struct bytes *value;
	} known[] = {
		{ BYTES(":method"), &block->head.method },
		{ BYTES(":scheme"), &block->head.scheme },
		{ BYTES(":authority"), &block->authority },
		{ BYTES(":path"), &block->head.path },
		{ BYTES(":protocol"), &block->head.protocol },
		{ BYTES(":status"), &block->status },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (!bytes_equal(name, known[i].name) || known[i].value->data)
			continue;
		hold(block, value);
		*known[i].value = view_of(value);
		return;
	}
	set_fault(block, FAULT_MESSAGE);
}

/* An origin's: nghttp2 refuses it in requests. */
static struct bytes trim(struct bytes text)
{
	while (text.len && (text.data[0] == ' ' || text.data[0] == '\t'))
		bytes_take(&text, 1);
	while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

static void add_field(struct h2_block *block, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	struct http_head *head = &block->head;

	if (head->field_count == HTTP_FIELDS_MAX - 1) {
		set_fault(block, FAULT_FIELDS);
		return;
	}
	hold(block, name);
	hold(block, value);
	head->fields[head->field_count++] = (struct http_field){ view_of(name),
								 trim(view_of(value)) };
}

/* With ": " and the end of a line, as in HTTP/1. */
static bool count_field(struct h2_block *block, size_t name_len, size_t value_len)
{
	block->count++;
	block->size += name_len + value_len + 4;
	return block->size <= H2_BLOCK_MAX && block->count <= (size_t)4 * HTTP_FIELDS_MAX;
}

bool h2_block_add(struct h2_block *block, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	struct bytes text = view_of(name);

	if (!count_field(block, text.len, view_of(value).len))
		return false;
	/* The rest is decoded, because later heads depend on it, but not kept. */
	if (block->size > HTTP_HEAD_MAX)
		set_fault(block, FAULT_HEAD_LONG);
	else if (text.len && text.data[0] == ':')
		add_pseudo(block, text, value);
	else
		add_field(block, name, value);
	return true;
}

bool h2_block_refuse(struct h2_block *block, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	bool is_named = charset_is_token(view_of(name));

	set_fault(block, is_named ? FAULT_CONTROL : FAULT_FIELD_NAME);
	return count_field(block, view_of(name).len, view_of(value).len);
}

/* ---- what a head amounts to ---- */

/* RFC 9113 8.2.3: a cookie may come in pieces, and is one field to everybody else. */
static void join_cookies(struct h2_block *block)
{
	struct http_head *head = &block->head;
	struct http_field *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];

		if (!bytes_equal(field->name, BYTES("cookie"))) {
			head->fields[count++] = *field;
			continue;
		}
		if (first) {
			buf_add_text(&block->cookie, "; ");
		} else {
			first = &head->fields[count++];
			*first = *field;
		}
		buf_add(&block->cookie, field->value.data, field->value.len);
	}
	head->field_count = count;
	if (first && block->cookie.len > first->value.len)
		first->value = (struct bytes){ block->cookie.data, block->cookie.len };
}

static enum http_fault read_length(struct http_head *head)
{
	const struct http_field *field = http_find_field(head, BYTES("content-length"));

	if (!field)
		return FAULT_NONE;
	if (field->value.len == 0 || field->value.len > 19)
		return FAULT_LENGTH;
	for (size_t i = 0; i < field->value.len; i++) {
		if (field->value.data[i] < '0' || field->value.data[i] > '9')
			return FAULT_LENGTH;
		head->length = head->length * 10 + (uint64_t)(field->value.data[i] - '0');
	}
	if (head->length > HTTP_LENGTH_MAX)
		return FAULT_LENGTH;
	head->framing = head->length ? FRAMING_LENGTH : FRAMING_NONE;
	return FAULT_NONE;
}

static enum http_fault read_framing(struct http_head *head, bool is_end)
{
	enum http_fault fault;

	head->minor = 1;
	head->keeps_alive = true;
	head->framing = FRAMING_CHUNKED;
	fault = read_length(head);
	if (is_end)
		head->framing = FRAMING_NONE;
	return fault;
}

static enum http_fault read_target(struct http_head *head, struct bytes authority)
{
	bool is_connect = bytes_equal(head->method, BYTES("CONNECT"));

	if (!charset_is_token(head->method))
		return FAULT_METHOD;
	if (bytes_equal(head->method, BYTES("TRACE")))
		return FAULT_TRACE;
	if (is_connect && http_find_field(head, BYTES("content-length")))
		return FAULT_LENGTH;
	if (is_connect && !head->protocol.data) {
		head->target = authority;
		return FAULT_NONE;
	}
	if (!bytes_equal(head->scheme, BYTES("https")) && !bytes_equal(head->scheme, BYTES("http")))
		return FAULT_SCHEME;
	if (head->path.len > HTTP_TARGET_MAX)
		return FAULT_TARGET_LONG;
	if (!charset_is_target(head->path))
		return FAULT_TARGET;
	if (head->protocol.data && !charset_is_token(head->protocol))
		return FAULT_UPGRADE;
	head->target = head->path;
	return FAULT_NONE;
}

static enum http_fault read_host(struct http_head *head, struct bytes authority)
{
	const struct http_field *host = http_find_field(head, BYTES("host"));

	head->host = authority.data ? authority : host ? host->value : (struct bytes){ NULL, 0 };
	if (!charset_is_authority(head->host))
		return FAULT_HOST;
	if (host && !bytes_equal_nocase(host->value, head->host))
		return FAULT_AUTHORITY;
	return FAULT_NONE;
}

static enum http_fault read_expectations(struct http_head *head)
{
	const struct http_field *expect = http_find_field(head, BYTES("expect"));

	if (http_find_field(head, BYTES("http2-settings")))
		return FAULT_UPGRADE;
	if (!expect)
		return FAULT_NONE;
	head->expects_continue = bytes_equal_nocase(expect->value, BYTES("100-continue"));
	return head->expects_continue ? FAULT_NONE : FAULT_EXPECT;
}

enum http_fault h2_block_read_request(struct h2_block *block, bool is_end)
{
	struct http_head *head = &block->head;
	enum http_fault fault;

	join_cookies(block);
	fault = read_framing(head, is_end);
	/* All of them, so that a refusal knows as much as there is to know. */
	set_fault(block, read_target(head, block->authority));
	set_fault(block, read_host(head, block->authority));
	set_fault(block, read_expectations(head));
	set_fault(block, fault);
	return block->fault;
}

static enum http_fault read_status(struct bytes text, struct http_head *head)
{
	if (text.len != 3)
		return FAULT_STATUS_LINE;
	for (size_t i = 0; i < 3; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return FAULT_STATUS_LINE;
		head->status = head->status * 10 + (text.data[i] - '0');
	}
	return head->status >= 100 ? FAULT_NONE : FAULT_STATUS_LINE;
}

enum http_fault h2_block_read_reply(struct h2_block *block, bool is_end)
{
	struct http_head *head = &block->head;

	set_fault(block, read_status(block->status, head));
	set_fault(block, read_framing(head, is_end));
	if (head->status < 200 || head->status == 204 || head->status == 304)
		head->framing = FRAMING_NONE;
	return block->fault;
}

enum http_fault h2_block_read_trailer(struct h2_block *block)
{
	if (block->size > HTTP_TRAILER_MAX)
		set_fault(block, FAULT_TRAILER_LONG);
	return block->fault;
}

/* ---- going out ---- */

/* What comes here was read by a reader that refuses these, or is our own. */
static bool is_clean(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (charset_is_control(text.data[i]))
			return false;
	return true;
}

static void add_nv(struct h2_nvs *nvs, struct bytes name, struct bytes value, uint8_t flags)
{
	/* nghttp2's type is not const; it only reads. */
	nghttp2_nv nv = { (uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len, flags };

	assert(is_clean(name) && is_clean(value) && nvs->count < ARRAY_LEN(nvs->nvs));
	nvs->nvs[nvs->count++] = nv;
	nvs->size += name.len + value.len + 4;
}

/* A key stays out of HPACK's table: it would outlive its request there (RFC 7541 7.1.3). */
static uint8_t indexing_of(struct bytes name)
{
	static const struct bytes keys[] = {
		BYTES("authorization"),  BYTES("proxy-authorization"), BYTES("cookie"),
		BYTES("set-cookie"),     BYTES("x-api-key"),           BYTES("api-key"),
		BYTES("x-goog-api-key"), BYTES("private-token"),
	};

	return bytes_is_any_nocase(name, keys, ARRAY_LEN(keys)) ? NGHTTP2_NV_FLAG_NO_INDEX
								: NGHTTP2_NV_FLAG_NONE;
}

/* RFC 9113 8.2.2: TE may say one thing, which gRPC insists on. */
static bool is_sent(const struct http_field *field)
{
	static const struct http_head no_head;

	if (bytes_equal_nocase(field->name, BYTES("te")))
		return bytes_equal_nocase(field->value, BYTES("trailers"));
	return !http_is_hop_by_hop(&no_head, field->name) &&
	       !bytes_equal_nocase(field->name, BYTES("host")) &&
	       !bytes_equal_nocase(field->name, BYTES("content-length"));
}

static int add_fields(struct h2_nvs *nvs, const struct http_field *fields, size_t count,
		      size_t size_max)
{
	if (count > HTTP_FIELDS_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < count; i++)
		if (is_sent(&fields[i]))
			add_nv(nvs, fields[i].name, fields[i].value, indexing_of(fields[i].name));
	return nvs->size <= size_max ? 0 : -EMSGSIZE;
}

static void add_length(struct h2_nvs *nvs, const struct h2_message *message)
{
	if (!message->has_length)
		return;
	snprintf(nvs->length, sizeof(nvs->length), "%llu", (unsigned long long)message->length);
	add_nv(nvs, BYTES("content-length"), bytes_of(nvs->length), NGHTTP2_NV_FLAG_NONE);
}

int h2_format_request(const struct h2_message *message, struct h2_nvs *ret_nvs)
{
	const struct {
		struct bytes name, value;
	} pseudo[] = {
		{ BYTES(":method"), message->method },     { BYTES(":scheme"), message->scheme },
		{ BYTES(":authority"), message->host },    { BYTES(":path"), message->path },
		{ BYTES(":protocol"), message->protocol },
	};
	bool is_tunnel = bytes_equal(message->method, BYTES("CONNECT")) && !message->protocol.len;

	ret_nvs->count = ret_nvs->size = 0;
	for (size_t i = 0; i < ARRAY_LEN(pseudo); i++)
		if (pseudo[i].value.len && (!is_tunnel || i == 0 || i == 2))
			add_nv(ret_nvs, pseudo[i].name, pseudo[i].value, NGHTTP2_NV_FLAG_NONE);
	add_length(ret_nvs, message);
	return add_fields(ret_nvs, message->fields, message->field_count, HTTP_HEAD_MAX);
}

int h2_format_reply(const struct h2_message *message, struct h2_nvs *ret_nvs)
{
	assert(message->status >= 100 && message->status <= 999);
	ret_nvs->count = ret_nvs->size = 0;
	snprintf(ret_nvs->status, sizeof(ret_nvs->status), "%d", message->status);
	add_nv(ret_nvs, BYTES(":status"), bytes_of(ret_nvs->status), NGHTTP2_NV_FLAG_NONE);
	add_length(ret_nvs, message);
	return add_fields(ret_nvs, message->fields, message->field_count, HTTP_HEAD_MAX);
}

int h2_format_trailer(const struct http_field *fields, size_t count, struct h2_nvs *ret_nvs)
{
	ret_nvs->count = ret_nvs->size = 0;
	return add_fields(ret_nvs, fields, count, HTTP_TRAILER_MAX);
}
