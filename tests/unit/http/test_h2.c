/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2, case by case: frames made by hand that must be read in one way however they are cut;
 * then both sides against each other, in pieces of many sizes; then peers that ask for too much.
 */
#include "unit.h"

#include "base/buf.h"
#include "http/h2.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUE
};
enum {
	END_STREAM = 1,
	ACK = 1,
	END_HEADERS = 4
};

/* ---- frames by hand ---- */

static void add_frame(struct buf *out, int type, int flags, uint32_t id, const void *payload,
		      size_t len)
{
	const char head[9] = { (char)(len >> 16), (char)(len >> 8), (char)len,
			       (char)type,        (char)flags,      (char)(id >> 24),
			       (char)(id >> 16),  (char)(id >> 8),  (char)id };

	buf_add(out, head, sizeof(head));
	buf_add(out, payload, len);
}

static void add_text(struct buf *out, struct bytes text)
{
	/* A string of HPACK: its length in one byte, or in three. */
	if (text.len < 127) {
		buf_add(out, &(char){ (char)text.len }, 1);
	} else {
		size_t rest = text.len - 127;
		char len[] = { 127, (char)(rest | 0x80), (char)(rest >> 7 | 0x80),
			       (char)(rest >> 14) };

		buf_add(out, len, sizeof(len));
	}
	buf_add(out, text.data, text.len);
}

/* "name=value\n..." as literals without indexing. */
static void add_block(struct buf *out, const char *text)
{
	struct bytes rest = bytes_of(text), line, name = { "", 0 };

	while (bytes_split(&rest, '\n', &line)) {
		bool has_name = bytes_split(&line, '=', &name);

		assert_true(has_name);
		buf_add(out, "\0", 1);
		add_text(out, name);
		add_text(out, line);
	}
}

static void add_head(struct buf *out, uint32_t id, const char *fields, int flags)
{
	struct buf block;

	buf_init(&block, 1 << 20);
	add_block(&block, fields);
	add_frame(out, HEADERS, flags | END_HEADERS, id, block.data, block.len);
	buf_fini(&block);
}

static void add_data(struct buf *out, uint32_t id, const char *text, int flags)
{
	add_frame(out, DATA, flags, id, text, strlen(text));
}

static void begin_client(struct buf *out)
{
	buf_init(out, 64 << 20);
	buf_add_text(out, PREFACE);
	add_frame(out, SETTINGS, 0, 0, "", 0);
}

/* ---- one side, and what it hears ---- */

struct side {
	struct h2 *h2;
	struct buf heard; /* a transcript */
	int32_t data_id;  /* of the stream whose data came last */
	bool is_silent;   /* bodies are counted, not written down */
	bool keeps;       /* what comes is not given back */
	size_t received, closed, opened;
	struct h2_stream *last;
	void (*on_head)(struct side *side, struct h2_stream *stream, bool is_end);
	void (*on_end)(struct side *side, struct h2_stream *stream);
	void (*on_writable)(struct side *side, struct h2_stream *stream);
	size_t left; /* of a body that is being sent */
};

static void hear(struct side *side, const char *format, ...) printf_like(2);

static void hear(struct side *side, const char *format, ...)
{
	char text[4096];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (side->data_id)
		buf_add_text(&side->heard, ";");
	side->data_id = 0;
	buf_add_text(&side->heard, text);
}

#define TEXT(b) (int)(b).len, (b).data ? (b).data : ""

static void hear_fields(struct side *side, const struct http_head *head)
{
	for (size_t i = 0; i < head->field_count; i++)
		hear(side, "%.*s=%.*s;", TEXT(head->fields[i].name), TEXT(head->fields[i].value));
}

static void on_head(void *owner, struct h2_stream *stream, const struct http_head *head,
		    bool is_end)
{
	static const char *const framings[] = { "none", "length", "open", "close" };
	struct side *side = owner;

	side->opened += !head->status;
	side->last = stream;
	if (head->status)
		hear(side, "%d %d %s%s;", stream->id, head->status, framings[head->framing],
		     is_end ? " end" : "");
	else
		hear(side, "%d %.*s %.*s %.*s %s%s%s;", stream->id, TEXT(head->method),
		     TEXT(head->target), TEXT(head->host), framings[head->framing],
		     head->expects_continue ? " expects" : "", is_end ? " end" : "");
	if (head->protocol.len)
		hear(side, "protocol %.*s;", TEXT(head->protocol));
	hear_fields(side, head);
	if (side->on_head)
		side->on_head(side, stream, is_end);
}

static void on_data(void *owner, struct h2_stream *stream, struct bytes data)
{
	struct side *side = owner;

	side->received += data.len;
	if (!side->keeps)
		h2_consume(stream, data.len);
	if (side->is_silent)
		return;
	if (side->data_id != stream->id)
		hear(side, "%d:", stream->id);
	side->data_id = stream->id;
	buf_add(&side->heard, data.data, data.len);
}

static void on_end(void *owner, struct h2_stream *stream, const struct http_head *trailer)
{
	struct side *side = owner;

	hear(side, "%d end;", stream->id);
	hear_fields(side, trailer);
	if (side->on_end)
		side->on_end(side, stream);
}

static void on_fault(void *owner, struct h2_stream *stream, enum http_fault fault,
		     const struct http_head *head)
{
	struct side *side = owner;

	assert_non_null(head);
	side->last = stream;
	hear(side, "%d %s;", stream->id, http_fault_info(fault)->code);
}

