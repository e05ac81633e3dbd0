/* SPDX-License-Identifier: MIT */
/*
 * The HTTP/1 reader, case by case: what comes in, what comes out of it, and the rule.
 * Every case is read whole, byte by byte, and cut in two at every place, always with the
 * same outcome.
 */
#include "unit.h"

#include "http/h1_read.h"

#define GET  "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /p HTTP/1.1\r\nHost: a\r\n"
#define OK   "HTTP/1.1 200 OK\r\n"

struct row {
	const char *input;
	const char *expected; /* a transcript, or the code of a fault */
	const char *rule;
	size_t len; /* when the input has a NUL in it */
};

static const struct row requests[] = {
	/* what is fine */
	{ GET "\r\n", "GET / a;end;", "RFC 9112 3", 0 },
	{ "\r\n" GET "\r\n", "GET / a;end;", "RFC 9112 2.2: one empty line before it", 0 },
	{ "GET /a?b=c%20d HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET /a?b=c%20d a:80;end;",
	  "RFC 9112 3.2.1", 0 },
	{ "GET / HTTP/1.0\r\n\r\n", "GET / ;close;end;", "RFC 9112 2.3: 1.0 needs no Host", 0 },
	{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / ;end;", "RFC 9112 9.3", 0 },
	{ GET "Connection: Close\r\n\r\n", "GET / a;close;end;", "RFC 9112 9.6", 0 },
	{ GET "Connection: x, close\r\n\r\n", "GET / a;close;end;", "RFC 9112 9.6", 0 },
	{ "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /b a;end;", "RFC 9112 3.2.2", 0 },
	{ "GET http://A HTTP/1.1\r\nHost: a\r\n\r\n", "GET / a;end;", "RFC 9112 3.2.2", 0 },
	{ "GET http://a/ HTTP/1.0\r\n\r\n", "GET / a;close;end;", "RFC 9112 3.2.2", 0 },
	{ "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * a;end;", "RFC 9112 3.2.4", 0 },
	{ "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "CONNECT  a:443;end;", "RFC 9112 3.2.3",
	  0 },
	{ "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET / [::1]:80;end;", "RFC 3986 3.2.2", 0 },
	{ GET "X:\r\nY: \t b \t\r\n\r\n", "GET / a;end;", "RFC 9112 5.1: white space around values",
	  0 },
	{ GET "X: \xc3\xa4\r\n\r\n", "GET / a;end;", "RFC 9110 5.5: obs-text", 0 },
	{ POST "Content-Length: 3\r\n\r\nabc", "POST /p a;abc;end;", "RFC 9112 6.3", 0 },
	{ POST "Content-Length: 0\r\n\r\n", "POST /p a;end;", "RFC 9112 6.3", 0 },
	{ POST "Content-Length: 3\r\n\r\nabcGET", "POST /p a;abc;end;rest GET;", "RFC 9112 9.3.2",
	  0 },
	{ POST "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "POST /p a;abc;end;",
	  "RFC 9112 7.1", 0 },
	{ POST
	  "Transfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\nA\r\n0123456789\r\n00\r\n\r\n",
	  "POST /p a;abc0123456789;end;", "RFC 9112 7.1.1", 0 },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", "POST /p a;end;trailer X=y;",
	  "RFC 9112 7.1.2", 0 },
	{ POST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "POST /p a;expects;x;end;",
	  "RFC 9110 10.1.1", 0 },
	{ "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "GET / ;close;end;",
	  "RFC 9110 10.1.1: ignored in 1.0", 0 },

	/* lines */
	{ "GET / HTTP/1.1\nHost: a\r\n\r\n", "bad_line_end", "RFC 9112 2.2: bare LF", 0 },
	{ "GET / HTTP/1.1\r\nHost: a\n\r\n", "bad_line_end", "RFC 9112 2.2: bare LF", 0 },
	{ GET "\n", "bad_line_end", "RFC 9112 2.2: bare LF ends the head", 0 },
	{ GET "X: a\rb\r\n\r\n", "bad_line_end", "RFC 9112 2.2: bare CR", 0 },
	{ GET "X: a\r\r\n\r\n", "bad_line_end", "RFC 9112 2.2: bare CR", 0 },
	{ "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", "bad_line_end", "RFC 9112 2.2: bare CR", 0 },
	{ "\r\n\r\n" GET "\r\n", "bad_request_line", "RFC 9112 2.2: two empty lines", 0 },
	{ GET "X: a\0b\r\n\r\n", "control_byte", "RFC 9110 5.5: NUL",
	  sizeof(GET "X: a\0b\r\n\r\n") - 1 },
	{ GET "X: a\x01\r\n\r\n", "control_byte", "RFC 9110 5.5", 0 },
	{ GET "X: a\x7f\r\n\r\n", "control_byte", "RFC 9110 5.5", 0 },

	/* the first line */
	{ "GET /\r\nHost: a\r\n\r\n", "bad_request_line", "RFC 9112 3: HTTP/0.9", 0 },
	{ "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 3: two spaces", 0 },
	{ "GET / x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 3: space in target", 0 },
	{ " GET / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_method", "RFC 9112 3: leading space", 0 },
	{ "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request_line", "RFC 9112 3: tab", 0 },
	{ "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_method", "RFC 9110 9.1", 0 },
	{ "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", "trace_refused", "RFC 9110 9.3.8", 0 },
	{ "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 2.3", 0 },
	{ "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 2.3", 0 },
	{ "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 2.3: trailing space", 0 },
	{ "GET / http/1.1\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 2.3: case", 0 },
	{ "GET / HTTP/01.1\r\nHost: a\r\n\r\n", "bad_version", "RFC 9112 2.3", 0 },
	{ "PRI * HTTP/2.0\r\n\r\n", "bad_version", "RFC 9113 3.4: h2 by prior knowledge", 0 },
	{ "GET x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2", 0 },
	{ "GET * HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2.4", 0 },
	{ "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2: fragment", 0 },
	{ "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 3986 2: not ASCII", 0 },
	{ "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2.2", 0 },
	{ "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2.2", 0 },
	{ "GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2.2", 0 },
	{ "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9110 4.2.4: userinfo",
	  0 },
	{ "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_target", "RFC 9112 3.2.3", 0 },

	/* fields */
	{ GET "X : y\r\n\r\n", "bad_field_name", "RFC 9112 5.1: space before the colon", 0 },
	{ GET "X\t: y\r\n\r\n", "bad_field_name", "RFC 9112 5.1", 0 },
	{ GET ": y\r\n\r\n", "bad_field_name", "RFC 9112 5.1", 0 },
	{ GET "Xy\r\n\r\n", "bad_field_name", "RFC 9112 5.1: no colon", 0 },
	{ GET "X(y): z\r\n\r\n", "bad_field_name", "RFC 9110 5.6.2", 0 },
	{ GET "\xc3\xa4: z\r\n\r\n", "bad_field_name", "RFC 9110 5.6.2", 0 },
	{ GET " folded\r\n\r\n", "obs_fold", "RFC 9112 5.2", 0 },
	{ GET "X: y\r\n\tfolded\r\n\r\n", "obs_fold", "RFC 9112 5.2", 0 },
	{ "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "obs_fold",
	  "RFC 9112 2.2: space after the first line", 0 },

	/* the authority */
	{ "GET / HTTP/1.1\r\n\r\n", "bad_host", "RFC 9112 3.2: missing", 0 },
	{ GET "Host: a\r\n\r\n", "bad_host", "RFC 9112 3.2: twice", 0 },
	{ GET "hOST: b\r\n\r\n", "bad_host", "RFC 9112 3.2: twice, with case", 0 },
	{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", "bad_host", "RFC 9110 7.2: empty", 0 },
	{ "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "bad_host", "RFC 9110 4.2.4: userinfo", 0 },
	{ "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "bad_host", "RFC 3986 3.2.2", 0 },
	{ "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "bad_host", "RFC 3986 3.2.2", 0 },
	{ "GET / HTTP/1.1\r\nHost: a:0\r\n\r\n", "bad_host", "RFC 3986 3.2.3", 0 },
	{ "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", "bad_host", "RFC 3986 3.2.3", 0 },
	{ "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "bad_host", "RFC 3986 3.2.3", 0 },
	{ "GET / HTTP/1.1\r\nHost: a:8 0\r\n\r\n", "bad_host", "RFC 3986 3.2.3", 0 },
	{ "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", "bad_host", "RFC 1123 2.1", 0 },
	{ "GET / HTTP/1.1\r\nHost: .a\r\n\r\n", "bad_host", "RFC 1123 2.1", 0 },
	{ "GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n", "bad_host", "RFC 3986 3.2.2: not ASCII", 0 },
	{ "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "bad_host", "RFC 3986 3.2.2", 0 },
	{ "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", "bad_host", "RFC 3986 3.2.2", 0 },
	{ "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "authority_mismatch", "RFC 9112 3.2.2", 0 },
	{ "CONNECT b:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "authority_mismatch", "RFC 9112 3.2.3",
	  0 },

	/* framing */
	{ POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "two_framings",
	  "RFC 9112 6.1", 0 },
	{ POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "two_framings",
	  "RFC 9112 6.1", 0 },
	{ POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "bad_content_length",
	  "RFC 9112 6.3", 0 },
	{ POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", "bad_content_length",
	  "RFC 9112 6.3", 0 },
	{ POST "Content-Length: 3, 3\r\n\r\n", "bad_content_length", "RFC 9112 6.3", 0 },
	{ POST "Content-Length: +3\r\n\r\n", "bad_content_length", "RFC 9110 8.6", 0 },
	{ POST "Content-Length: -3\r\n\r\n", "bad_content_length", "RFC 9110 8.6", 0 },
	{ POST "Content-Length: 3 0\r\n\r\n", "bad_content_length", "RFC 9110 8.6", 0 },
	{ POST "Content-Length: 0x3\r\n\r\n", "bad_content_length", "RFC 9110 8.6", 0 },
	{ POST "Content-Length:\r\n\r\n", "bad_content_length", "RFC 9110 8.6", 0 },
	{ POST "Content-Length: 99999999999999999999\r\n\r\n", "bad_content_length", "RFC 9110 8.6",
	  0 },
	{ POST "Content-Length: 9223372036854775808\r\n\r\n", "bad_content_length", "RFC 9110 8.6",
	  0 },
	{ POST "Transfer-Encoding: gzip, chunked\r\n\r\n", "bad_transfer_encoding", "RFC 9112 6.1",
	  0 },
	{ POST "Transfer-Encoding: chunked, identity\r\n\r\n", "bad_transfer_encoding",
	  "RFC 9112 6.1", 0 },
	{ POST "Transfer-Encoding: identity\r\n\r\n", "bad_transfer_encoding", "RFC 9112 6.1", 0 },
	{ POST "Transfer-Encoding: xchunked\r\n\r\n", "bad_transfer_encoding", "RFC 9112 6.1", 0 },
	{ POST "Transfer-Encoding: \"chunked\"\r\n\r\n", "bad_transfer_encoding", "RFC 9112 6.1",
	  0 },
	{ POST "Transfer-Encoding:\r\n\r\n", "bad_transfer_encoding", "RFC 9112 6.1", 0 },
	{ POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	  "bad_transfer_encoding", "RFC 9112 6.1", 0 },
	{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked_in_1_0", "RFC 9112 6.1",
	  0 },

/* chunks */
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
	{ CHUNKED "x\r\n", "bad_chunk", "RFC 9112 7.1", 0 },
	{ CHUNKED "\r\n", "bad_chunk", "RFC 9112 7.1: no size", 0 },
	{ CHUNKED "+3\r\nabc\r\n", "bad_chunk", "RFC 9112 7.1: sign", 0 },
	{ CHUNKED "0x3\r\nabc\r\n", "bad_chunk", "RFC 9112 7.1", 0 },
	{ CHUNKED " 3\r\nabc\r\n", "bad_chunk", "RFC 9112 7.1: space", 0 },
	{ CHUNKED "3 \r\nabc\r\n", "bad_chunk", "RFC 9112 7.1: space", 0 },
	{ CHUNKED "3\nabc\r\n", "bad_line_end", "RFC 9112 7.1: bare LF", 0 },
	{ CHUNKED "3;a\rb\r\nabc\r\n", "bad_line_end", "RFC 9112 7.1.1: bare CR", 0 },
	{ CHUNKED "3\r\nabcd\r\n", "bad_chunk", "RFC 9112 7.1: longer than its size", 0 },
	{ CHUNKED "3\r\nabc\n0\r\n\r\n", "bad_chunk", "RFC 9112 7.1: bare LF", 0 },
	{ CHUNKED "3\r\nabc0\r\n\r\n", "bad_chunk", "RFC 9112 7.1: no CRLF", 0 },
	{ CHUNKED "1000000000000000\r\n", "bad_chunk", "RFC 9112 7.1: overflow", 0 },
	{ CHUNKED "ffffffffffffffffffff\r\n", "bad_chunk", "RFC 9112 7.1: overflow", 0 },
	{ CHUNKED "0\r\nX : y\r\n\r\n", "bad_field_name", "RFC 9112 7.1.2", 0 },
	{ CHUNKED "0\r\nX: y\r\n z\r\n\r\n", "obs_fold", "RFC 9112 7.1.2", 0 },
	{ CHUNKED "0\r\nX: y\n\r\n", "bad_line_end", "RFC 9112 7.1.2", 0 },

	/* expectations and upgrades */
	{ POST "Expect: 200-ok\r\n\r\n", "bad_expectation", "RFC 9110 10.1.1", 0 },
	{ POST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", "bad_expectation",
	  "RFC 9110 10.1.1", 0 },
	{ GET "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n",
	  "upgrade_refused", "RFC 9113 3.1", 0 },
};

static const struct row replies[] = {
	{ OK "Content-Length: 2\r\n\r\nhi", "200 OK;hi;end;", "RFC 9112 4", 0 },
	{ "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 ;end;", "RFC 9112 4: no reason", 0 },
	{ "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 ;end;", "RFC 9112 4", 0 },
	{ "HTTP/1.1 100 Continue\r\n\r\n", "100 Continue;end;", "RFC 9110 15.2", 0 },
	{ "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", "204 No;end;", "RFC 9112 6.3", 0 },
	{ "HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n", "304 Not;end;", "RFC 9112 6.3", 0 },
	{ OK "\r\nuntil the end", "200 OK;close;until the end;end;", "RFC 9112 6.3", 0 },
	{ "HTTP/1.0 200 OK\r\n\r\nold", "200 OK;close;old;end;", "RFC 9112 6.3", 0 },
	{ OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nT: 1\r\n\r\n",
	  "200 OK;hi;end;trailer T=1;", "RFC 9112 7.1", 0 },
	{ OK "Content-Length: 5\r\n\r\nhi", "cut_short", "RFC 9112 8", 0 },
	{ OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhi", "cut_short", "RFC 9112 8", 0 },
	{ OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "cut_short",
	  "RFC 9112 8: no last chunk", 0 },
	{ OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n", "cut_short",
	  "RFC 9112 8: no end of trailer", 0 },
	{ OK "Content-Le", "cut_short", "RFC 9112 8", 0 },
	{ "HTTP/1.1 20 OK\r\n\r\n", "bad_status_line", "RFC 9112 4", 0 },
	{ "HTTP/1.1 2000 OK\r\n\r\n", "bad_status_line", "RFC 9112 4", 0 },
	{ "HTTP/1.1 099 OK\r\n\r\n", "bad_status_line", "RFC 9110 15", 0 },
	{ "HTTP/1.1  200 OK\r\n\r\n", "bad_status_line", "RFC 9112 4", 0 },
	{ "HTTP/2 200 OK\r\n\r\n", "bad_status_line", "RFC 9112 4", 0 },
	{ "ICY 200 OK\r\n\r\n", "bad_status_line", "RFC 9112 4", 0 },
	{ "\r\nHTTP/1.1 200 OK\r\n\r\n", "bad_status_line", "RFC 9112 2.2: only before a request",
	  0 },
	{ OK "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "bad_content_length",
	  "RFC 9112 6.3", 0 },
	{ OK "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", "two_framings",
	  "RFC 9112 6.1", 0 },
	{ OK "X: y\r\n z\r\n\r\n", "obs_fold", "RFC 9112 5.2", 0 },
};

/* ---- reading a case in pieces ---- */

struct transcript {
	char text[4096];
	size_t len;
};

static void note(struct transcript *to, const char *fmt, ...) printf_like(2);

static void note(struct transcript *to, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	to->len += (size_t)vsnprintf(to->text + to->len, sizeof(to->text) - to->len, fmt, ap);
	va_end(ap);
}

#define VIEW(bytes) (int)(bytes).len, (bytes).data

static void note_head(struct transcript *to, const struct http_head *head)
{
	if (head->status)
		note(to, "%d %.*s;", head->status, VIEW(head->reason));
	else
		note(to, "%.*s %.*s %.*s;", VIEW(head->method), VIEW(head->path), VIEW(head->host));
	if (!head->keeps_alive)
		note(to, "close;");
	if (head->expects_continue)
		note(to, "expects;");
}

static void note_end(struct transcript *to, const struct http_head *trailer)
{
	note(to, "end;");
	for (size_t i = 0; i < trailer->field_count; i++)
		note(to, "trailer %.*s=%.*s;", VIEW(trailer->fields[i].name),
		     VIEW(trailer->fields[i].value));
}

struct reading {
	struct h1_reader reader;
	struct h1_result result;
	struct transcript transcript;
	bool has_data, is_over;
};

static void take_event(struct reading *reading, enum h1_event event)
{
	struct transcript *to = &reading->transcript;

	if (event == H1_DATA) {
		note(to, "%.*s", VIEW(reading->result.data));
		reading->has_data = true;
		return;
	}
	if (reading->has_data)
		note(to, ";");
	reading->has_data = false;
	if (event == H1_HEAD) {
		note_head(to, &reading->result.head);
	} else if (event == H1_END) {
		note_end(to, &reading->result.head);
		reading->is_over = true;
	} else if (event == H1_BROKEN) {
		to->len = 0;
		note(to, "%s", http_fault_info(reading->reader.fault)->code);
		reading->is_over = true;
	}
}

static void feed(struct reading *reading, struct bytes input)
{
	while (!reading->is_over && (input.len > 0 || reading->reader.state == H1_STATE_OVER)) {
		enum h1_event event = h1_read(&reading->reader, &input, &reading->result);

		if (event != H1_NEEDS_MORE)
			take_event(reading, event);
	}
	if (reading->is_over && input.len > 0 && reading->reader.state == H1_STATE_OVER)
		note(&reading->transcript, "rest %.*s;", VIEW(input));
}

/* Reads `text` in pieces of the given sizes; the last size is repeated. */
static void read_in_pieces(const struct row *row, bool is_reply, size_t first, size_t others,
			   struct transcript *ret_transcript)
{
	size_t len = row->len ? row->len : strlen(row->input);
	struct reading *reading = calloc(1, sizeof(*reading));
	struct bytes text = { row->input, len };
	bool has_rest = strstr(row->expected, ";rest ") != NULL;

	assert_non_null(reading);
	if (!reading)
		return;
	h1_reader_init(&reading->reader, is_reply);
	for (size_t size = first; text.len > 0; size = others) {
		struct bytes piece = bytes_take(&text, size < text.len ? size : text.len);
		/* A copy of its own, so that reading beyond it is noticed. */
		char *copy = malloc(piece.len ? piece.len : 1);

		memcpy(copy, piece.data, piece.len);
		if (!reading->is_over)
			feed(reading, (struct bytes){ copy, piece.len });
		else if (has_rest)
			reading->transcript.len = 0; /* what is left over depends on the cut */
		free(copy);
	}
	if (!reading->is_over) {
		http_head_clear(&reading->result.head);
		take_event(reading, h1_read_end(&reading->reader));
	}
	*ret_transcript = reading->transcript;
	h1_reader_fini(&reading->reader);
	free(reading);
}

static void check(const struct row *row, bool is_reply, size_t first, size_t others)
{
	struct transcript got;

	read_in_pieces(row, is_reply, first, others, &got);
	if (strstr(row->expected, ";rest ") && first < strlen(row->input))
		return;
	if (strcmp(got.text, row->expected) != 0)
		fail_msg("%s: '%s' in pieces of %zu and %zu gave '%s', not '%s'", row->rule,
			 row->input, first, others, got.text, row->expected);
}

static void check_all(const struct row *rows, size_t count, bool is_reply)
{
	for (size_t i = 0; i < count; i++) {
		size_t len = rows[i].len ? rows[i].len : strlen(rows[i].input);

		check(&rows[i], is_reply, len, 1);
		check(&rows[i], is_reply, 1, 1);
		for (size_t cut = 1; cut < len; cut++)
			check(&rows[i], is_reply, cut, len);
	}
}

static void requests_are_read_or_refused(void **state)
{
	(void)state;
	check_all(requests, ARRAY_LEN(requests), false);
}

static void replies_are_read_or_refused(void **state)
{
	(void)state;
	check_all(replies, ARRAY_LEN(replies), true);
}

/* A reply to HEAD has a length and no body. */
static void the_reply_to_head_has_no_body(void **state)
{
	struct bytes input = BYTES(OK "Content-Length: 5\r\n\r\n");
	static struct h1_result result;
	struct h1_reader reader;

	(void)state;
	h1_reader_init(&reader, true);
	reader.answers_head = true;
	assert_int_equal(h1_read(&reader, &input, &result), H1_HEAD);
	assert_int_equal(result.head.length, 5);
	assert_int_equal(h1_read(&reader, &input, &result), H1_END);
	h1_reader_fini(&reader);
}

/* ---- limits (INV-BOUNDED) ---- */

static enum http_fault fault_of(const char *start, const char *repeated, size_t times,
				const char *end)
{
	static struct h1_result result;
	struct h1_reader reader;
	enum h1_event event = H1_NEEDS_MORE;
	enum http_fault fault;

	h1_reader_init(&reader, false);
	for (size_t i = 0; i < times + 2 && event != H1_BROKEN && event != H1_END; i++) {
		struct bytes input = bytes_of(i == 0 ? start : i <= times ? repeated : end);

		while (input.len > 0 && event != H1_BROKEN)
			event = h1_read(&reader, &input, &result);
	}
	fault = event == H1_BROKEN ? reader.fault : FAULT_NONE;
	h1_reader_fini(&reader);
	return fault;
}

static void limits_are_faults(void **state)
{
	(void)state;
	assert_int_equal(fault_of(GET, "X: y\r\n", 100, "\r\n"), FAULT_NONE);
	assert_int_equal(fault_of(GET, "X: y\r\n", HTTP_FIELDS_MAX, "\r\n"), FAULT_FIELDS);
	assert_int_equal(fault_of(GET "X: ", "yyyyyyyyyy", 6000, "\r\n\r\n"), FAULT_NONE);
	assert_int_equal(fault_of(GET "X: ", "yyyyyyyyyy", 7000, "\r\n\r\n"), FAULT_HEAD_LONG);
	assert_int_equal(fault_of("GET /", "xxxxxxxxxx", 1600, " HTTP/1.1\r\nHost: a\r\n\r\n"),
			 FAULT_NONE);
	assert_int_equal(fault_of("GET /", "xxxxxxxxxx", 1700, " HTTP/1.1\r\nHost: a\r\n\r\n"),
			 FAULT_TARGET_LONG);
	assert_int_equal(fault_of(CHUNKED "3;", "x", 200, "\r\nabc\r\n0\r\n\r\n"), FAULT_NONE);
	assert_int_equal(fault_of(CHUNKED "3;", "x", 300, "\r\nabc\r\n0\r\n\r\n"),
			 FAULT_CHUNK_LONG);
	assert_int_equal(fault_of(CHUNKED "0\r\nX: ", "yyyyyyyyyy", 900, "\r\n\r\n"),
			 FAULT_TRAILER_LONG);
}

static void one_reader_reads_many_messages(void **state)
{
	static struct h1_result result;
	struct h1_reader reader;
	struct bytes input = BYTES(GET "\r\n" POST "Content-Length: 1\r\n\r\nx" CHUNKED
				       "1\r\ny\r\n0\r\n\r\n" GET "\r\n");
	int heads = 0, ends = 0;

	(void)state;
	h1_reader_init(&reader, false);
	while (input.len > 0 || reader.state == H1_STATE_OVER) {
		enum h1_event event = h1_read(&reader, &input, &result);

		assert_int_not_equal(event, H1_BROKEN);
		heads += event == H1_HEAD;
		if (event == H1_END) {
			ends++;
			h1_reader_next(&reader);
		}
	}
	assert_int_equal(heads, 4);
	assert_int_equal(ends, 4);
	assert_int_equal(h1_read_end(&reader), H1_NEEDS_MORE);
	h1_reader_fini(&reader);
}

static void fields_of_one_connection_are_known(void **state)
{
	struct http_head *head = malloc(sizeof(*head));

	(void)state;
	assert_int_equal(
		http_read_request(BYTES(GET "Connection: X-One, x-two\r\nX-One: 1\r\n\r\n"), head),
		FAULT_NONE);
	assert_true(http_is_hop_by_hop(head, BYTES("x-one")));
	assert_true(http_is_hop_by_hop(head, BYTES("X-TWO")));
	assert_true(http_is_hop_by_hop(head, BYTES("Transfer-Encoding")));
	assert_true(http_is_hop_by_hop(head, BYTES("Keep-Alive")));
	assert_false(http_is_hop_by_hop(head, BYTES("X-Three")));
	assert_false(http_is_hop_by_hop(head, BYTES("Host")));
	free(head);
}

int main(void)
{
	RUN_TESTS(TEST(requests_are_read_or_refused), TEST(replies_are_read_or_refused),
		  TEST(the_reply_to_head_has_no_body), TEST(limits_are_faults),
		  TEST(one_reader_reads_many_messages), TEST(fields_of_one_connection_are_known));
}
