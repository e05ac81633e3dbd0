/* SPDX-License-Identifier: MIT */
/* Metrics: as the exposition format wants them, whatever the numbers are. */
#include "unit.h"

#include <stdio.h>

#include "keeper/exposition.h"
#include "keeper/metrics.h"
#include "keeper/refusal.h"
#include "store/store.h"

/* What is counted by an enum of somebody else's is indexed by it. */
_Static_assert((int)METRICS_CODE_GATE == (int)REFUSAL_NONE, "");
_Static_assert((int)METRICS_CODE_TIMEOUT == (int)REFUSAL_TIMEOUT, "");
_Static_assert((int)METRICS_VERDICT_GRANTED == (int)STORE_GRANTED, "");
_Static_assert((int)METRICS_VERDICT_NO_RATE == (int)STORE_NO_RATE, "");
_Static_assert((int)METRICS_VERDICT_NO_PLACE == (int)STORE_NO_PLACE, "");
_Static_assert((int)METRICS_VERDICT_NO_BYTES == (int)STORE_NO_BYTES, "");
_Static_assert((int)METRICS_VERDICT_NO_MONEY == (int)STORE_NO_MONEY, "");
_Static_assert((int)METRICS_VERDICT_IS_REVOKED == (int)STORE_IS_REVOKED, "");
_Static_assert((int)METRICS_VERDICT_HAS_LINK == (int)STORE_HAS_LINK, "");
_Static_assert((int)METRICS_VERDICT_UNREACHABLE == (int)STORE_UNREACHABLE, "");
_Static_assert((int)METRICS_VERDICT_COUNT == (int)STORE_UNREACHABLE + 1, "");

static struct metrics metrics;
static struct buf text;

static int set_up(void **state)
{
	(void)state;
	memset(&metrics, 0, sizeof(metrics));
	buf_init(&text, METRICS_TEXT_MAX);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	buf_fini(&text);
	return 0;
}

static void format(void)
{
	text.len = 0;
	metrics_format(&metrics, &text);
	assert_true(text.len < METRICS_TEXT_MAX);
}

/* Whether such a line is there, as a whole. */
static bool has_line(const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text.data; (at = strstr(at, line)); at++)
		if ((at == text.data || at[-1] == '\n') && at[len] == '\n')
			return true;
	return false;
}

static size_t count_lines(const char *beginning)
{
	size_t count = 0;

	for (const char *at = text.data; (at = strstr(at, beginning)); at++)
		count += at == text.data || at[-1] == '\n';
	return count;
}

static void expect(const char *line)
{
	if (!has_line(line))
		fail_msg("'%s' is missing in:\n%s", line, text.data);
}

static void every_metric_says_what_it_is(void **state)
{
	(void)state;
	metrics.runs = 3;
	metrics.runs_begun = 7;
	format();
	expect("# HELP warder_runs Runs that are open.");
	expect("# TYPE warder_runs gauge");
	expect("warder_runs 3");
	expect("# TYPE warder_runs_total counter");
	expect("warder_runs_total 7");
	expect("warder_build_info{version=\"" WARDER_VERSION "\"} 1");
	assert_int_equal(count_lines("# HELP "), count_lines("# TYPE "));
	assert_int_equal(text.data[text.len - 1], '\n');
	assert_null(strstr(text.data, "\n\n"));
}

static void labels_have_all_their_values_from_the_beginning(void **state)
{
	(void)state;
	metrics.exchanges_begun[METRICS_KIND_WEBSOCKET] = 5;
	metrics.limited[METRICS_SCOPE_ACCOUNT][METRICS_LIMIT_MONEY] = 2;
	metrics.limited[METRICS_SCOPE_HOST][METRICS_LIMIT_RATE] = 9;
	format();
	expect("warder_exchanges_total{kind=\"llm\"} 0");
	expect("warder_exchanges_total{kind=\"websocket\"} 5");
	expect("warder_limited_total{scope=\"account\",limit=\"money\"} 2");
	expect("warder_limited_total{scope=\"host\",limit=\"rate\"} 9");
	expect("warder_limited_total{scope=\"run\",limit=\"time\"} 0");
	assert_int_equal(count_lines("warder_limited_total{"),
			 METRICS_SCOPE_COUNT * METRICS_LIMIT_COUNT);
	assert_int_equal(count_lines("# TYPE warder_limited_total "), 1);
}