static void on_writable(void *owner, struct h2_stream *stream)
{
	struct side *side = owner;

	if (side->on_writable)
		side->on_writable(side, stream);
}

static void on_close(void *owner, struct h2_stream *stream, enum h2_code code)
{
	struct side *side = owner;

	side->closed++;
	if (side->last == stream)
		side->last = NULL;
	if (!side->is_silent)
		hear(side, "%d closed %d;", stream->id, code);
}

static const struct h2_callbacks callbacks = { on_head,  on_data,     on_end,
					       on_fault, on_writable, on_close };

static void open_side(struct side *side, bool is_server)
{
	struct h2_options options = { .is_server = is_server, .has_extended_connect = true };

	*side = (struct side){ 0 };
	buf_init(&side->heard, 1 << 20);
	side->h2 = h2_new(&options, &callbacks, side);
}

static void close_side(struct side *side)
{
	h2_free(side->h2);
	buf_fini(&side->heard);
}

static void drop_pending(struct side *side)
{
	struct bytes pending;

	while ((pending = h2_pending(side->h2)).len > 0)
		h2_sent(side->h2, pending.len);
}

static void assert_heard(struct side *side, const char *expected)
{
	hear(side, "%s", "");
	assert_string_equal(side->heard.data ? side->heard.data : "", expected);
	side->heard.len = 0;
}

/* ---- messages by hand, at every cut ---- */

struct row {
	const char *head;
	const char *body;    /* NULL: the head is the end */
	const char *trailer; /* NULL: none */
	const char *expected;
	const char *rule;
};

#define GET    ":method=GET\n:scheme=https\n:path=/\n:authority=a\n"
#define POST   ":method=POST\n:scheme=https\n:path=/p\n:authority=a\n"
#define BROKEN "1 bad_message;1 closed 1;"

