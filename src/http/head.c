/* SPDX-License-Identifier: MIT */
/*
 * Heads of requests and replies, strictly.
 *
 * The text is complete when it comes here, so that every rule can be stated on whole
 * lines. Nothing is repaired: what two parsers could read differently is refused, with
 * the rule it breaks.
 */
#include "http/head.h"

#include "http/charset.h"

static const struct http_fault_info faults[] = {
	{ 0, "", "", "" },
#define FAULT(name, status, code, text, rule) { status, code, text, rule },
#include "http/fault.def"
#undef FAULT
};

const struct http_fault_info *http_fault_info(enum http_fault fault)
{
	return &faults[fault];
}

/* ---- lines and fields ---- */

/* Takes one line off the front, without its CRLF. The text ends with one. */
static enum http_fault take_line(struct bytes *text, struct bytes *ret_line)
{
	struct bytes line;

	if (!bytes_split(text, '\n', &line) || line.len == 0 || line.data[line.len - 1] != '\r')
		return FAULT_LINE_END;
	line.len--;
	for (size_t i = 0; i < line.len; i++) {
		if (line.data[i] == '\r')
			return FAULT_LINE_END;
		if (charset_is_control(line.data[i]))
			return FAULT_CONTROL;
	}
	*ret_line = line;
	return FAULT_NONE;
}

static struct bytes trim(struct bytes text)
{
	while (text.len && (text.data[0] == ' ' || text.data[0] == '\t'))
		bytes_take(&text, 1);
	while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

static enum http_fault read_field(struct bytes line, struct http_head *head)
{
	struct http_field *field = &head->fields[head->field_count];

	if (line.data[0] == ' ' || line.data[0] == '\t')
		return FAULT_FOLD;
	if (!bytes_split(&line, ':', &field->name) || !charset_is_token(field->name))
		return FAULT_FIELD_NAME;
	if (head->field_count == HTTP_FIELDS_MAX - 1)
		return FAULT_FIELDS;
	field->value = trim(line);
	head->field_count++;
	return FAULT_NONE;
}

enum http_fault http_read_fields(struct bytes text, struct http_head *head)
{
	enum http_fault fault;
	struct bytes line;

	for (;;) {
		fault = take_line(&text, &line);
		if (fault || line.len == 0)
			return fault ? fault : text.len ? FAULT_LINE_END : FAULT_NONE;
		fault = read_field(line, head);
		if (fault)
			return fault;
	}
}

const struct http_field *http_find_field(const struct http_head *head, struct bytes name)
{
	for (size_t i = 0; i < head->field_count; i++)
		if (bytes_equal_nocase(head->fields[i].name, name))
			return &head->fields[i];
	return NULL;
}

static size_t count_fields(const struct http_head *head, struct bytes name)
{
	size_t count = 0;

	for (size_t i = 0; i < head->field_count; i++)
		count += bytes_equal_nocase(head->fields[i].name, name);
	return count;
}

/* Any of the fields of that name. */
static bool any_list_has(const struct http_head *head, struct bytes name, struct bytes word)
{
	for (size_t i = 0; i < head->field_count; i++) {
		struct bytes list = head->fields[i].value, item;

		if (!bytes_equal_nocase(head->fields[i].name, name))
			continue;
		while (bytes_split(&list, ',', &item))
			if (bytes_equal_nocase(trim(item), word))
				return true;
		if (bytes_equal_nocase(trim(list), word))
			return true;
	}
	return false;
}

bool http_is_upgraded(const struct http_head *reply)
{
	const struct http_field *upgrade = http_find_field(reply, BYTES("upgrade"));

	return reply->status == 101 && upgrade && count_fields(reply, BYTES("upgrade")) == 1 &&
	       bytes_equal_nocase(upgrade->value, BYTES("websocket")) &&
	       any_list_has(reply, BYTES("connection"), BYTES("upgrade"));
}

bool http_is_of_connection(struct bytes name)
{
	static const struct bytes names[] = {
		BYTES("connection"),       BYTES("keep-alive"),
		BYTES("proxy-connection"), BYTES("te"),
		BYTES("trailer"),          BYTES("transfer-encoding"),
		BYTES("upgrade"),          BYTES("proxy-authenticate"),
		BYTES("http2-settings"),
	};

	return bytes_is_any_nocase(name, names, ARRAY_LEN(names));
}

bool http_is_hop_by_hop(const struct http_head *head, struct bytes name)
{
	return http_is_of_connection(name) || any_list_has(head, BYTES("connection"), name);
}

/* ---- framing (RFC 9112 section 6) ---- */

static enum http_fault read_length(struct bytes text, uint64_t *ret_length)
{
	uint64_t length = 0;

