/* SPDX-License-Identifier: MIT */
/* INV-BILLING-TRUTH: the cost is the upstream's own, the last one that it reports, and no other. */
#include "unit.h"

#include <stdlib.h>

#include "keeper/cost.h"

struct row {
	const char *text, *cost;
};

/* Cut in two wherever that can be, and byte by byte. */
static void expect(const struct row *row, bool is_events)
{
	struct bytes text = bytes_of(row->text);

	for (size_t cut = 0; cut <= text.len + 1; cut++) {
		struct cost cost = { .is_events = is_events };
		struct bytes rest = text;

		if (cut <= text.len)
			cost_push(&cost, bytes_take(&rest, cut));
		while (cut > text.len && rest.len > 0)
			cost_push(&cost, bytes_take(&rest, 1));
		cost_push(&cost, rest);
		assert_string_equal(cost.last, ""); /* it may not be whole */
		cost_finish(&cost);
		assert_string_equal(cost.last, row->cost);
	}
}

static void the_cost_of_a_body(void **state)
{
	static const struct row rows[] = {
		{ "{\"usage\":{\"cost\":0.0012}}", "0.0012" },
		{ " {\"id\":1,\n\"usage\" : { \"x\" : [ ] , \"cost\" : 1e-05 } } \n", "1e-05" },
		{ "{\"usage\":{\"cost\":1E-7,\"d\":{\"cost\":2}},\"x\":{}}", "1E-7" },
		/* As it is reported; what it is worth is asked elsewhere. */
		{ "{\"usage\":{\"cost\":-1}}", "-1" },
		{ "{\"usage\":{\"cost\":1e400}}", "1e400" },
		/* No number, or none that can be kept. */
		{ "{\"usage\":{\"cost\":null}}", "" },
		{ "{\"usage\":{\"cost\":\"5\"}}", "" },
		{ "{\"usage\":{\"cost\":NaN}}", "" },
		{ "{\"usage\":{\"cost\":{\"cost\":1}}}", "" },
		{ "{\"usage\":{\"cost\":[1]}}", "" },
		{ "{\"usage\":{\"cost\":}}", "" },
		{ "{\"usage\":{\"cost\":12345678901234567890123}}", "12345678901234567890123" },
		{ "{\"usage\":{\"cost\":123456789012345678901234}}", "" },
		{ "", "" },
		{ "5", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(&rows[i], false);
}

/* What an agent or a model can bring into a reply. */
static void a_cost_elsewhere_is_none(void **state)
{
	static const struct row rows[] = {
		{ "{\"cost\":0}", "" },
		{ "{\"tools\":[{\"parameters\":{\"cost\":0}}]}", "" },
		{ "{\"tools\":[{\"usage\":{\"cost\":0}}]}", "" },
		{ "{\"metadata\":{\"usage\":{\"cost\":0}}}", "" },
		{ "{\"usage\":{\"cost\":2},\"tools\":[{\"parameters\":{\"cost\":0}}]}", "2" },
		{ "{\"usage\":{\"details\":{\"cost\":0},\"cost\":2}}", "2" },
		{ "{\"usage\":{\"usage\":{\"cost\":0}}}", "" },
		{ "{\"usage\":[{\"cost\":0}]}", "" },
		{ "[{\"usage\":{\"cost\":0}}]", "" },
		{ "{\"x\":{\"response\":{\"usage\":{\"cost\":0}}}}", "" },
		{ "{\"content\":\"\\\"usage\\\":{\\\"cost\\\":9}\"}", "" },
		{ "{\"content\":\"\\\\\",\"usage\":{\"cost\":3}}", "3" },
		{ "{\"Usage\":{\"cost\":1}}", "" },
		{ "{\"usage\":{\"costs\":1}}", "" },
		{ "{\"usage\":{\"\":1}}", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(&rows[i], false);
}

static void what_can_be_read_in_two_ways_is_no_cost(void **state)
{
	static const struct row rows[] = {
		{ "{\"usage\":{\"cost\":2,\"cost\":0}}", "" },
		{ "{\"usage\":{\"cost\":2},\"usage\":{\"cost\":0}}", "" },
		{ "{\"usage\":{\"cost\":2},\"usage\":{}}", "" },
		{ "{\"usage\":{\"cost\":2,\"\\u0063ost\":0}}", "" },
		{ "{\"usage\":{\"\\u0063ost\":0}}", "" },
		{ "{\"\\u0075sage\":{\"cost\":0},\"usage\":{\"cost\":2}}", "" },
		/* Of others it does not matter. */
		{ "{\"x\":{\"\\u0063ost\":0},\"usage\":{\"cost\":2}}", "2" },
		{ "{\"usage\":{\"cost\":2,\"x\":{\"y\":1,\"y\":2}}}", "2" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(&rows[i], false);
}

static void what_is_not_json_has_no_cost(void **state)
{
	static const struct row rows[] = {
		{ "{\"usage\":{\"cost\":2}", "" },
		{ "{\"usage\":{\"cost\":2}}x", "" },
		{ "{\"usage\":{\"cost\":2}}{\"usage\":{\"cost\":0}}", "" },
		{ "{\"usage\":{\"cost\":2}]", "" },
		{ "{\"a\":[1},\"usage\":{\"cost\":2}}", "" },
		{ "{\"usage\":{\"cost\":2},}", "" },
		{ "{\"usage\":{\"cost\" 2}}", "" },
		{ "{\"\"usage\":{\"cost\":6}}", "" },
		{ "{\"a\":\"\n\",\"usage\":{\"cost\":2}}", "" },
		{ "!{\"usage\":{\"cost\":2}}", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(&rows[i], false);
}

static void the_last_event_that_names_one_counts(void **state)
{
	static const struct row rows[] = {
		{ "data: {\"usage\":{\"cost\":1}}\n\ndata: {\"usage\":{\"cost\":2.5}}\n\n", "2.5" },
		{ "data: {\"usage\":{\"cost\":1}}\n\ndata: {\"usage\":null}\n\ndata: [DONE]\n\n",
		  "1" },
		{ "event: x\r\ndata:{\"usage\":{\"cost\":1}}\r\n\r\n: ping\r\n\r\n", "1" },
		{ "data: {\"usage\":{\"cost\":1}}\r\rdata: hello\r\r", "1" },
		{ "data: {\"usage\":\ndata\ndata:  {\"cost\":3}\ndata: }\nid: 7\n\n", "3" },
		{ "data: {\"type\":\"x\",\"response\":{\"usage\":{\"cost\":4}}}\n\n", "4" },
		/* That it is not known is said, too. */
		{ "data: {\"usage\":{\"cost\":1}}\n\ndata: {\"usage\":{\"cost\":null}}\n\n", "" },
		{ "data: {\"usage\":{\"cost\":1}}\n\ndata: "
		  "{\"usage\":{\"cost\":2},\"response\":{\"usage\":{\"cost\":0}}}\n\n",
		  "" },
		/* As the Responses API repeats what it was asked with. */
		{ "data: {\"response\":{\"usage\":null,\"tools\":[{\"parameters\":{\"cost\":0,"
		  "\"usage\":{\"cost\":0}}}],\"metadata\":{\"cost\":\"0\"}}}\n\n"
		  "data: {\"delta\":\"hello\"}\n\n"
		  "data: {\"response\":{\"usage\":{\"output_tokens\":9}}}\n\n",
		  "" },
		/* No event, or no data. */
		{ "data: {\"usage\":{\"cost\":1}}\n", "" },
		{ "{\"usage\":{\"cost\":1}}\n\n", "" },
		{ "event: {\"usage\":{\"cost\":1}}\n\n", "" },
		{ "xdata: {\"usage\":{\"cost\":1}}\n\n", "" },
		{ "data {\"usage\":{\"cost\":1}}\n\n", "" },
		{ "data: {\"usage\":{\"cost\":\n\ndata: 1}}\n\n", "" },
		{ "data: {\"a\":\"\ndata: \",\"usage\":{\"cost\":1}}\n\n", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect(&rows[i], true);
	/* Of a body that is no stream of events, "response" is a name like any other. */
	expect(&(struct row){ "{\"response\":{\"usage\":{\"cost\":4}}}", "" }, false);
}

static void depth_has_a_bound(void **state)
{
	char *text = malloc(JSON_WALK_DEPTH_MAX * 2 + 64);

	(void)state;
	assert_non_null(text);
	for (size_t deep = JSON_WALK_DEPTH_MAX - 1; deep <= JSON_WALK_DEPTH_MAX; deep++) {
		struct cost cost = { 0 };

		strcpy(text, "{\"a\":");
		memset(text + 5, '[', deep);
		memset(text + 5 + deep, ']', deep);
		strcpy(text + 5 + 2 * deep, ",\"usage\":{\"cost\":7}}");
		cost_push(&cost, bytes_of(text));
		cost_finish(&cost);
		assert_string_equal(cost.last, deep < JSON_WALK_DEPTH_MAX ? "7" : "");
	}
	free(text);
}

int main(void)
{
	RUN_TESTS(TEST(the_cost_of_a_body), TEST(a_cost_elsewhere_is_none),
		  TEST(what_can_be_read_in_two_ways_is_no_cost), TEST(what_is_not_json_has_no_cost),
		  TEST(the_last_event_that_names_one_counts), TEST(depth_has_a_bound));
}