static const struct row requests[] = {
	/* what is fine */
	{ GET, NULL, NULL, "1 GET / a none end;", "RFC 9113 8.3.1" },
	{ GET "x-y=z\n", NULL, NULL, "1 GET / a none end;x-y=z;", "RFC 9113 8.2" },
	{ POST, "abc", NULL, "1 POST /p a open;1:abc;1 end;", "RFC 9113 8.1" },
	{ POST "content-length=3\n", "abc", NULL,
	  "1 POST /p a length;content-length=3;1:abc;1 end;", "RFC 9113 8.1.1" },
	{ POST "content-length=0\n", NULL, NULL, "1 POST /p a none end;content-length=0;",
	  "RFC 9110 8.6" },
	{ POST, "abc", "t=u\n", "1 POST /p a open;1:abc;1 end;t=u;", "RFC 9113 8.1" },
	{ POST "te=trailers\n", "", NULL, "1 POST /p a open;te=trailers;1 end;", "RFC 9113 8.2.2" },
	{ POST "expect=100-continue\n", "", NULL,
	  "1 POST /p a open expects;expect=100-continue;1 end;", "RFC 9110 10.1.1" },
	{ GET "host=A\n", NULL, NULL, "1 GET / a none end;host=A;", "RFC 9113 8.3.1: the same" },
	{ ":method=GET\n:scheme=http\n:path=/x?y\nhost=a:80\n", NULL, NULL,
	  "1 GET /x?y a:80 none end;host=a:80;", "RFC 9113 8.3.1: Host alone" },
	{ ":method=OPTIONS\n:scheme=https\n:path=*\n:authority=a\n", NULL, NULL,
	  "1 OPTIONS * a none end;", "RFC 9113 8.3.1" },
	{ GET "cookie=a\nx=y\ncookie=b\ncookie=c\n", NULL, NULL,
	  "1 GET / a none end;cookie=a; b; c;x=y;", "RFC 9113 8.2.3" },
	{ ":method=CONNECT\n:authority=a:443\n", "x", NULL, "1 CONNECT a:443 a:443 open;1:x;1 end;",
	  "RFC 9113 8.5" },
	{ ":method=CONNECT\n:protocol=websocket\n:scheme=https\n:path=/c\n:authority=a\n", "x",
	  NULL, "1 CONNECT /c a open;protocol websocket;1:x;1 end;", "RFC 8441 4" },
	{ GET "x=\xc3\xa4\n", NULL, NULL, "1 GET / a none end;x=\xc3\xa4;", "RFC 9110 5.5" },

	/* what is refused, and can be answered */
	{ ":method=TRACE\n:scheme=https\n:path=/\n:authority=a\n", NULL, NULL, "1 trace_refused;",
	  "RFC 9110 9.3.8" },
	{ GET "host=b\n", NULL, NULL, "1 authority_mismatch;", "RFC 9113 8.3.1" },
	{ GET "host=a:443\n", NULL, NULL, "1 authority_mismatch;", "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=/\n:authority=u@a\n", NULL, NULL, "1 bad_host;",
	  "RFC 9113 8.3.1: user information" },
	{ ":method=GET\n:scheme=https\n:path=/\n:authority=a:0\n", NULL, NULL, "1 bad_host;",
	  "RFC 3986 3.2.3" },
	{ ":method=GET\n:scheme=ftp\n:path=/\n:authority=a\n", NULL, NULL, "1 bad_scheme;",
	  "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=/#x\n:authority=a\n", NULL, NULL, "1 bad_target;",
	  "RFC 9112 3.2: fragment" },
	{ GET "expect=x\n", NULL, NULL, "1 bad_expectation;", "RFC 9110 10.1.1" },
	{ GET "http2-settings=x\n", NULL, NULL, "1 upgrade_refused;", "RFC 9113 3.1" },
	{ GET "x=a\x01\n", NULL, NULL, "1 control_byte;", "RFC 9113 8.2.1" },
	{ GET "x=a\r\n", NULL, NULL, "1 control_byte;", "RFC 9113 8.2.1" },
	{ GET "x= a\n", NULL, NULL, "1 control_byte;", "RFC 9113 8.2.1: white space around it" },
	{ GET "x y=a\n", NULL, NULL, "1 bad_field_name;", "RFC 9113 8.2.1" },
	{ GET "=a\n", NULL, NULL, "1 bad_field_name;", "RFC 9113 8.2.1" },
	{ GET "host=a b\n", NULL, NULL, "1 control_byte;", "RFC 9112 3.2" },
	{ ":method=CONNECT\n:authority=a:443\ncontent-length=3\n", "abc", NULL,
	  "1 bad_content_length;", "RFC 9110 9.3.6" },
	{ POST "content-length=9223372036854775807\n", "", NULL, "1 bad_content_length;1 closed 1;",
	  "more than there can be" },

	/* what is malformed: nghttp2 has reset it */
	{ GET "X=y\n", NULL, NULL, BROKEN, "RFC 9113 8.2.1: capitals" },
	{ GET ":path=/b\n", NULL, NULL, BROKEN, "RFC 9113 8.3: twice" },
	{ ":method=GET\n:scheme=https\n:path=/\nx=y\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 8.3: after a field" },
	{ GET ":x=y\n", NULL, NULL, BROKEN, "RFC 9113 8.3: unknown" },
	{ GET ":status=200\n", NULL, NULL, BROKEN, "RFC 9113 8.3: a reply's" },
	{ ":method=GET\n:scheme=https\n:authority=a\n", NULL, NULL, BROKEN, "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=x\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=*\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 8.3.1" },
	{ ":method=GET\n:scheme=https\n:path=/ HTTP/1.1\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 10.3" },
	{ ":method=GET\n:scheme=https\n:path=/\r\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9113 10.3" },
	{ ":method=G T\n:scheme=https\n:path=/\n:authority=a\n", NULL, NULL, BROKEN,
	  "RFC 9110 9.1" },
	{ ":method=GET\n:scheme=https\n:path=/\n", NULL, NULL, BROKEN, "RFC 9113 8.3.1: no host" },
	{ GET ":protocol=websocket\n", NULL, NULL, BROKEN, "RFC 8441 4: not CONNECT" },
	{ ":method=CONNECT\n:authority=a:443\n:path=/\n", NULL, NULL, BROKEN, "RFC 9113 8.5" },
	{ GET "connection=close\n", NULL, NULL, BROKEN, "RFC 9113 8.2.2" },
	{ GET "transfer-encoding=chunked\n", NULL, NULL, BROKEN, "RFC 9113 8.2.2" },
	{ GET "upgrade=h2c\n", NULL, NULL, BROKEN, "RFC 9113 8.2.2" },
	{ GET "te=gzip\n", NULL, NULL, BROKEN, "RFC 9113 8.2.2" },
	{ GET "host=a\nhost=a\n", NULL, NULL, BROKEN, "RFC 9113 8.3.1" },
	{ POST "content-length=x\n", "", NULL, BROKEN, "RFC 9113 8.1.1" },
	{ POST "content-length=3\ncontent-length=3\n", "abc", NULL, BROKEN, "RFC 9113 8.1.1" },
	{ POST "content-length=3\n", NULL, NULL, BROKEN, "RFC 9113 8.1.1: nothing came" },
	{ POST "content-length=3\n", "ab", NULL,
	  "1 POST /p a length;content-length=3;1:ab;1 closed 1;", "RFC 9113 8.1.1: too short" },
	{ POST, "abc", ":path=/x\n", "1 POST /p a open;1:abc;1 bad_message;1 closed 1;",
	  "RFC 9113 8.3: in a trailer" },
};

#define OK ":status=200\n"

static const struct row replies[] = {
	{ OK, NULL, NULL, "1 200 none end;", "RFC 9113 8.3.2" },
	{ OK "a=b\n", "abc", NULL, "1 200 open;a=b;1:abc;1 end;", "RFC 9113 8.1" },
	{ OK "content-length=3\n", "abc", "t=u\n", "1 200 length;content-length=3;1:abc;1 end;t=u;",
	  "RFC 9113 8.1" },
	{ OK "a= b \n", NULL, NULL, "1 200 none end;a=b;", "origins do it" },
	{ ":status=204\n", NULL, NULL, "1 204 none end;", "RFC 9110 15.3.5" },
	{ OK "set-cookie=a\nset-cookie=b\n", NULL, NULL,
	  "1 200 none end;set-cookie=a;set-cookie=b;", "RFC 6265 3" },
	{ OK "a=b\x01\n", NULL, NULL, "1 control_byte;1 closed 1;", "RFC 9113 8.2.1" },
	{ ":status=099\n", NULL, NULL, "1 bad_status_line;1 closed 1;", "RFC 9110 15" },
	{ ":status=20\n", NULL, NULL, BROKEN, "RFC 9113 8.3.2" },
	{ ":status=101\n", NULL, NULL, BROKEN, "RFC 9113 8.6" },
	{ ":status=100\n", NULL, NULL, BROKEN, "RFC 9113 8.1: no final reply" },
	{ "a=b\n", NULL, NULL, BROKEN, "RFC 9113 8.3.2" },
	{ OK ":path=/\n", NULL, NULL, BROKEN, "RFC 9113 8.3" },
	{ OK "connection=close\n", NULL, NULL, BROKEN, "RFC 9113 8.2.2" },
	{ OK "A=b\n", NULL, NULL, BROKEN, "RFC 9113 8.2.1" },
	{ OK "content-length=3\n", "ab", NULL, "1 200 length;content-length=3;1:ab;1 closed 1;",
	  "RFC 9113 8.1.1" },
};