	if (text.len == 0 || text.len > 19)
		return FAULT_LENGTH;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return FAULT_LENGTH;
		length = length * 10 + (uint64_t)(text.data[i] - '0');
	}
	if (length > HTTP_LENGTH_MAX)
		return FAULT_LENGTH;
	*ret_length = length;
	return FAULT_NONE;
}

/* Sets the framing to LENGTH or CHUNKED, or leaves it at what the caller chose. */
static enum http_fault read_framing(struct http_head *head)
{
	const struct http_field *encoding = http_find_field(head, BYTES("transfer-encoding"));
	const struct http_field *length = http_find_field(head, BYTES("content-length"));

	if (encoding && length)
		return FAULT_FRAMING;
	if (encoding) {
		if (count_fields(head, BYTES("transfer-encoding")) > 1 ||
		    !bytes_equal_nocase(encoding->value, BYTES("chunked")))
			return FAULT_ENCODING;
		if (head->minor == 0)
			return FAULT_OLD_CHUNKED;
		head->framing = FRAMING_CHUNKED;
	} else if (length) {
		enum http_fault fault = read_length(length->value, &head->length);

		if (fault || count_fields(head, BYTES("content-length")) > 1)
			return FAULT_LENGTH;
		head->framing = head->length ? FRAMING_LENGTH : FRAMING_NONE;
	}
	return FAULT_NONE;
}

static void read_persistence(struct http_head *head)
{
	if (any_list_has(head, BYTES("connection"), BYTES("close")))
		head->keeps_alive = false;
	else
		head->keeps_alive = head->minor == 1 ||
				    any_list_has(head, BYTES("connection"), BYTES("keep-alive"));
}

/* ---- requests ---- */

static enum http_fault read_version(struct bytes text, struct http_head *head)
{
	if (text.len != 8 || memcmp(text.data, "HTTP/1.", 7) != 0)
		return FAULT_VERSION;
	if (text.data[7] != '0' && text.data[7] != '1')
		return FAULT_VERSION;
	head->minor = text.data[7] - '0';
	return FAULT_NONE;
}

static enum http_fault read_request_line(struct bytes line, struct http_head *head)
{
	enum http_fault fault;

	if (!bytes_split(&line, ' ', &head->method) || !bytes_split(&line, ' ', &head->target))
		return FAULT_START_LINE;
	if (!charset_is_token(head->method))
		return FAULT_METHOD;
	fault = read_version(line, head);
	if (fault)
		return fault;
	if (bytes_equal(head->method, BYTES("TRACE")))
		return FAULT_TRACE;
	if (head->target.len > HTTP_TARGET_MAX)
		return FAULT_TARGET_LONG;
	return charset_is_target(head->target) ? FAULT_NONE : FAULT_TARGET;
}

/* Splits absolute-form into authority and path; checks each form against its method. */
static enum http_fault read_target(struct http_head *head, struct bytes *ret_authority)
{
	struct bytes target = head->target;
	size_t len = 0;

	*ret_authority = (struct bytes){ NULL, 0 };
	if (bytes_equal(head->method, BYTES("CONNECT"))) {
		*ret_authority = target;
		return charset_is_authority(target) ? FAULT_NONE : FAULT_TARGET;
	}
	head->path = target;
	if (target.data[0] == '/')
		return FAULT_NONE;
	if (bytes_equal(target, BYTES("*")))
		return bytes_equal(head->method, BYTES("OPTIONS")) ? FAULT_NONE : FAULT_TARGET;
	if (bytes_has_prefix_nocase(target, BYTES("http://")))
		bytes_take(&target, 7);
	else if (bytes_has_prefix_nocase(target, BYTES("https://")))
		bytes_take(&target, 8);
	else
		return FAULT_TARGET;
	while (len < target.len && target.data[len] != '/' && target.data[len] != '?')
		len++;
	*ret_authority = bytes_take(&target, len);
	head->path = target.len ? target : BYTES("/");
	if (head->path.data[0] == '?')
		return FAULT_TARGET; /* an empty path before a query: written "/?" by all who mean
					it */
	return charset_is_authority(*ret_authority) ? FAULT_NONE : FAULT_TARGET;
}

