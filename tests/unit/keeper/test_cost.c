/* SPDX-License-Identifier: MIT */
/* INV-BILLING-TRUTH: the cost is the upstream's own, the last one that it reports. */
#include "unit.h"

#include "keeper/cost.h"

static void the_last_cost_is_found_at_every_cut(void **state)
{
	static const struct {
		const char *text, *cost;
	} rows[] = {
		{ "{\"usage\":{\"cost\":0.0012}}", "0.0012" },
		{ "{\"usage\":{\"cost\" : 1e-05 }}", "1e-05" },
		{ "data: {\"cost\":1}\n\ndata: {\"usage\":{\"cost\":2.5}}\n\n", "2.5" },
		/* Said by a model, not reported by an upstream. */
		{ "{\"content\":\"\\\"cost\\\":9\"}", "" },
		{ "{\"content\":\"say \\\"cost\\\":9\",\"cost\":3,\"x\":1}", "3" },
		{ "{\"costs\":4}", "" },
		{ "{\"cost\":null}", "" },
		{ "{\"cost\":\"5\"}", "" },
		{ "{\"\"cost\":6,}", "6" },
		{ "{\"cost\":12345678901234567890123456789}", "12345678901234567890123" },
		{ "\"cost\":7", "" }, /* the number may go on */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes text = bytes_of(rows[i].text);

		for (size_t cut = 0; cut <= text.len; cut++) {
			struct cost cost = { 0 };
			struct bytes rest = text;

			cost_push(&cost, bytes_take(&rest, cut));
			cost_push(&cost, rest);
			assert_string_equal(cost.last, rows[i].cost);
		}
	}
}

int main(void)
{
	RUN_TESTS(TEST(the_last_cost_is_found_at_every_cut));
}