static void add_message(struct buf *out, const struct row *row)
{
	add_head(out, 1, row->head, row->body ? 0 : END_STREAM);
	if (row->body)
		add_data(out, 1, row->body, row->trailer ? 0 : END_STREAM);
	if (row->trailer)
		add_head(out, 1, row->trailer, END_STREAM);
}

static void read_or_fail(struct side *side, const char *data, size_t len)
{
	assert_int_equal(h2_read(side->h2, (struct bytes){ data, len }, 0), 0);
	drop_pending(side);
}

static struct h2_stream *send_get(struct side *side, bool is_end)
{
	struct h2_message get = { .method = BYTES("GET"),
				  .scheme = BYTES("https"),
				  .host = BYTES("a"),
				  .path = BYTES("/") };

	return h2_request(side->h2, &get, NULL, is_end);
}

/* In pieces of `piece` bytes after the first `cut`. */
static void check_cut(const struct row *row, struct bytes input, bool is_server, size_t cut,
		      size_t piece)
{
	struct side side;
	size_t len;

	open_side(&side, is_server);
	if (!is_server)
		assert_non_null(send_get(&side, true));
	drop_pending(&side);
	read_or_fail(&side, input.data, cut);
	for (size_t at = cut; at < input.len; at += len) {
		len = input.len - at < piece ? input.len - at : piece;
		read_or_fail(&side, input.data + at, len);
	}
	hear(&side, "%s", "");
	/* A client's stream is over with the reply; a server's waits for one. */
	if (!is_server) {
		static const char over[] = "1 closed 0;";
		size_t len_over = sizeof(over) - 1;

		if (side.heard.len >= len_over &&
		    strcmp(side.heard.data + side.heard.len - len_over, over) == 0)
			side.heard.data[side.heard.len - len_over] = '\0';
	}
	if (strcmp(side.heard.data, row->expected) != 0)
		print_error("%s: %s, cut at %zu by %zu\n", row->rule, row->head, cut, piece);
	assert_string_equal(side.heard.data, row->expected);
	close_side(&side);
}

static void check_rows(const struct row *rows, size_t count, bool is_server)
{
	for (size_t i = 0; i < count; i++) {
		struct buf input;

		if (is_server) {
			begin_client(&input);
		} else {
			buf_init(&input, 1 << 20);
			add_frame(&input, SETTINGS, 0, 0, "", 0);
		}
		add_message(&input, &rows[i]);
		for (size_t cut = 0; cut <= input.len; cut++)
			check_cut(&rows[i], (struct bytes){ input.data, input.len }, is_server, cut,
				  input.len);
		check_cut(&rows[i], (struct bytes){ input.data, input.len }, is_server, 0, 1);
		buf_fini(&input);
	}
}

static void test_requests(void **state)
{
	(void)state;
	check_rows(requests, ARRAY_LEN(requests), true);
}

static void test_replies(void **state)
{
	(void)state;
	check_rows(replies, ARRAY_LEN(replies), false);
}

/* Of a body that is too long nothing is passed on beyond its length. */
static void test_long_body(void **state)
{
	struct buf input;

	(void)state;
	begin_client(&input);
	add_head(&input, 1, POST "content-length=3\n", 0);
	add_data(&input, 1, "abcd", END_STREAM);
	for (size_t cut = 0; cut <= input.len; cut++) {
		struct side side;

		open_side(&side, true);
		read_or_fail(&side, input.data, cut);
		read_or_fail(&side, input.data + cut, input.len - cut);
		assert_true(side.received <= 3);
		assert_int_equal(side.closed, 1);
		assert_null(strstr(side.heard.data, "end"));
		assert_non_null(strstr(side.heard.data, "1 closed 1;"));
		close_side(&side);
	}
	buf_fini(&input);
}

/* ---- limits of one head ---- */

static void add_many_fields(struct buf *text, size_t count, size_t len)
{
	buf_add_text(text, GET);
	for (size_t i = 0; i < count; i++) {
		buf_add_text(text, "x=");
		for (size_t k = 0; k < len; k++)
			buf_add_text(text, "y");
		buf_add_text(text, "\n");
	}
}

/* A head of many frames. */
static void add_long_head(struct buf *out, const char *fields)
{
	struct buf block;
	size_t len;

	buf_init(&block, 1 << 20);
	add_block(&block, fields);
	for (size_t at = 0; at < block.len; at += len) {
		len = block.len - at < 16384 ? block.len - at : 16384;
		add_frame(out, at ? CONTINUE : HEADERS,
			  (at ? 0 : END_STREAM) | (at + len == block.len ? END_HEADERS : 0), 1,
			  block.data + at, len);
	}
	buf_fini(&block);
}

static void check_long_head(size_t count, size_t len, int expected, const char *heard)
{
	struct buf text, input;
	struct side side;

	buf_init(&text, 1 << 20);
	add_many_fields(&text, count, len);
	begin_client(&input);
	add_long_head(&input, text.data);
	open_side(&side, true);
	assert_int_equal(h2_read(side.h2, (struct bytes){ input.data, input.len }, 0), expected);
	drop_pending(&side);
	assert_int_equal(strncmp(side.heard.data ? side.heard.data : "", heard, strlen(heard)), 0);
	close_side(&side);
	buf_fini(&text);
	buf_fini(&input);
}