static enum http_fault read_host(struct http_head *head)
{
	const struct http_field *host = http_find_field(head, BYTES("host"));
	struct bytes authority;
	enum http_fault fault = read_target(head, &authority);

	if (fault)
		return fault;
	if (count_fields(head, BYTES("host")) > 1 || (!host && head->minor == 1))
		return FAULT_HOST;
	if (host && !charset_is_authority(host->value))
		return FAULT_HOST;
	if (host && authority.len && !bytes_equal_nocase(host->value, authority))
		return FAULT_AUTHORITY;
	if (host)
		head->host = host->value;
	else
		head->host = authority;
	return FAULT_NONE;
}

/* WebSocket (RFC 6455 4.1) and nothing else: h2c would take the connection out of our sight. */
static enum http_fault read_upgrade(struct http_head *head)
{
	const struct http_field *upgrade = http_find_field(head, BYTES("upgrade"));

	if (http_find_field(head, BYTES("http2-settings")))
		return FAULT_UPGRADE;
	if (!upgrade)
		return FAULT_NONE;
	if (count_fields(head, BYTES("upgrade")) > 1 ||
	    !bytes_equal_nocase(upgrade->value, BYTES("websocket")) ||
	    !any_list_has(head, BYTES("connection"), BYTES("upgrade")) ||
	    !bytes_equal(head->method, BYTES("GET")) || head->minor != 1 ||
	    head->framing != FRAMING_NONE)
		return FAULT_UPGRADE;
	head->protocol = BYTES("websocket");
	return FAULT_NONE;
}

static enum http_fault read_expectations(struct http_head *head)
{
	const struct http_field *expect = http_find_field(head, BYTES("expect"));

	if (!expect)
		return FAULT_NONE;
	if (count_fields(head, BYTES("expect")) > 1 ||
	    !bytes_equal_nocase(expect->value, BYTES("100-continue")))
		return FAULT_EXPECT;
	head->expects_continue = head->minor == 1;
	return FAULT_NONE;
}

enum http_fault http_read_request(struct bytes text, struct http_head *ret_head)
{
	static enum http_fault (*const rules[])(struct http_head *) = {
		read_framing,
		read_host,
		read_upgrade,
		read_expectations,
	};
	struct http_head *head = ret_head;
	struct bytes line;
	enum http_fault fault = take_line(&text, &line);

	http_head_clear(head);
	if (!fault)
		fault = read_request_line(line, head);
	if (!fault)
		fault = http_read_fields(text, head);
	for (size_t i = 0; i < ARRAY_LEN(rules) && !fault; i++)
		fault = rules[i](head);
	read_persistence(head);
	return fault;
}

/* ---- replies ---- */

static enum http_fault read_status_line(struct bytes line, struct http_head *head)
{
	struct bytes version;

	if (!bytes_split(&line, ' ', &version) || read_version(version, head))
		return FAULT_STATUS_LINE;
	if (line.len < 3 || (line.len > 3 && line.data[3] != ' '))
		return FAULT_STATUS_LINE;
	for (size_t i = 0; i < 3; i++) {
		if (line.data[i] < '0' || line.data[i] > '9')
			return FAULT_STATUS_LINE;
		head->status = head->status * 10 + (line.data[i] - '0');
	}
	if (head->status < 100)
		return FAULT_STATUS_LINE;
	bytes_take(&line, line.len > 3 ? 4 : 3);
	head->reason = line;
	return FAULT_NONE;
}

/* RFC 9112 6.3: these have no body whatever their fields say. */
static bool is_without_body(const struct http_head *head, bool answers_head)
{
	return head->status < 200 || head->status == 204 || head->status == 304 || answers_head;
}

enum http_fault http_read_reply(struct bytes text, bool answers_head, struct http_head *ret_head)
{
	struct http_head *head = ret_head;
	struct bytes line;
	enum http_fault fault = take_line(&text, &line);

	http_head_clear(head);
	head->framing = FRAMING_CLOSE;
	if (!fault)
		fault = read_status_line(line, head);
	if (!fault)
		fault = http_read_fields(text, head);
	if (!fault)
		fault = read_framing(head);
	if (fault)
		return fault;
	read_persistence(head);
	if (is_without_body(head, answers_head))
		head->framing = FRAMING_NONE;
	if (head->framing == FRAMING_CLOSE)
		head->keeps_alive = false;
	return FAULT_NONE;
}
