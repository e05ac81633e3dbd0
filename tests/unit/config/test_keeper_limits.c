/* SPDX-License-Identifier: MIT */
/* Limits: what is read, what counts when there are several, and what is refused. */
#include "unit.h"

#include <stdio.h>

#include "base/money.h"
#include "config/keeper_config.h"

static int apply(struct keeper_config *config, const char *text, struct err *err)
{
	return keeper_config_apply(config, "limit", text, err);
}

static void must_apply(struct keeper_config *config, const char *text)
{
	struct err err = { 0 };

	if (apply(config, text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
}

static void every_name_is_read(void **state)
{
	struct keeper_config config;
	const struct limits *limits = &config.run_limits;

	(void)state;
	keeper_config_init(&config);
	must_apply(&config,
		   "run:requests=30/m,burst=20,concurrent=8,bytes=1G,spend=2.5,duration=8h");
	assert_int_equal(limits->rate, LIMITS_PER_SECOND / 2);
	assert_int_equal(limits->burst, 20);
	assert_int_equal(limits->concurrent, 8);
	assert_int_equal(limits->bytes, UINT64_C(1) << 30);
	assert_int_equal(limits->spend, MONEY_UNIT * 5 / 2);
	assert_int_equal(limits->duration_ms, 8 * 3600 * 1000);
	assert_int_equal(config.spend_reserve, MONEY_UNIT / 20);
	assert_int_equal(config.account_limit_count, 0);
	assert_int_equal(config.host_limit_count, 0);
	keeper_config_fini(&config);
}

static void later_names_count_over_earlier(void **state)
{
	struct keeper_config config;
	struct err err = { 0 };

	(void)state;
	keeper_config_init(&config);
	must_apply(&config, "account=team-7:requests=5,spend=1");
	must_apply(&config, "account=*:spend=3");
	must_apply(&config, "account=team-7:spend=2,burst=9");
	must_apply(&config, "host=API.Example.com.:concurrent=4");
	must_apply(&config, "host=api.example.com:requests=0.5");
	must_apply(&config, "host=*.example.com:requests=1");
	assert_int_equal(config.account_limit_count, 2);
	assert_string_equal(config.account_limits[0].name, "team-7");
	assert_int_equal(config.account_limits[0].limits.rate, 5 * LIMITS_PER_SECOND);
	assert_int_equal(config.account_limits[0].limits.spend, 2 * MONEY_UNIT);
	assert_int_equal(config.account_limits[0].limits.burst, 9);
	assert_string_equal(config.account_limits[1].name, "*");
	assert_int_equal(config.host_limit_count, 2);
	assert_string_equal(config.host_limits[0].name, "api.example.com");
	assert_int_equal(config.host_limits[0].limits.concurrent, 4);
	assert_int_equal(config.host_limits[0].limits.rate, LIMITS_PER_SECOND / 2);
	assert_string_equal(config.host_limits[1].name, "*.example.com");
	assert_int_equal(keeper_config_check(&config, &err), 0);
	keeper_config_fini(&config);
}

/* The name of an account is whatever the operator calls it. */
static void names_of_accounts_and_hosts(void **state)
{
	static const char *const rows[][2] = {
		{ "account=org:team, a=b:spend=1", "org:team, a=b" },
		{ "account=*:spend=1", "*" },
		{ "host=[2001:DB8:0::1]:bytes=1", "2001:db8::1" },
		{ "host=[::ffff:192.0.2.1]:bytes=1", "192.0.2.1" },
		{ "host=192.0.2.1:bytes=1", "192.0.2.1" },
		{ "host=litellm:bytes=1", "litellm" },
		{ "host=*.Example.COM.:bytes=1", "*.example.com" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct keeper_config config;

		keeper_config_init(&config);
		must_apply(&config, rows[i][0]);
		assert_string_equal(config.account_limit_count ? config.account_limits[0].name
							       : config.host_limits[0].name,
				    rows[i][1]);
		keeper_config_fini(&config);
	}
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *text, *expected; /* the whole error */
	} rows[] = {
		{ "spend=5", "--limit: 'spend=5' is not SCOPE:NAME=VALUE[,NAME=VALUE]" },
		{ "runs:spend=5",
		  "--limit: 'runs' is not run, account=ID or host=HOST; did you mean run?" },
		{ "acount=a:spend=5", "--limit: 'acount' is not run, account=ID or host=HOST; did "
				      "you mean account=ID?" },
		{ "everything:spend=5",
		  "--limit: 'everything' is not run, account=ID or host=HOST" },
		{ "account:spend=5", "--limit: 'account' is not run, account=ID or host=HOST; did "
				     "you mean account=ID?" },
		{ "account=:spend=5",
		  "--limit: an account is up to 256 printable ASCII characters, or * for those "
		  "without limits of their own" },
		{ "account=\xc3\xa9:spend=5",
		  "--limit: an account is up to 256 printable ASCII characters, or * for those "
		  "without limits of their own" },
		{ "host=:bytes=1",
		  "--limit: '' is not a host such as api.example.com or *.example.com" },
		{ "host=*:bytes=1",
		  "--limit: '*' is not a host such as api.example.com or *.example.com" },
		{ "host=a.*.b:bytes=1",
		  "--limit: 'a.*.b' is not a host such as api.example.com or *.example.com" },
		{ "host=a.test:443:bytes=1",
		  "--limit: 'a.test:443' is not a host such as api.example.com or *.example.com" },
		{ "host=https://a.test:bytes=1",
		  "--limit: 'https://a.test' is not a host such as api.example.com or "
		  "*.example.com" },
		{ "host=a..b:bytes=1",
		  "--limit: 'a..b' is not a host such as api.example.com or *.example.com" },
		{ "host=[::1%eth0]:bytes=1",
		  "--limit: '[::1%eth0]' is not a host such as api.example.com or *.example.com" },
		{ "host=::1:bytes=1",
		  "--limit: '::1' is not a host such as api.example.com or *.example.com" },
		{ "run:", "--limit: '' is not NAME=VALUE" },
		{ "run:spend", "--limit: 'spend' is not NAME=VALUE" },
		{ "run:spend=1,", "--limit: '' is not NAME=VALUE" },
		{ "run:request=1", "--limit: 'request' is not a limit; did you mean requests?" },
		{ "run:tokens=1", "--limit: 'tokens' is not a limit; there are requests, burst, "
				  "concurrent, bytes, spend and duration" },
		{ "account=a:duration=1m", "--limit: duration is a limit of a run only" },
		{ "host=a.test:duration=1m", "--limit: duration is a limit of a run only" },
		{ "run:requests=many",
		  "--limit: requests: 'many' is not a rate such as 10, 0.5, 30/m or 100/h" },
		{ "run:requests=3/d",
		  "--limit: requests: '3/d' is not a rate such as 10, 0.5, 30/m or 100/h" },
		{ "run:requests=0.000/m",
		  "--limit: requests: '0.000/m' is too small; what has no limit is left away" },
		{ "run:requests=1000001", "--limit: requests: '1000001' is too large" },
		{ "run:burst=1.5", "--limit: burst: '1.5' is not a whole number" },
		{ "run:concurrent=-1", "--limit: concurrent: '-1' is not a whole number" },
		{ "run:bytes=1X", "--limit: bytes: '1X' is not a size such as 512M" },
		{ "run:bytes=99999999999T", "--limit: bytes: '99999999999T' is too large" },
		{ "run:spend=0",
		  "--limit: spend: '0' is too small; what has no limit is left away" },
		{ "run:spend=-5", "--limit: spend: '-5' is not an amount such as 5 or 0.25" },
		{ "host=a.test:spend=1", "--limit: spend is a limit of a run or an account only" },
		{ "run:spend=9999999999999", "--limit: spend: '9999999999999' is too large" },
		{ "run:duration=soon",
		  "--limit: duration: 'soon' is not a time such as 30s or 10m" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct keeper_config config;
		struct err err = { 0 };

		keeper_config_init(&config);
		if (apply(&config, rows[i].text, &err) == 0)
			fail_msg("accepted: %s", rows[i].text);
		if (strcmp(err.text, rows[i].expected) != 0)
			fail_msg("'%s' is not '%s'", err.text, rows[i].expected);
		keeper_config_fini(&config);
	}
}

static void a_burst_needs_a_rate(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "run:burst=5", "--limit: run: burst belongs to requests, which has no limit" },
		{ "account=a:burst=5",
		  "--limit: account=a: burst belongs to requests, which has no limit" },
		{ "host=a.test:burst=5",
		  "--limit: host=a.test: burst belongs to requests, which has no limit" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct keeper_config config;
		struct err err = { 0 };

		keeper_config_init(&config);
		must_apply(&config, rows[i].text);
		assert_int_equal(keeper_config_check(&config, &err), -EINVAL);
		assert_string_equal(err.text, rows[i].expected);
		keeper_config_fini(&config);
	}
}

static void there_are_only_so_many(void **state)
{
	struct keeper_config config;
	struct err err = { 0 };
	char text[64];

	(void)state;
	keeper_config_init(&config);
	for (int i = 0; i < KEEPER_LIMITS_MAX; i++) {
		snprintf(text, sizeof(text), "account=a%d:spend=1", i);
		must_apply(&config, text);
		snprintf(text, sizeof(text), "host=h%d:bytes=1", i);
		must_apply(&config, text);
	}
	must_apply(&config, "account=a0:spend=2");
	must_apply(&config, "host=h255:bytes=2");
	assert_true(apply(&config, "account=one-more:spend=1", &err) < 0);
	assert_string_equal(err.text, "--limit: more than 256 accounts");
	assert_true(apply(&config, "host=one-more:bytes=1", &err) < 0);
	assert_string_equal(err.text, "--limit: more than 256 hosts");
	keeper_config_fini(&config);
}

static void a_reserve_is_not_nothing(void **state)
{
	struct keeper_config config;
	struct err err = { 0 };

	(void)state;
	keeper_config_init(&config);
	assert_int_equal(keeper_config_apply(&config, "spend-reserve", "0.25", &err), 0);
	assert_int_equal(config.spend_reserve, MONEY_UNIT / 4);
	assert_true(keeper_config_apply(&config, "spend-reserve", "0", &err) < 0);
	assert_string_equal(err.text, "--spend-reserve: '0' is too small");
	assert_true(keeper_config_apply(&config, "spend-reserve", "much", &err) < 0);
	assert_string_equal(err.text, "--spend-reserve: 'much' is not an amount such as 5 or 0.25");
	keeper_config_fini(&config);
}

int main(void)
{
	RUN_TESTS(TEST(every_name_is_read), TEST(later_names_count_over_earlier),
		  TEST(names_of_accounts_and_hosts), TEST(what_is_wrong_is_said),
		  TEST(a_burst_needs_a_rate), TEST(there_are_only_so_many),
		  TEST(a_reserve_is_not_nothing));
}