/* Two refusals are called method_not_allowed: a second sample of that name would be an error. */
static void refusals_with_one_code_are_one_sample(void **state)
{
	(void)state;
	assert_string_equal(refusal_code(REFUSAL_METHOD), refusal_code(REFUSAL_RULE_METHOD));
	metrics.refusals[REFUSAL_METHOD] = 3;
	metrics.refusals[REFUSAL_RULE_METHOD] = 4;
	metrics.refusals[REFUSAL_NONE] = 5;
	format();
	expect("warder_refusals_total{code=\"method_not_allowed\"} 7");
	assert_int_equal(count_lines("warder_refusals_total{code=\"method_not_allowed\"}"), 1);
	expect("warder_refusals_total{code=\"gate\"} 5");
	for (int i = REFUSAL_NONE + 1; i < METRICS_CODE_COUNT; i++) {
		char line[128];

		snprintf(line, sizeof(line), "warder_refusals_total{code=\"%s\"} ",
			 refusal_code((enum refusal)i));
		assert_int_equal(count_lines(line), 1);
	}
}

static void histograms_count_up(void **state)
{
	(void)state;
	metrics_observe(&metrics.exchange_seconds, 0);
	metrics_observe(&metrics.exchange_seconds, 100); /* a bound is within its bucket */
	metrics_observe(&metrics.exchange_seconds, 101);
	metrics_observe(&metrics.exchange_seconds, 600000000);
	metrics_observe(&metrics.exchange_seconds, 600000001);
	format();
	expect("# TYPE warder_exchange_seconds histogram");
	expect("warder_exchange_seconds_bucket{le=\"0.0001\"} 2");
	expect("warder_exchange_seconds_bucket{le=\"0.00025\"} 3");
	expect("warder_exchange_seconds_bucket{le=\"300\"} 3");
	expect("warder_exchange_seconds_bucket{le=\"600\"} 4");
	expect("warder_exchange_seconds_bucket{le=\"+Inf\"} 5");
	expect("warder_exchange_seconds_sum 1200.000202");
	expect("warder_exchange_seconds_count 5");
	expect("warder_first_byte_seconds_bucket{le=\"+Inf\"} 0");
	assert_int_equal(count_lines("warder_exchange_seconds_bucket{"), METRICS_BUCKETS);
}

static void numbers_are_exact(void **state)
{
	static const struct {
		uint64_t value, unit;
		const char *expected;
	} rows[] = {
		{ 0, 1, "0" },
		{ 0, MONEY_UNIT, "0" },
		{ 1, MONEY_UNIT, "0.000000001" },
		{ 50000000, MONEY_UNIT, "0.05" },
		{ 12 * MONEY_UNIT, MONEY_UNIT, "12" },
		{ 1500, 1000, "1.5" },
		{ 1005, 1000, "1.005" },
		{ UINT64_MAX, 1, "18446744073709551615" },
		{ UINT64_MAX, 1000000, "18446744073709.551615" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		text.len = 0;
		exposition_add_decimal(&text, rows[i].value, rows[i].unit);
		assert_string_equal(text.data, rows[i].expected);
	}
	metrics.spend = 1234567891;
	format();
	expect("warder_spend_reported_total 1.234567891");
}

static void what_would_break_a_line_is_escaped(void **state)
{
	static const struct exposition_label labels[] = {
		{ "a", "back\\slash \"quote\"\nline" },
		{ "b", "" },
	};

	(void)state;
	exposition_begin(&text, "x", "gauge", "say \"hi\"\\\nto all");
	exposition_add(&text, "x", "_y", labels, 2, 1, 1);
	assert_string_equal(text.data, "# HELP x say \"hi\"\\\\\\nto all\n# TYPE x gauge\n"
				       "x_y{a=\"back\\\\slash \\\"quote\\\"\\nline\",b=\"\"} 1\n");
}

/* INV-BOUNDED: the text has its limit, and the largest numbers are within it. */
static void the_largest_numbers_fit(void **state)
{
	(void)state;
	memset(&metrics, 0xff, sizeof(metrics));
	format();
	expect("warder_runs 18446744073709551615");
	assert_true(text.len < METRICS_TEXT_MAX / 2);
}

static void the_process_is_looked_at(void **state)
{
	uint64_t start;

	(void)state;
	metrics_look_at_process(&metrics);
	start = metrics.start_time_ms;
	assert_true(start > UINT64_C(1600000000000));
	assert_true(metrics.resident_bytes > 100000);
	assert_true(metrics.open_fds >= 3 && metrics.max_fds > metrics.open_fds);
	metrics_look_at_process(&metrics);
	assert_int_equal(metrics.start_time_ms, start);
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	RUN_TESTS(FRESH(every_metric_says_what_it_is),
		  FRESH(labels_have_all_their_values_from_the_beginning),
		  FRESH(refusals_with_one_code_are_one_sample), FRESH(histograms_count_up),
		  FRESH(numbers_are_exact), FRESH(what_would_break_a_line_is_escaped),
		  FRESH(the_largest_numbers_fit), FRESH(the_process_is_looked_at));
}
