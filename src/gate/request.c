/* SPDX-License-Identifier: MIT */
/* Requests of the agent, before they are anybody's. */
#include "gate/request.h"

#include "base/json.h"
#include "http/charset.h"

/* What a record keeps of a request that was refused here. */
#define REFUSED_METHOD_MAX 32
#define REFUSED_PATH_MAX   2048

static void refuse(struct course *course, int status, const char *code, const char *message)
{
	course->way = COURSE_ANSWER;
	course->status = status;
	course->code = code;
	course->message = message;
}

static bool is_connect(const struct http_head *head)
{
	return bytes_equal(head->method, BYTES("CONNECT")) && head->protocol.len == 0;
}

/* ---- the LLM endpoint ---- */

static bool is_path(struct bytes target, const char *path)
{
	struct bytes before;

	if (bytes_split(&target, '?', &before))
		target = before;
	return bytes_equal(target, bytes_of(path));
}

static void judge_llm(const struct endpoint *endpoint, const struct http_head *head,
		      struct course *course)
{
	(void)endpoint;
	if (head->protocol.len > 0) {
		refuse(course, 400, "upgrade_refused", "this endpoint speaks HTTP only");
	} else if (is_connect(head) || head->path.data[0] != '/') {
		refuse(course, 405, "method_not_allowed", "this endpoint is no proxy");
	} else if (is_path(head->path, "/health") && head->framing == FRAMING_NONE) {
		course->way = COURSE_ANSWER;
		course->status = 200;
	} else {
		course->way = COURSE_CALL;
		course->kind = LINK_KIND_LLM;
	}
}

/* ---- hosts ---- */

static void go_to(struct course *course, const struct authority *authority, bool is_tls)
{
	course->way = COURSE_CALL;
	course->kind = LINK_KIND_EGRESS;
	course->is_tls = is_tls;
	authority_format(authority->host, authority->port, course->host);
}

/* The one field of that name, or nothing. */
static struct bytes only_value(const struct http_head *head, struct bytes name)
{
	const struct http_field *found = NULL;

	for (size_t i = 0; i < head->field_count; i++) {
		if (!bytes_equal_nocase(head->fields[i].name, name))
			continue;
		if (found)
			return (struct bytes){ "", 0 };
		found = &head->fields[i];
	}
	return found ? found->value : (struct bytes){ "", 0 };
}

/* HTTP/1.1 wants to be told that it was understood; HTTP/2 says it all by itself (RFC 8441 5),
 * but not every client knows. */
static void become_websocket(const struct http_head *head, struct course *course)
{
	struct bytes key = only_value(head, BYTES("sec-websocket-key"));
	bool is_h2 = head->scheme.len > 0;

	course->kind = LINK_KIND_WEBSOCKET;
	if (!bytes_equal_nocase(head->protocol, BYTES("websocket")) ||
	    !bytes_equal(only_value(head, BYTES("sec-websocket-version")), BYTES("13")) ||
	    (!is_h2 && !ws_key_is_valid(key)))
		refuse(course, 400, "upgrade_refused", "this is no upgrade to WebSocket");
	else if (ws_key_is_valid(key))
		ws_key_accept(key, course->accept);
}

/* The name in TLS, in Host, and the one that was connected to: all are one, or it is refused. */
static bool is_misdirected(const struct endpoint *endpoint, const struct http_head *head,
			   struct authority *ret_named)
{
	return endpoint->is_misdirected ||
	       (head->scheme.len > 0 &&
		!bytes_equal(head->scheme, bytes_of(endpoint->is_tls ? "https" : "http"))) ||
	       authority_parse(head->host, endpoint->is_tls ? 443 : 80, ret_named) < 0 ||
	       (!endpoint->authority.is_address &&
		strcmp(ret_named->host, endpoint->authority.host) != 0) ||
	       ret_named->port != endpoint->authority.port;
}

static void judge_egress(const struct endpoint *endpoint, const struct http_head *head,
			 struct course *course)
{
	struct authority named;

	if (is_connect(head))
		refuse(course, 405, "method_not_allowed", "this connection is no proxy's");
	else if (is_misdirected(endpoint, head, &named))
		refuse(course, 421, "authority_mismatch",
		       "the connection, its certificate and Host name different hosts");
	else
		go_to(course, endpoint->is_tls ? &endpoint->authority : &named, endpoint->is_tls);
	if (course->way == COURSE_CALL && head->protocol.len > 0)
		become_websocket(head, course);
}

/* ---- the explicit proxy ---- */

static void judge_proxy(const struct endpoint *endpoint, const struct http_head *head,
			struct course *course)
{
	struct authority named;

