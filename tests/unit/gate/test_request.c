/* SPDX-License-Identifier: MIT */
/* Requests that are refused at the gate, as they are told to the keeper. */
#include "unit.h"

#include "gate/request.h"

static struct gate gate;

/* The record of a refusal of a head with these; the views last until the next one. */
static struct link_refused refuse(struct bytes method, struct bytes path, enum http_fault fault)
{
	struct http_head head = { .method = method, .path = path };
	struct endpoint endpoint = { .kind = ENDPOINT_EGRESS,
				     .authority = { .host = "a.test", .port = 443 } };
	struct link_refused refused;
	struct bytes input, payload;
	struct link_reader reader;
	struct course course;
	struct buf body;

	buf_fini(&gate.link.out);
	buf_init(&gate.link.out, 1 << 16);
	buf_init(&body, 1 << 16);
	link_reader_init(&reader, LINK_SIDE_GATE);
	request_judge_fault(fault, &course);
	request_answer(&gate, &endpoint, &course, &head, &body);
	input = (struct bytes){ gate.link.out.data, gate.link.out.len };
	assert_int_equal(link_read(&reader, &input, &payload), LINK_MESSAGE);
	assert_int_equal(reader.type, LINK_REFUSED);
	assert_int_equal(input.len, 0);
	/* The keeper ends the link for what it cannot read, and with it the run's network. */
	assert_int_equal(link_parse_refused(payload, &refused), 0);
	assert_true(bytes_equal(refused.code, bytes_of(http_fault_info(fault)->code)));
	assert_true(bytes_equal(refused.host, BYTES("a.test:443")));
	/* The payload is the reader's, and its texts are literals here. */
	refused.method = bytes_equal(refused.method, method) ? method : BYTES("");
	refused.path = bytes_equal(refused.path, path) ? path : BYTES("");
	link_reader_fini(&reader);
	buf_fini(&body);
	return refused;
}

static void a_record_has_what_can_be_read(void **state)
{
	static const struct {
		struct bytes method, path;
		bool has_method, has_path;
	} rows[] = {
		{ BYTES("GET"), BYTES("/a?b"), true, true },
		{ BYTES("GET"), BYTES(""), true, true },
		{ BYTES("GET"), BYTES("/\xc3\xa4"), true, false }, /* as some clients send it */
		{ BYTES("GET"), BYTES("/a b"), true, false },
		{ BYTES("GET"), BYTES("/\n"), true, false },
		{ BYTES("G T"), BYTES("/"), false, true },
		{ BYTES("\xff"), BYTES("\0"), false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct link_refused refused = refuse(rows[i].method, rows[i].path, FAULT_TARGET);

		assert_int_equal(refused.method.len, rows[i].has_method ? rows[i].method.len : 0);
		assert_int_equal(refused.path.len, rows[i].has_path ? rows[i].path.len : 0);
	}
}

int main(void)
{
	RUN_TESTS(TEST(a_record_has_what_can_be_read));
}