static void test_long_heads(void **state)
{
	(void)state;
	check_long_head(120, 10, 0, "1 GET / a");
	check_long_head(127, 10, 0, "1 GET / a");
	check_long_head(128, 10, 0, "1 too_many_fields;");
	check_long_head(400, 10, 0, "1 too_many_fields;");
	check_long_head(600, 10, -EDQUOT, "");
	check_long_head(6, 10000, 0, "1 GET / a");
	check_long_head(7, 10000, 0, "1 head_too_large;");
	check_long_head(10, 16000, -EPROTO, ""); /* CONTINUATION frames */
}

static void test_long_target(void **state)
{
	struct buf text, input;
	struct side side;

	(void)state;
	buf_init(&text, 1 << 20);
	buf_add_text(&text, ":method=GET\n:scheme=https\n:authority=a\n:path=/");
	for (size_t i = 0; i < HTTP_TARGET_MAX; i++)
		buf_add_text(&text, "x");
	buf_add_text(&text, "\n");
	begin_client(&input);
	add_long_head(&input, text.data);
	open_side(&side, true);
	read_or_fail(&side, input.data, input.len);
	assert_heard(&side, "1 target_too_long;");
	close_side(&side);
	buf_fini(&text);
	buf_fini(&input);
}

/* A table of HPACK that makes much of little: one field of 4000 bytes, named again and again. */
static void test_bomb(void **state)
{
	struct buf block, input;
	struct side side;

	(void)state;
	buf_init(&block, 1 << 20);
	add_block(&block, GET);
	buf_add(&block, "\x40\x01x", 3);
	buf_add(&block, "\x7f\x80\x1e", 3); /* 127 + 3840 */
	for (size_t i = 0; i < 3967; i++)
		buf_add_text(&block, "y");
	for (size_t i = 0; i < 10000; i++)
		buf_add(&block, "\xbe", 1);
	begin_client(&input);
	add_frame(&input, HEADERS, END_HEADERS | END_STREAM, 1, block.data, block.len);
	open_side(&side, true);
	assert_int_equal(h2_read(side.h2, (struct bytes){ input.data, input.len }, 0), -EDQUOT);
	drop_pending(&side);
	close_side(&side);
	buf_fini(&block);
	buf_fini(&input);
}

/* ---- both sides ---- */

/* Moves at most `piece` bytes at a time, until nothing moves. */
static void move(struct side *from, struct side *to, size_t piece, bool *moved)
{
	struct bytes pending = h2_pending(from->h2);
	char copy[1 << 16];

	if (pending.len > piece)
		pending.len = piece;
	if (pending.len == 0)
		return;
	if (pending.len > sizeof(copy))
		pending.len = sizeof(copy);
	memcpy(copy, pending.data, pending.len);
	h2_sent(from->h2, pending.len);
	assert_int_equal(h2_read(to->h2, (struct bytes){ copy, pending.len }, 0), 0);
	*moved = true;
}

static void exchange_all(struct side *a, struct side *b, size_t piece)
{
	bool moved;

	do {
		moved = false;
		move(a, b, piece, &moved);
		move(b, a, piece, &moved);
	} while (moved);
}

static const char pattern[] = "0123456789abcdefghijklmnopqrstuvwxyz-";

/* Sends what is left of a body whose bytes follow a pattern. */
static void send_body(struct side *side, struct h2_stream *stream)
{
	static const struct http_field trailer = { BYTES("Sum"), BYTES("1") };
	size_t total = sizeof(pattern) - 1, taken, len;

	while (side->left > 0) {
		size_t at = side->left % total;

		len = total - at < side->left ? total - at : side->left;
		taken = h2_send_data(stream, (struct bytes){ pattern + at, len }, false);
		side->left -= taken;
		if (taken < len)
			return;
	}
	assert_int_equal(h2_send_trailer(stream, &trailer, 1), 0);
}

static void reply_with_body(struct side *side, struct h2_stream *stream)
{
	static const struct http_field fields[] = {
		{ BYTES("Server"), BYTES("x") },
		{ BYTES("Connection"), BYTES("close") },
		{ BYTES("Content-Length"), BYTES("77") },
	};
	struct h2_message interim = { .status = 103 },
			  reply = { .status = 200, .field_count = 3, .fields = fields };

	assert_int_equal(h2_send_reply(stream, &interim, false), 0);
	assert_int_equal(h2_send_reply(stream, &reply, false), 0);
	send_body(side, stream);
}

