/* SPDX-License-Identifier: MIT */
/* The head of a message: its first line and its fields, as views of one block of bytes. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "base/attr.h"
#include "base/bytes.h"
#include "http/limits.h"

enum http_fault {
	FAULT_NONE,
#define FAULT(name, status, code, text, rule) FAULT_##name,
#include "http/fault.def"
#undef FAULT
};

struct http_fault_info {
	int status;
	const char *code; /* for programs */
	const char *text; /* for people */
	const char *rule;
};

/* Of any fault but FAULT_NONE. */
const struct http_fault_info *http_fault_info(enum http_fault fault);

struct http_field {
	struct bytes name;
	struct bytes value; /* without the white space around it */
};

enum http_framing {
	FRAMING_NONE,   /* no body */
	FRAMING_LENGTH, /* `length` bytes */
	FRAMING_CHUNKED,
	FRAMING_CLOSE, /* a reply that ends with its connection */
};

struct http_head {
	/* of a request */
	struct bytes method;
	struct bytes target; /* as sent; authority-, absolute-, origin- or asterisk-form */
	struct bytes path;   /* of origin-form, with query: what follows the authority */
	struct bytes host;   /* the authority as Host or the target gives it; may be empty in 1.0 */
	struct bytes scheme; /* HTTP/2 only */
	struct bytes
		protocol; /* that is asked for: by Upgrade, or by CONNECT in HTTP/2 (RFC 8441) */
	bool expects_continue;
	/* of a reply */
	int status;
	struct bytes reason;
	/* of both */
	int minor; /* HTTP/1.minor; 1 for HTTP/2 */
	enum http_framing framing;
	uint64_t length;
	bool keeps_alive;
	size_t field_count;
	struct http_field fields[HTTP_FIELDS_MAX]; /* last: only `field_count` of them are set */
};

/* Everything but the room for fields. */
static inline void http_head_clear(struct http_head *head)
{
	memset(head, 0, offsetof(struct http_head, fields));
}

/*
 * Reads a whole head: first line, fields, empty line, all with CRLF. The views point into
 * `text`, which must outlive the head.
 */
enum http_fault http_read_request(struct bytes text, struct http_head *ret_head) must_check;

/* The reply to a HEAD has no body, whatever it says. */
enum http_fault http_read_reply(struct bytes text, bool answers_head,
				struct http_head *ret_head) must_check;

/* Reads fields only, up to and with the empty line: a trailer. */
enum http_fault http_read_fields(struct bytes text, struct http_head *head) must_check;

/* The first field of that name, or NULL. */
const struct http_field *http_find_field(const struct http_head *head, struct bytes name);

/* Whether a field of that name concerns one connection only, whatever the others say. */
bool http_is_of_connection(struct bytes name);

/*
 * Whether a field concerns one connection only, and so is never passed on: the fixed
 * ones, and those that Connection names (RFC 9110 7.6.1).
 */
bool http_is_hop_by_hop(const struct http_head *head, struct bytes name);

/* Whether a reply says that WebSocket follows it. */
bool http_is_upgraded(const struct http_head *reply);

#endif
