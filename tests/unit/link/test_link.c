/* SPDX-License-Identifier: MIT */
/* The link: what is written is read, and nothing else is. */
#include "unit.h"

#include "link/link.h"

static struct buf out;

static int set_up(void **state)
{
	(void)state;
	buf_init(&out, 1 << 20);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	buf_fini(&out);
	return 0;
}

static void write_samples(void)
{
	static struct link_open open = {
		.method = { "POST", 4 },
		.host = { "localhost:8080", 14 },
		.path = { "/v1/chat/completions?x=1", 24 },
		.minor = 1,
		.framing = FRAMING_LENGTH,
		.length = 12345678901,
		.fields = { { { "User-Agent", 10 }, { "x/1", 3 } }, { { "A", 1 }, { "", 0 } } },
		.field_count = 2,
	};

	link_write_open(&out, 7, &open);
	link_write_data(&out, 7, BYTES("hello, link"));
	link_write_end(&out, 7, &(struct link_end){ .field_count = 0 });
	link_write_credit(&out, 7, 4096);
	link_write_abort(&out, 8);
}

/* Reads everything in pieces and writes down what came. */
static void read_in_pieces(enum link_side from, const char *data, size_t len, size_t piece,
			   char *ret_text, size_t size)
{
	struct link_reader reader;
	bool in_data = false;
	size_t used = 0;

	ret_text[0] = '\0';
	link_reader_init(&reader, from);
	for (size_t at = 0; at < len; at += piece) {
		struct bytes input = { data + at, len - at < piece ? len - at : piece };
		enum link_event event;
		struct bytes payload;

		do {
			event = link_read(&reader, &input, &payload);
			if (event == LINK_PIECE && in_data)
				used += (size_t)snprintf(ret_text + used, size - used, "%.*s",
							 (int)payload.len, payload.data);
			else if (event == LINK_PIECE)
				used += (size_t)snprintf(ret_text + used, size - used,
							 "data %u %.*s", reader.exchange,
							 (int)payload.len, payload.data);
			else if (event == LINK_MESSAGE)
				used += (size_t)snprintf(ret_text + used, size - used,
							 "%smessage %d %u;", in_data ? ";" : "",
							 reader.type, reader.exchange);
			else if (event == LINK_BROKEN)
				used += (size_t)snprintf(ret_text + used, size - used, "broken");
			if (event != LINK_NEEDS_MORE)
				in_data = event == LINK_PIECE;
		} while (event != LINK_NEEDS_MORE && event != LINK_BROKEN);
		if (event == LINK_BROKEN)
			break;
	}
	link_reader_fini(&reader);
}

static void messages_arrive_however_they_are_cut(void **state)
{
	char expected[1024], got[1024];

	(void)state;
	write_samples();
	read_in_pieces(LINK_SIDE_GATE, out.data, out.len, out.len, expected, sizeof(expected));
	assert_string_equal(expected, "message 2 7;data 7 hello, link;message 5 7;message 6 7;"
				      "message 7 8;");
	for (size_t piece = 1; piece < out.len; piece++) {
		read_in_pieces(LINK_SIDE_GATE, out.data, out.len, piece, got, sizeof(got));
		assert_string_equal(got, expected);
	}
}

static void payloads_are_read_back(void **state)
{
	struct link_open *open = malloc(sizeof(*open));
	struct bytes payload;

	(void)state;
	write_samples();
	payload = (struct bytes){ out.data + LINK_HEADER_LEN, (unsigned char)out.data[8] };
	assert_int_equal(link_parse_open(payload, open), 0);
	assert_true(bytes_equal(open->method, BYTES("POST")));
	assert_true(bytes_equal(open->host, BYTES("localhost:8080")));
	assert_true(bytes_equal(open->path, BYTES("/v1/chat/completions?x=1")));
	assert_int_equal(open->length, 12345678901);
	assert_int_equal(open->field_count, 2);
	assert_true(bytes_equal(open->fields[0].value, BYTES("x/1")));
	/* One byte less, or one more, is another message. */
	for (size_t len = 0; len < payload.len; len++)
		assert_int_equal(link_parse_open((struct bytes){ payload.data, len }, open),
				 -EPROTO);
	payload.len++;
	assert_int_equal(link_parse_open(payload, open), -EPROTO);
	free(open);
}