static void test_exchange(void **state)
{
	static const size_t pieces[] = { 1, 2, 3, 9, 10, 100, 16393, 1 << 16 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		struct h2_message post = { .method = BYTES("POST"),
					   .scheme = BYTES("https"),
					   .host = BYTES("a"),
					   .path = BYTES("/p"),
					   .has_length = true,
					   .length = 3 };
		struct side client, server;
		struct h2_stream *stream;

		open_side(&client, false);
		open_side(&server, true);
		client.is_silent = true;
		client.on_writable = server.on_writable = send_body;
		server.on_end = reply_with_body;
		server.left = 300000;
		stream = h2_request(client.h2, &post, &client, false);
		assert_non_null(stream);
		assert_ptr_equal(stream->exchange, &client);
		assert_int_equal(h2_send_data(stream, BYTES("ab"), false), 2);
		assert_int_equal(h2_send_data(stream, BYTES("c"), true), 1);
		exchange_all(&client, &server, pieces[i]);
		assert_heard(&server,
			     "1 POST /p a length;content-length=3;1:abc;1 end;1 closed 0;");
		assert_heard(&client, "1 103 none;1 200 open;server=x;1 end;sum=1;");
		assert_int_equal(client.received, 300000);
		assert_int_equal(client.closed, 1);
		assert_int_equal(h2_stream_count(client.h2), 0);
		h2_shutdown(client.h2);
		exchange_all(&client, &server, pieces[i]);
		assert_true(h2_is_over(client.h2));
		assert_true(h2_is_over(server.h2));
		close_side(&client);
		close_side(&server);
	}
}

static void begin_reply(struct side *side, struct h2_stream *stream, bool is_end)
{
	struct h2_message reply = { .status = 200 };

	(void)side;
	(void)is_end;
	assert_int_equal(h2_send_reply(stream, &reply, false), 0);
}

/* What one stream's owner does not take holds up that stream only, at its window. */
static void test_stalled_stream(void **state)
{
	static const char zeros[200000];
	struct side client, server;
	struct h2_stream *streams[20];

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	client.is_silent = server.is_silent = server.keeps = true;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		streams[i] = send_get(&client, false);
		exchange_all(&client, &server, SIZE_MAX);
		assert_true(h2_send_data(streams[i], (struct bytes){ zeros, sizeof(zeros) }, true) <
			    sizeof(zeros));
		exchange_all(&client, &server, SIZE_MAX);
		/* the rest, as far as the window goes */
		(void)!h2_send_data(streams[i], (struct bytes){ zeros, 16384 }, false);
		exchange_all(&client, &server, SIZE_MAX);
		assert_int_equal(server.received, (i + 1) * H2_WINDOW);
	}
	server.keeps = false;
	h2_consume(server.last, H2_WINDOW);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(h2_send_data(streams[19], (struct bytes){ zeros, 1000 }, true), 1000);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(server.received, 20 * H2_WINDOW + 1000);
	close_side(&client);
	assert_int_equal(client.closed, 20);
	close_side(&server);
	assert_int_equal(server.closed, 20);
}

/* A peer that does not read: what waits for it is bounded, and it is not read either. */
static void test_slow_reader(void **state)
{
	static const char zeros[1 << 20];
	struct buf input;
	struct side side;
	size_t taken = 0;

	(void)state;
	begin_client(&input);
	add_frame(&input, SETTINGS, 0, 0, "\0\4\x7f\xff\xff\xff", 6);
	add_frame(&input, WINDOW_UPDATE, 0, 0, "\x40\0\0\0", 4);
	add_head(&input, 1, GET, END_STREAM);
	open_side(&side, true);
	side.on_head = begin_reply;
	assert_int_equal(h2_read(side.h2, (struct bytes){ input.data, input.len }, 0), 0);
	for (int i = 0; i < 10; i++)
		taken += h2_send_data(side.last, (struct bytes){ zeros, sizeof(zeros) }, false);
	assert_true(taken >= H2_OUT_MAX / 2 && taken < H2_OUT_MAX + 16384);
	assert_true(h2_is_full(side.h2));
	assert_true(h2_pending(side.h2).len < H2_OUT_MAX + 16384 + 1000);
	drop_pending(&side);
	assert_false(h2_is_full(side.h2));
	close_side(&side);
	buf_fini(&input);
}

static void reply_at_once(struct side *side, struct h2_stream *stream, bool is_end)
{
	struct h2_message reply = { .status = 403, .has_length = true };

	(void)side;
	(void)is_end;
	assert_int_equal(h2_send_reply(stream, &reply, true), 0);
}

/* A reply comes before its request is complete: that may go on for a while, unheard. */
static void test_early_reply(void **state)
{
	static const char zeros[16384];
	struct side client, server;
	struct h2_stream *stream;
	size_t sent = 0, taken;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	server.on_head = reply_at_once;
	stream = send_get(&client, false);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "1 403 none end;content-length=0;");
	while (client.closed == 0 && sent < (4 << 20)) {
		taken = h2_send_data(stream, (struct bytes){ zeros, sizeof(zeros) }, false);
		sent += taken;
		exchange_all(&client, &server, SIZE_MAX);
	}
	assert_true(sent > H2_LATE_MAX && sent < H2_LATE_MAX + H2_WINDOW_ALL);
	assert_int_equal(server.received, 0);
	assert_heard(&client, "1 closed 0;");
	assert_heard(&server, "1 GET / a open;1 closed 0;");

	/* ... and one that ends in time was fine. */
	stream = send_get(&client, false);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(h2_send_data(stream, BYTES("abc"), true), 3);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "3 403 none end;content-length=0;3 closed 0;");
	assert_heard(&server, "3 GET / a open;3 closed 0;");
	close_side(&client);
	close_side(&server);
}

/* A refused request is answered like any other. */
static void test_fault_is_answered(void **state)
{
	struct h2_message post = { .method = BYTES("TRACE"),
				   .scheme = BYTES("https"),
				   .host = BYTES("a"),
				   .path = BYTES("/") };
	struct h2_message refusal = { .status = 405, .has_length = true, .length = 2 };
	struct side client, server;
	struct h2_stream *stream;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	stream = h2_request(client.h2, &post, NULL, false);
	assert_int_equal(h2_send_data(stream, BYTES("abc"), true), 3);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(h2_send_reply(server.last, &refusal, false), 0);
	assert_int_equal(h2_send_data(server.last, BYTES("no"), true), 2);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&server, "1 trace_refused;1 closed 0;");
	assert_heard(&client, "1 405 length;content-length=2;1:no;1 end;1 closed 0;");
	close_side(&client);
	close_side(&server);
}