	(void)endpoint;
	course->way = COURSE_TARGET;
	if (is_connect(head)) {
		if (authority_parse(head->target, 0, &course->target) < 0 ||
		    course->target.port == 0)
			refuse(course, 400, "bad_target", "CONNECT needs HOST:PORT");
		return;
	}
	/* Only absolute-form says where a request goes; TLS goes through CONNECT. */
	if (!bytes_has_prefix_nocase(head->target, BYTES("http://")) ||
	    authority_parse(head->host, 80, &named) < 0)
		refuse(course, 400, "bad_target",
		       "this is a proxy: it needs http://HOST/… or CONNECT");
	else
		go_to(course, &named, false);
	if (course->way == COURSE_CALL && head->protocol.len > 0)
		become_websocket(head, course);
}

void request_judge(const struct endpoint *endpoint, const struct http_head *head,
		   struct course *ret_course)
{
	static void (*const by_kind[])(const struct endpoint *, const struct http_head *,
				       struct course *) = {
		[ENDPOINT_LLM] = judge_llm,
		[ENDPOINT_EGRESS] = judge_egress,
		[ENDPOINT_PROXY] = judge_proxy,
	};

	*ret_course = (struct course){ .way = COURSE_CALL };
	by_kind[endpoint->kind](endpoint, head, ret_course);
}

void request_judge_fault(enum http_fault fault, struct course *ret_course)
{
	const struct http_fault_info *info = http_fault_info(fault);

	*ret_course = (struct course){ .way = COURSE_ANSWER };
	refuse(ret_course, info->status, info->code, info->text);
}

/* ---- going on ---- */

/* Each side of us makes a handshake of its own; extensions, which would hide what is in a frame,
 * are not agreed on. */
static bool is_of_handshake(struct bytes name)
{
	return bytes_equal_nocase(name, BYTES("sec-websocket-key")) ||
	       bytes_equal_nocase(name, BYTES("sec-websocket-version")) ||
	       bytes_equal_nocase(name, BYTES("sec-websocket-accept")) ||
	       bytes_equal_nocase(name, BYTES("sec-websocket-extensions"));
}

void request_open(struct call *call, const struct http_head *head, const struct course *course)
{
	static struct link_open open; /* large, and needed only in here */
	bool is_websocket = course->kind == LINK_KIND_WEBSOCKET;

	open.kind = (uint8_t)course->kind;
	open.is_tls = course->is_tls;
	open.method = is_websocket ? BYTES("GET") : head->method;
	open.host = course->host[0] ? bytes_of(course->host) : head->host;
	open.path = head->path;
	open.minor = (uint8_t)head->minor;
	open.framing = (uint8_t)(is_websocket ? FRAMING_CHUNKED : head->framing);
	open.length = open.framing == FRAMING_LENGTH ? head->length : 0;
	open.field_count = 0;
	for (size_t i = 0; i < head->field_count; i++) {
		struct bytes name = head->fields[i].name;

		if (http_is_hop_by_hop(head, name) || bytes_equal_nocase(name, BYTES("host")) ||
		    bytes_equal_nocase(name, BYTES("content-length")) ||
		    (is_websocket && is_of_handshake(name)))
			continue;
		open.fields[open.field_count++] = head->fields[i];
	}
	call_open(call, &open);
	open.host = (struct bytes){ NULL, 0 }; /* the caller's */
}

static void write_refusal(struct json *json, const struct course *course, const char *run_id)
{
	json_open(json, "error", '{');
	json_text(json, "code", course->code);
	json_text(json, "message", course->message);
	json_text(json, "runId", run_id);
	json_close(json, '}');
}

static void record(struct gate *gate, const struct endpoint *endpoint, const struct course *course,
		   const struct http_head *head)
{
	struct link_refused refused = { .code = bytes_of(course->code) };
	char host[AUTHORITY_TEXT_MAX];

	if (endpoint->kind == ENDPOINT_EGRESS) {
		authority_format(endpoint->authority.host, endpoint->authority.port, host);
		refused.host = bytes_of(host);
	}
	/* They may be what was wrong with it: what is neither is not for the link. */
	if (head && charset_is_token(head->method))
		refused.method = bytes_cut(head->method, REFUSED_METHOD_MAX);
	if (head && charset_is_target(head->path))
		refused.path = bytes_cut(head->path, REFUSED_PATH_MAX);
	call_refuse(gate, &refused);
}

void request_answer(struct gate *gate, const struct endpoint *endpoint, const struct course *course,
		    const struct http_head *head, struct buf *body)
{
	struct json json = { .out = body };

	json_open(&json, NULL, '{');
	if (course->code) {
		record(gate, endpoint, course, head);
		write_refusal(&json, course, gate->run_id);
	} else {
		json_text(&json, "status", "ok");
		json_text(&json, "runId", gate->run_id);
	}
	json_close(&json, '}');
}