/* What a gate that is no longer ours could put into a request. */
static void the_keeper_checks_again(void **state)
{
	static const struct {
		const char *what;
		struct link_open open;
	} rows[] = {
		{ "a line end in a value",
		  { .method = { "GET", 3 },
		    .path = { "/", 1 },
		    .minor = 1,
		    .field_count = 1,
		    .fields = { { { "A", 1 }, { "x\r\nAuthorization: y", 19 } } } } },
		{ "a NUL in a value",
		  { .method = { "GET", 3 },
		    .path = { "/", 1 },
		    .field_count = 1,
		    .fields = { { { "A", 1 }, { "x\0y", 3 } } } } },
		{ "a name that is no token",
		  { .method = { "GET", 3 },
		    .path = { "/", 1 },
		    .field_count = 1,
		    .fields = { { { "A: b\r\nC", 7 }, { "", 0 } } } } },
		{ "a space in the path", { .method = { "GET", 3 }, .path = { "/ HTTP/1.1", 10 } } },
		{ "a line end in the path", { .method = { "GET", 3 }, .path = { "/\r\nX:y", 7 } } },
		{ "no method", { .path = { "/", 1 } } },
		{ "user information",
		  { .method = { "GET", 3 }, .path = { "/", 1 }, .host = { "u@h", 3 } } },
		{ "an unknown framing",
		  { .method = { "GET", 3 }, .path = { "/", 1 }, .framing = FRAMING_CLOSE } },
		{ "a length that is none",
		  { .method = { "GET", 3 }, .path = { "/", 1 }, .framing = FRAMING_LENGTH } },
		{ "an unknown version",
		  { .method = { "GET", 3 }, .path = { "/", 1 }, .minor = 2 } },
	};
	struct link_open *got = malloc(sizeof(*got));
	static const struct link_open good = { .method = { "GET", 3 }, .path = { "/", 1 } };

	(void)state;
	link_write_open(&out, 1, &good);
	assert_int_equal(link_parse_open((struct bytes){ out.data + LINK_HEADER_LEN,
							 out.len - LINK_HEADER_LEN },
					 got),
			 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		out.len = 0;
		link_write_open(&out, 1, &rows[i].open);
		if (link_parse_open(
			    (struct bytes){ out.data + LINK_HEADER_LEN, out.len - LINK_HEADER_LEN },
			    got) != -EPROTO)
			fail_msg("accepted: %s", rows[i].what);
	}
	free(got);
}

static void refusals_are_checked(void **state)
{
	static const struct {
		struct link_refused refused;
		int result;
	} rows[] = {
		{ { .code = { "x", 1 } }, 0 },
		{ { { "x", 1 }, { "GET", 3 }, { "api.test:443", 12 }, { "/p", 2 } }, 0 },
		{ { .code = { "x", 1 }, .host = { "[::1]:80", 8 } }, 0 },
		{ { .host = { "api.test:443", 12 } }, -EPROTO }, /* no code */
		{ { .code = { "x", 1 }, .host = { "u@h:1", 5 } }, -EPROTO },
		{ { .code = { "x", 1 }, .host = { "a\r\nb:1", 6 } }, -EPROTO },
		{ { .code = { "x", 1 }, .host = { "a\0b:1", 5 } }, -EPROTO },
		{ { .code = { "x", 1 }, .path = { "/ x", 3 } }, -EPROTO },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct link_refused got;
		struct bytes payload;
		int r;

		out.len = 0;
		link_write_refused(&out, 1, &rows[i].refused);
		payload = (struct bytes){ out.data + LINK_HEADER_LEN, out.len - LINK_HEADER_LEN };
		r = link_parse_refused(payload, &got);
		if (r != rows[i].result)
			fail_msg("row %zu gave %d", i, r);
		if (r == 0) {
			assert_true(bytes_equal(got.host, rows[i].refused.host));
			payload.len--;
			assert_int_equal(link_parse_refused(payload, &got), -EPROTO);
		}
	}
}

static void names_are_read_back(void **state)
{
	static struct link_names names = { .is_deny = 1, .is_last = 1, .count = 2 }, got;
	struct bytes payload;

	(void)state;
	names.names[0].pattern = BYTES("*.b.test");
	names.names[0].is_known = 1;
	names.names[1].pattern = BYTES("bad.b.test");
	link_write_names(&out, &names);
	payload = (struct bytes){ out.data + LINK_HEADER_LEN, out.len - LINK_HEADER_LEN };
	assert_int_equal(link_parse_names(payload, &got), 0);
	assert_true(got.is_deny && got.is_last && got.count == 2);
	assert_true(bytes_equal(got.names[1].pattern, BYTES("bad.b.test")));
	assert_true(got.names[0].is_known && !got.names[1].is_known);
	for (size_t len = 0; len < payload.len; len++)
		assert_int_equal(link_parse_names((struct bytes){ payload.data, len }, &got),
				 -EPROTO);
	for (size_t i = 0; i < 5; i++) { /* flags, the count, and whether the first is known */
		char *byte = out.data + LINK_HEADER_LEN + i, before = *byte;

		*byte = 2 + LINK_NAMES_MAX;
		assert_int_equal(link_parse_names(payload, &got), -EPROTO);
		*byte = before;
	}
}