static void test_resets(void **state)
{
	struct side client, server;
	struct h2_stream *stream;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	/* before it was sent */
	stream = send_get(&client, true);
	h2_reset(stream, H2_CANCEL);
	h2_reset(stream, H2_CANCEL);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "1 closed 8;");
	/* by the client */
	stream = send_get(&client, false);
	exchange_all(&client, &server, SIZE_MAX);
	h2_reset(stream, H2_CANCEL);
	assert_int_equal(h2_send_data(stream, BYTES("a"), true), 0);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "3 closed 8;");
	assert_heard(&server, "3 GET / a open;3 closed 8;");
	/* by the server */
	(void)!send_get(&client, true);
	exchange_all(&client, &server, SIZE_MAX);
	h2_reset(server.last, H2_HTTP_1_1_REQUIRED);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "5 closed 13;");
	assert_heard(&server, "5 GET / a none end;5 closed 13;");
	close_side(&client);
	close_side(&server);
}

static void test_shutdown(void **state)
{
	struct h2_message reply = { .status = 200 };
	struct side client, server;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	(void)!send_get(&client, true);
	exchange_all(&client, &server, SIZE_MAX);
	assert_true(h2_may_request(client.h2));
	h2_shutdown(server.h2);
	(void)h2_pending(server.h2);
	/* one that the server does not see any more */
	(void)!send_get(&client, true);
	exchange_all(&client, &server, SIZE_MAX);
	assert_false(h2_may_request(client.h2));
	assert_null(send_get(&client, true));
	assert_heard(&client, "3 closed 7;");
	assert_false(h2_is_over(client.h2) || h2_is_over(server.h2));
	assert_int_equal(h2_send_reply(server.last, &reply, true), 0);
	exchange_all(&client, &server, SIZE_MAX);
	assert_heard(&client, "1 200 none end;1 closed 0;");
	assert_true(h2_is_over(client.h2) && h2_is_over(server.h2));
	close_side(&client);
	close_side(&server);

	/* by the client, at once */
	open_side(&client, false);
	assert_true(h2_may_request(client.h2));
	h2_shutdown(client.h2);
	assert_false(h2_may_request(client.h2));
	assert_null(send_get(&client, true));
	close_side(&client);
}

static void test_many_streams(void **state)
{
	struct side client, server;
	struct buf input;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	for (int i = 0; i < H2_STREAMS_MAX; i++)
		assert_non_null(send_get(&client, true));
	assert_false(h2_may_request(client.h2));
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(server.opened, H2_STREAMS_MAX);
	close_side(&client);
	close_side(&server);
	assert_int_equal(client.closed, H2_STREAMS_MAX);
	assert_int_equal(server.closed, H2_STREAMS_MAX);

	/* one that does not ask */
	begin_client(&input);
	add_frame(&input, SETTINGS, ACK, 0, "", 0);
	for (uint32_t i = 0; i <= H2_STREAMS_MAX; i++)
		add_head(&input, 1 + 2 * i, GET, END_STREAM);
	open_side(&server, true);
	drop_pending(&server);
	(void)!h2_read(server.h2, (struct bytes){ input.data, input.len }, 0);
	assert_int_equal(server.opened, H2_STREAMS_MAX);
	close_side(&server);
	buf_fini(&input);
}

/* A stream that one side resets may be over for the other one, which then begins another. */
static void test_reset_makes_room(void **state)
{
	struct h2_message reply = { .status = 200 };
	struct h2_stream *last = NULL;
	struct side client, server;

	(void)state;
	open_side(&client, false);
	open_side(&server, true);
	for (int i = 1; i <= H2_STREAMS_MAX; i++)
		last = send_get(&client, i < H2_STREAMS_MAX);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(h2_send_reply(server.last, &reply, true), 0);
	exchange_all(&client, &server, SIZE_MAX);
	assert_false(h2_may_request(client.h2));
	assert_int_equal(h2_send_data(last, BYTES(""), true), 0);
	assert_non_null(send_get(&client, true));
	h2_reset(server.last, H2_CANCEL);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(server.opened, H2_STREAMS_MAX + 1);
	close_side(&client);
	close_side(&server);
}

static void test_large_messages(void **state)
{
	static char text[HTTP_HEAD_MAX];
	struct http_field field = { BYTES("x"), { text, sizeof(text) } };
	struct h2_message reply = { .status = 200, .field_count = 1, .fields = &field };
	struct side client, server;

	(void)state;
	memset(text, 'y', sizeof(text));
	open_side(&client, false);
	open_side(&server, true);
	client.is_silent = true;
	(void)!send_get(&client, true);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(h2_send_reply(server.last, &reply, true), -EMSGSIZE);
	field.value.len -= 200;
	assert_int_equal(h2_send_reply(server.last, &reply, false), 0);
	field.value.len = 10;
	assert_int_equal(h2_send_trailer(server.last, &field, 1), 0);
	exchange_all(&client, &server, SIZE_MAX);
	assert_int_equal(client.closed, 1);
	assert_null(strstr(client.heard.data, "head_too_large"));
	assert_non_null(strstr(client.heard.data, "1 end;x=yyyyyyyyyy;"));
	close_side(&client);
	close_side(&server);
}

