/* SPDX-License-Identifier: MIT */
/* Names that the resolver has where what is not allowed does not exist. */
#include "unit.h"

#include "gate/known.h"
#include "policy/rule.h"

static struct known known;

static void the_most_specific_pattern_counts(void **state)
{
	static const struct {
		const char *pattern;
		bool is_known;
	} rows[] = { { "*.b.test", true },
		     { "api.b.test", false },
		     { "*.c.b.test", false },
		     { "x.c.b.test", true },
		     { "alone", true } };
	static const struct {
		const char *name;
		bool is_known;
	} names[] = {
		{ "b.test", true },       { "a.b.test", true },     { "api.b.test", false },
		{ "x.api.b.test", true }, { "c.b.test", false },    { "y.c.b.test", false },
		{ "x.c.b.test", true },   { "alone", true },        { "b.alone", false },
		{ "xb.test", false },     { "b.test.evil", false }, { "test", false },
	};

	(void)state;
	known.count = 0;
	assert_false(known_has(&known, "b.test"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(known_add(&known, bytes_of(rows[i].pattern), rows[i].is_known), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (known_has(&known, names[i].name) != names[i].is_known)
			fail_msg("%s", names[i].name);
}

static void what_is_no_pattern_is_refused(void **state)
{
	static const char *const texts[] = { "", "*", "a.test:80", "a b", "u@a.test", "a..test" };

	(void)state;
	known.count = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (known_add(&known, bytes_of(texts[i]), true) != -EPROTO)
			fail_msg("accepted: %s", texts[i]);
	while (known.count < KNOWN_MAX)
		assert_int_equal(known_add(&known, BYTES("a.test"), true), 0);
	assert_int_equal(known_add(&known, BYTES("a.test"), true), -EPROTO);
}

/* What the keeper tells is what it would say itself, name by name. */
static void a_policy_tells_what_it_knows(void **state)
{
	static const struct {
		const char *text;
		bool is_allow;
	} rules[] = {
		{ "*.b.test", true },
		{ "bad.b.test", false },
		{ "GET api.b.test/v1", true },
		{ "POST api.b.test/v1", false },
		{ "tcp://db.b.test:5432", true },
		{ "*.d.test", false },
		{ "x.d.test:8443", true },
		{ "half.b.test:8443", false },
		{ "half.b.test", true },
		{ "same.test", true },
		{ "same.test", false },
		{ "bad.b.test:22", true },
	};
	static const char *const names[] = {
		"b.test",      "a.b.test",   "bad.b.test", "api.b.test",   "db.b.test",
		"d.test",      "x.d.test",   "y.d.test",   "half.b.test",  "same.test",
		"x.same.test", "other.test", "x.x.d.test", "x.bad.b.test",
	};
	struct policy policy = { .count = 0 };
	const char *pattern;
	size_t at = 0, count = 0;
	bool is_known;
	struct err err;

	(void)state;
	known.count = 0;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		assert_int_equal(policy_add(&policy, rules[i].text, rules[i].is_allow, &err), 0);
	for (; policy_next_host(&policy, &at, &pattern, &is_known); count++)
		assert_int_equal(known_add(&known, bytes_of(pattern), is_known), 0);
	assert_int_equal(count, 8);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (known_has(&known, names[i]) != policy_knows_host(&policy, names[i]))
			fail_msg("%s", names[i]);
	policy_fini(&policy);
}

int main(void)
{
	RUN_TESTS(TEST(the_most_specific_pattern_counts), TEST(what_is_no_pattern_is_refused),
		  TEST(a_policy_tells_what_it_knows));
}