static void a_token_is_read_back(void **state)
{
	static const char
		longest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
			    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
			    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
			    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
	struct bytes payload, got;

	(void)state;
	assert_int_equal(strlen(longest), LINK_TOKEN_MAX);
	link_write_token(&out, bytes_of(longest));
	payload = (struct bytes){ out.data + LINK_HEADER_LEN, out.len - LINK_HEADER_LEN };
	assert_int_equal(link_parse_token(payload, &got), 0);
	assert_true(bytes_equal(got, bytes_of(longest)));
	for (size_t len = 0; len < payload.len; len++)
		assert_int_equal(link_parse_token((struct bytes){ payload.data, len }, &got),
				 -EPROTO);
	out.data[LINK_HEADER_LEN + 7] = '\n';
	assert_int_equal(link_parse_token(payload, &got), -EPROTO);
	out.data[LINK_HEADER_LEN + 7] = 'x';
	out.data[LINK_HEADER_LEN + 1] = 1; /* a flag that nobody knows */
	assert_int_equal(link_parse_token(payload, &got), -EPROTO);
	out.data[LINK_HEADER_LEN] = LINK_VERSION + 1;
	assert_int_equal(link_parse_token(payload, &got), -EPROTONOSUPPORT);
}

static void notices_are_read_back(void **state)
{
	static const struct bytes texts[] = { { "", 0 }, { "why not", 7 }, { "a\0b\0", 4 } };
	struct link_notice got;
	struct bytes payload;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		out.len = 0;
		link_write_notice(&out, &(struct link_notice){ '!', texts[i] });
		payload = (struct bytes){ out.data + LINK_HEADER_LEN, out.len - LINK_HEADER_LEN };
		assert_int_equal(link_parse_notice(payload, &got), 0);
		assert_int_equal(got.letter, '!');
		assert_true(bytes_equal(got.text, texts[i]));
		out.data[LINK_HEADER_LEN] = ' ';
		assert_int_equal(link_parse_notice(payload, &got), -EPROTO);
		out.data[LINK_HEADER_LEN] = (char)0xff;
		assert_int_equal(link_parse_notice(payload, &got), -EPROTO);
	}
	payload.len = 0;
	assert_int_equal(link_parse_notice(payload, &got), -EPROTO);
}

/* Each kind of message, one after the other. */
static void write_all(struct buf *to)
{
	static const struct bytes tunnel = BYTES("db.test:5432");
	static struct link_names names = { .is_last = 1, .count = 1 };
	static struct link_open open;
	static struct link_reply reply = { .status = 200, .field_count = 1 };
	static const struct link_end end;
	struct http_field field = { BYTES("x-name"), BYTES("value") };

	names.names[0].pattern = BYTES("*.test");
	open = (struct link_open){ .method = BYTES("GET"), .path = BYTES("/"), .minor = 1 };
	reply.fields[0] = field;
	link_write_hello(to, BYTES("r-1"), 0);
	link_write_tunnels(to, &tunnel, 1);
	link_write_names(to, &names);
	link_write_open(to, 1, &open);
	link_write_reply(to, 1, &reply);
	link_write_data(to, 1, BYTES("a piece"));
	link_write_end(to, 1, &end);
	link_write_credit(to, 1, 9);
	link_write_abort(to, 1);
	link_write_refused(to, 2, &(struct link_refused){ .code = BYTES("code") });
	link_write_token(to, BYTES("token"));
	link_write_notice(to, &(struct link_notice){ '+', { "", 0 } });
	link_write_bye(to);
}

/* What finds no room leaves the buffer full, however much of it there was room for. */
static void a_buffer_that_is_full_stays_so(void **state)
{
	struct buf small;

	(void)state;
	write_all(&out);
	for (size_t max = 1; max <= out.len; max++) {
		buf_init(&small, max);
		write_all(&small);
		write_all(&small);
		assert_int_equal(small.len, max);
		buf_fini(&small);
	}
	/* The control: with room for one byte more it is not full, and is what it was. */
	buf_init(&small, out.len + 1);
	write_all(&small);
	assert_int_equal(small.len, out.len);
	assert_memory_equal(small.data, out.data, out.len);
	buf_fini(&small);
}