/* ---- peers that ask for too much ---- */

static int read_many(struct buf *input, int times, uint64_t step_ms, size_t first)
{
	struct side side;
	int r;

	open_side(&side, true);
	r = h2_read(side.h2, (struct bytes){ input->data, first }, 0);
	for (int i = 1; i <= times && r == 0; i++) {
		r = h2_read(side.h2, (struct bytes){ input->data + first, input->len - first },
			    (uint64_t)i * step_ms);
		drop_pending(&side);
	}
	close_side(&side);
	buf_fini(input);
	return r;
}

static void check_flood(int type, int flags, uint32_t id, const char *payload, size_t len)
{
	for (int is_slow = 0; is_slow < 2; is_slow++) {
		struct buf input;
		size_t first;

		begin_client(&input);
		add_head(&input, 1, POST, 0);
		first = input.len;
		add_frame(&input, type, flags, id, payload, len);
		assert_int_equal(read_many(&input, 3000, is_slow ? 20 : 0, first),
				 is_slow ? 0 : -EDQUOT);
	}
}

static void test_floods(void **state)
{
	(void)state;
	check_flood(PING, 0, 0, "12345678", 8);
	check_flood(SETTINGS, 0, 0, "", 0);
	check_flood(DATA, 0, 1, "", 0);
	check_flood(PRIORITY, 0, 1, "\0\0\0\0\1", 5);
}

/* Streams that are opened and reset at once; also when it is we who have to reset them. */
static void test_rapid_resets(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct buf input;
		struct side side;
		int r;

		begin_client(&input);
		for (uint32_t i = 0; i < 3000; i++) {
			uint32_t id = 1 + 2 * i;

			add_head(&input, id, kind == 2 ? GET "connection=x\n" : POST, 0);
			if (kind == 0)
				add_frame(&input, RST_STREAM, 0, id, "\0\0\0\x08", 4);
			if (kind == 1)
				add_frame(&input, WINDOW_UPDATE, 0, id, "\0\0\0\0", 4);
		}
		open_side(&side, true);
		side.is_silent = true;
		for (size_t at = 0; at < input.len; at += 1000) {
			size_t len = input.len - at < 1000 ? input.len - at : 1000;

			r = h2_read(side.h2, (struct bytes){ input.data + at, len }, 0);
			drop_pending(&side);
			if (r < 0)
				break;
		}
		assert_true(r < 0);
		assert_true(side.opened <= H2_WASTE_MAX);
		close_side(&side);
		buf_fini(&input);
	}
}

/* Every frame of it needs an answer, and it takes none. */
static void test_full(void **state)
{
	struct buf input;
	struct side side;
	int r = 0, i;

	(void)state;
	begin_client(&input);
	for (uint32_t k = 0; k < 200; k++)
		add_frame(&input, PING, 0, 0, "12345678", 8);
	open_side(&side, true);
	r = h2_read(side.h2, (struct bytes){ input.data, 33 }, 0);
	for (i = 1; i < 10000 && r == 0 && !h2_is_full(side.h2); i++)
		r = h2_read(side.h2, (struct bytes){ input.data + 33, input.len - 33 },
			    (uint64_t)i * 4000);
	assert_int_equal(r, 0);
	assert_true(h2_is_full(side.h2));
	for (; i < 10000 && r == 0; i++)
		r = h2_read(side.h2, (struct bytes){ input.data + 33, input.len - 33 },
			    (uint64_t)i * 4000);
	assert_int_equal(r, -EDQUOT);
	assert_true(h2_pending(side.h2).len < (size_t)2 * H2_OUT_MAX);
	close_side(&side);
	buf_fini(&input);
}

static void check_broken(bool is_server, const char *input, size_t len)
{
	struct side side;

	open_side(&side, is_server);
	if (!is_server)
		(void)!send_get(&side, true);
	drop_pending(&side);
	assert_int_equal(h2_read(side.h2, (struct bytes){ input, len }, 0), -EPROTO);
	assert_true(h2_is_over(side.h2));
	assert_true(h2_pending(side.h2).len > 0);
	drop_pending(&side);
	assert_int_equal(h2_read(side.h2, BYTES("x"), 0), -EPROTO);
	close_side(&side);
	assert_int_equal(side.closed, is_server ? 0 : 1);
}

static void test_broken_connections(void **state)
{
	static const char push[] = "\0\0\0\4\0\0\0\0\0"
				   "\0\0\0\4\1\0\0\0\0"
				   "\0\0\5\5\4\0\0\0\1\0\0\0\2\x88";

	(void)state;
	check_broken(true, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
	check_broken(true, PREFACE "\0\0\0\0\0\0\0\0\1", 33);
	check_broken(false, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	check_broken(false, push, sizeof(push) - 1);
}

int main(void)
{
	RUN_TESTS(TEST(test_requests), TEST(test_replies), TEST(test_long_body),
		  TEST(test_long_heads), TEST(test_long_target), TEST(test_bomb),
		  TEST(test_exchange), TEST(test_stalled_stream), TEST(test_slow_reader),
		  TEST(test_early_reply), TEST(test_fault_is_answered), TEST(test_resets),
		  TEST(test_shutdown), TEST(test_many_streams), TEST(test_reset_makes_room),
		  TEST(test_large_messages), TEST(test_floods), TEST(test_rapid_resets),
		  TEST(test_full), TEST(test_broken_connections));
}