/* Everything but the remote link's own messages is copied, wherever it is cut. */
static void a_carrier_copies_what_is_not_for_it(void **state)
{
	struct buf copied, expected;
	struct link_reader reader;

	(void)state;
	buf_init(&expected, 1 << 16);
	link_write_hello(&expected, BYTES("r-1"), 0);
	link_write_abort(&expected, 3); /* without a payload */
	link_write_data(&expected, 3, BYTES("a piece"));
	link_write_credit(&expected, 3, 9);
	buf_add(&out, expected.data, LINK_HEADER_LEN + 11);
	link_write_notice(&out, &(struct link_notice){ '+', { "", 0 } });
	buf_add(&out, expected.data + LINK_HEADER_LEN + 11, expected.len - LINK_HEADER_LEN - 11);
	link_write_notice(&out, &(struct link_notice){ '=', { "1 2 x", 5 } });
	buf_init(&copied, 1 << 16);
	for (size_t piece = 1; piece <= out.len; piece++) {
		size_t notices = 0;

		link_reader_init(&reader, LINK_SIDE_KEEPER);
		reader.is_carrier = true;
		copied.len = 0;
		for (size_t at = 0; at < out.len; at += piece) {
			struct bytes payload,
				input = bytes_cut((struct bytes){ out.data + at, out.len - at },
						  piece);
			enum link_event event;

			while ((event = link_read(&reader, &input, &payload)) != LINK_NEEDS_MORE) {
				assert_int_not_equal(event, LINK_BROKEN);
				if (event == LINK_PIECE)
					buf_add(&copied, payload.data, payload.len);
				else
					notices += reader.type == LINK_NOTICE;
			}
		}
		assert_true(link_reader_is_between(&reader));
		assert_int_equal(notices, 2);
		assert_int_equal(copied.len, expected.len);
		assert_memory_equal(copied.data, expected.data, expected.len);
		link_reader_fini(&reader);
	}
	buf_fini(&copied);
	buf_fini(&expected);
}

static void what_is_not_in_the_table_breaks_the_link(void **state)
{
	static const struct {
		enum link_side from;
		const char *header;
	} rows[] = {
		{ LINK_SIDE_GATE, "\0\0\0\0\1\0\0\0\0\0\0\0" },     /* no type */
		{ LINK_SIDE_GATE, "\10\0\0\0\1\0\0\0\0\0\0\0" },    /* an unknown type */
		{ LINK_SIDE_GATE, "\7\1\0\0\1\0\0\0\0\0\0\0" },     /* not zero */
		{ LINK_SIDE_GATE, "\1\0\0\0\0\0\0\0\10\0\0\0" },    /* HELLO is the keeper's */
		{ LINK_SIDE_GATE, "\3\0\0\0\1\0\0\0\20\0\0\0" },    /* REPLY is the keeper's */
		{ LINK_SIDE_KEEPER, "\2\0\0\0\1\0\0\0\20\0\0\0" },  /* OPEN is the gate's */
		{ LINK_SIDE_GATE, "\7\0\0\0\0\0\0\0\0\0\0\0" },     /* exchange 0 */
		{ LINK_SIDE_KEEPER, "\1\0\0\0\1\0\0\0\10\0\0\0" },  /* HELLO of an exchange */
		{ LINK_SIDE_GATE, "\4\0\0\0\1\0\0\0\0\0\0\0" },     /* empty DATA */
		{ LINK_SIDE_GATE, "\4\0\0\0\1\0\0\0\1\200\0\0" },   /* DATA too long */
		{ LINK_SIDE_GATE, "\6\0\0\0\1\0\0\0\5\0\0\0" },     /* CREDIT too long */
		{ LINK_SIDE_GATE, "\2\0\0\0\1\0\0\0\0\0\0\1" },     /* OPEN too long */
		{ LINK_SIDE_KEEPER, "\13\0\0\0\0\0\0\0\20\0\0\0" }, /* TOKEN is a carrier's */
		{ LINK_SIDE_GATE, "\13\0\0\0\1\0\0\0\20\0\0\0" },   /* ... of no exchange */
		{ LINK_SIDE_GATE, "\13\0\0\0\0\0\0\0\6\1\0\0" },    /* ... too long */
		{ LINK_SIDE_GATE, "\14\0\0\0\0\0\0\0\1\0\0\0" },    /* NOTICE is the keeper's */
		{ LINK_SIDE_KEEPER, "\15\0\0\0\0\0\0\0\0\0\0\0" },  /* BYE is a carrier's */
		{ LINK_SIDE_GATE, "\15\0\0\0\0\0\0\0\1\0\0\0" },    /* ... and says nothing */
		{ LINK_SIDE_GATE, "\16\0\0\0\0\0\0\0\0\0\0\0" },    /* beyond the table */
	};
	char got[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		read_in_pieces(rows[i].from, rows[i].header, LINK_HEADER_LEN, 5, got, sizeof(got));
		if (strcmp(got, "broken") != 0)
			fail_msg("row %zu gave '%s'", i, got);
	}
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(messages_arrive_however_they_are_cut), FRESH(payloads_are_read_back),
		  FRESH(the_keeper_checks_again), FRESH(refusals_are_checked),
		  FRESH(names_are_read_back), FRESH(a_token_is_read_back),
		  FRESH(notices_are_read_back), FRESH(a_buffer_that_is_full_stays_so),
		  FRESH(a_carrier_copies_what_is_not_for_it),
		  FRESH(what_is_not_in_the_table_breaks_the_link));
}
