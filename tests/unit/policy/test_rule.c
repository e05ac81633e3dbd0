/* SPDX-License-Identifier: MIT */
/* Rules: which one decides, and what is said when none does. */
#include "unit.h"

#include "policy/rule.h"

static struct policy policy;

/* Rules in one text, one a line; a deny has '-' in front. */
static void configure(const char *text)
{
	struct bytes rest = bytes_of(text), line;
	struct err err = { 0 };
	char copy[RULE_TEXT_MAX + 1];

	policy_fini(&policy);
	while (bytes_split(&rest, '\n', &line)) {
		bool is_allow = line.data[0] != '-';

		bytes_take(&line, !is_allow);
		snprintf(copy, sizeof(copy), "%.*s", (int)line.len, line.data);
		if (policy_add(&policy, copy, is_allow, &err) < 0)
			fail_msg("%s", err.text);
	}
}

static struct authority authority_of(const char *text, uint16_t port)
{
	struct authority authority;

	if (authority_parse(bytes_of(text), port, &authority) < 0)
		fail_msg("%s", text);
	return authority;
}

/* `request` is as "GET https://host/path"; `want` is a code, or the rule that allows. */
static void check(const char *request, const char *want)
{
	struct bytes rest = bytes_of(request), method, host;
	struct authority authority;
	struct verdict_info info;
	bool is_tls;

	bytes_split(&rest, ' ', &method);
	is_tls = bytes_has_prefix_nocase(rest, BYTES("https"));
	bytes_take(&rest, is_tls ? 8 : 7);
	bytes_split(&rest, '/', &host);
	rest.data--;
	rest.len++;
	assert_int_equal(authority_parse(host, is_tls ? 443 : 80, &authority), 0);
	policy_judge(&policy, &authority, is_tls, method, rest, &info);
	if (info.verdict == VERDICT_ALLOW)
		assert_null(info.refusal_code);
	if (info.verdict == VERDICT_NO_RULE)
		assert_null(info.rule);
	else
		assert_non_null(info.rule);
	if (strcmp(info.verdict == VERDICT_ALLOW ? info.rule : info.refusal_code, want) != 0)
		fail_msg("%s gave %s, not %s", request,
			 info.verdict == VERDICT_ALLOW ? info.rule : info.refusal_code, want);
}

static void an_empty_policy_allows_nothing(void **state)
{
	struct authority authority = authority_of("example.com", 443);
	uint16_t ports[POLICY_PORTS_MAX];

	(void)state;
	configure("");
	check("GET https://example.com/", "host_not_allowed");
	check("GET http://127.0.0.1/", "host_not_allowed");
	assert_false(policy_is_tunnel(&policy, &authority));
	assert_false(policy_knows_host(&policy, "example.com"));
	assert_int_equal(policy_ports(&policy, ports), 0);
	configure("-example.com\n");
	check("GET https://example.com/", "denied");
	check("GET https://other.com/", "host_not_allowed");
	assert_false(policy_knows_host(&policy, "example.com"));
}

static void refusals_say_how_far_a_request_came(void **state)
{
	(void)state;
	configure("a.com\n"
		  "GET,HEAD b.com/x/*\n"
		  "c.com:8443\n"
		  "*.d.com\n"
		  "[2606:4700::1111]:443\n");
	check("GET https://a.com/", "a.com");
	check("BREW http://a.com/%2f", "a.com");
	check("GET https://a.com:80/", "port_not_allowed");
	check("GET http://a.com:443/", "port_not_allowed");
	check("GET https://a.com:8443/", "port_not_allowed");
	check("GET https://www.a.com/", "host_not_allowed");
	check("GET https://a.com.evil.com/", "host_not_allowed");
	check("GET https://b.com/x/y?z=/../", "GET,HEAD b.com/x/*");
	check("HEAD https://b.com/x/y", "GET,HEAD b.com/x/*");
	check("POST https://b.com/x/y", "method_not_allowed");
	check("get https://b.com/x/y", "method_not_allowed");
	check("GETX https://b.com/x/y", "method_not_allowed");
	check("GET https://b.com/x/y/z", "path_not_allowed");
	check("GET https://b.com/x/%2e%2e", "path_not_allowed");
	check("GET https://b.com/x/y%2fz", "path_not_allowed");
	check("GET https://b.com:1/x/y", "port_not_allowed");
	check("GET https://c.com:8443/", "c.com:8443");
	check("GET http://c.com:8443/", "c.com:8443");
	check("GET https://c.com/", "port_not_allowed");
	check("GET https://d.com/", "*.d.com");
	check("GET https://x.y.d.com/", "*.d.com");
	check("GET https://xd.com/", "host_not_allowed");
	check("GET https://[2606:4700:0::1111]/", "[2606:4700::1111]:443");
}

static void the_most_specific_rule_decides(void **state)
{
	(void)state;
	configure("*.com\n-*.b.com\n*.a.b.com\n-x.a.b.com\n");
	check("GET https://x.com/", "*.com");
	check("GET https://b.com/", "denied");
	check("GET https://y.b.com/", "denied");
	check("GET https://y.a.b.com/", "*.a.b.com");
	check("GET https://x.a.b.com/", "denied");
	check("GET https://z.x.a.b.com/", "*.a.b.com");

	configure("-*.com:443\nx.com\n");
	check("GET https://x.com/", "x.com");
	configure("-x.com\nx.com:8443\n");
	check("GET https://x.com/", "denied");
	check("GET https://x.com:9/", "denied");
	check("GET https://x.com:8443/", "x.com:8443");
	configure("x.com:443\n-POST x.com/a\n");
	check("POST https://x.com/a", "x.com:443");
	configure("GET x.com\n-x.com/a/b\nx.com\n");
	check("GET https://x.com/a/b", "GET x.com");
	check("POST https://x.com/a/b", "denied");
	check("POST https://x.com/a", "x.com");
	configure("x.com/a/**\n-x.com/a/b/**\nx.com/a/b/c/**\n");
	check("GET https://x.com/a/1", "x.com/a/**");
	check("GET https://x.com/a/b/1", "denied");
	check("GET https://x.com/a/b/c/1", "x.com/a/b/c/**");
	configure("x.com/**/a/b/c/d\n-x.com/x**\n");
	check("GET https://x.com/x/a/b/c/d", "denied"); /* more of it stands before a star */
	check("GET https://x.com/y/a/b/c/d", "x.com/**/a/b/c/d");
}

static void denies_win_among_equals(void **state)
{
	static const char *const orders[] = {
		"x.com\n-x.com\n",
		"-x.com\nx.com\n",
		"x.com/a/*\n-x.com/a/*\n",
		"-x.com/a/**\nx.com/a/*\n",
		"GET x.com/a/**\n-GET,POST x.com/a/**\n",
		"x.com:443\n-x.com:443\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		configure(orders[i]);
		check("GET https://x.com/a/b", "denied");
	}
	configure("*.x.com/a\n*.x.com/a\n");
	check("GET https://x.com/a", "*.x.com/a");
}

static void a_deny_is_not_got_round(void **state)
{
	static const char *const paths[] = {
		"/gists",     "/gists/",    "/GISTS",    "/%67ists",  "/%47IST%53/",
		"/gists;x=1", "/gists?x=y", "/gists;/?", "/gist%73;",
	};
	static const char *const others[] = {
		"//gists", "/./gists", "/x/../gists", "/x%2f..%2fgists", "/gists%00", "/%", "/a%0d",
	};
	char request[128];

	(void)state;
	configure("api.github.com\n-POST api.github.com/gists\n");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		snprintf(request, sizeof(request), "POST https://api.github.com%s", paths[i]);
		check(request, "denied");
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		snprintf(request, sizeof(request), "POST https://api.github.com%s", others[i]);
		check(request, "path_not_allowed");
		snprintf(request, sizeof(request), "GET https://api.github.com%s", others[i]);
		check(request, "api.github.com");
	}
	check("POST https://api.github.com/gist", "api.github.com");
	check("POST https://api.github.com/gists/1", "api.github.com");
	/* A deny has every port, unlike an allow. */
	configure("*.x.com:8443\n-y.x.com\n");
	check("GET https://z.x.com:8443/", "*.x.com:8443");
	check("GET https://y.x.com:8443/", "denied");
}

static void every_path_also_means_those_that_are_not_plain(void **state)
{
	(void)state;
	configure("GET registry.npmjs.org/**\nx.com/a\n");
	check("GET https://registry.npmjs.org/@scope%2fname", "GET registry.npmjs.org/**");
	check("GET https://registry.npmjs.org/", "GET registry.npmjs.org/**");
	check("PUT https://registry.npmjs.org/x", "method_not_allowed");
}

static void tunnels_are_apart_from_requests(void **state)
{
	static const struct {
		const char *rules, *authority;
		bool is_tunnel, is_known;
	} rows[] = {
		{ "tcp://db.internal:5432\n", "db.internal:5432", true, true },
		{ "TCP://DB.internal.:5432\n", "db.internal:5432", true, true },
		{ "tcp://db.internal:5432\n", "db.internal:5433", false, true },
		{ "tcp://db.internal:5432\n", "x.db.internal:5432", false, false },
		{ "tcp://*.internal:5432\n", "db.internal:5432", true, true },
		{ "db.internal:5432\n", "db.internal:5432", false, true },
		{ "tcp://*.internal:5432\n-db.internal\n", "db.internal:5432", false, false },
		{ "tcp://*.internal:5432\n-GET db.internal\n", "db.internal:5432", true, true },
		{ "tcp://*.internal:5432\n-tcp://db.internal:5432\n", "db.internal:5432", false,
		  true },
		{ "tcp://db.internal:5432\n-tcp://db.internal:5432\n", "db.internal:5432", false,
		  true },
		{ "tcp://db.internal:5432\n-db.internal:5432\n", "db.internal:5432", false, true },
		{ "tcp://db.internal:5432\n-*.internal\n", "db.internal:5432", true, true },
		{ "tcp://db.internal:5432\n-db.internal\n", "db.internal:5432", true, true },
		{ "tcp://[fd00::1]:22\n", "[fd00:0::1]:22", true, true },
		{ "*.internal\n-*.internal\n", "db.internal:443", false, false },
		{ "*.internal\n-*.internal/x\n", "db.internal:443", false, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct authority authority = authority_of(rows[i].authority, 0);

		configure(rows[i].rules);
		if (policy_is_tunnel(&policy, &authority) != rows[i].is_tunnel)
			fail_msg("%s: tunnel to %s", rows[i].rules, rows[i].authority);
		if (policy_knows_host(&policy, authority.host) != rows[i].is_known)
			fail_msg("%s: name %s", rows[i].rules, rows[i].authority);
	}
	configure("tcp://x.com:443\n");
	check("GET https://x.com/", "host_not_allowed");
	configure("x.com:443\n-tcp://x.com:443\n");
	check("GET https://x.com/", "denied");
}

static void ports_are_listed_once(void **state)
{
	uint16_t ports[POLICY_PORTS_MAX];
	char text[64];
	struct err err;

	(void)state;
	configure("a.com\nb.com:8443\nc.com\ntcp://d:22\n-e.com:99\nf.com:443\n");
	assert_int_equal(policy_ports(&policy, ports), 4);
	assert_int_equal(ports[0], 443);
	assert_int_equal(ports[1], 80);
	assert_int_equal(ports[2], 8443);
	assert_int_equal(ports[3], 22);
	configure("a.com\n");
	for (int i = 1; i < POLICY_RULES_MAX; i++) {
		snprintf(text, sizeof(text), "a.com:%d", 1000 + i);
		assert_int_equal(policy_add(&policy, text, true, &err), 0);
	}
	assert_int_equal(policy_ports(&policy, ports), POLICY_PORTS_MAX);
	assert_int_equal(policy_add(&policy, "b.com", true, &err), -E2BIG);
	assert_string_equal(err.text, "more than 1024 rules");
	check("GET https://a.com:1500/", "a.com:1500");
}

static void bad_rules_are_explained(void **state)
{
	static const struct {
		const char *text, *why; /* a part of it */
	} rows[] = {
		{ "", "empty" },
		{ " ", "methods" },
		{ "GET ", "empty" },
		{ "get a.com", "capitals" },
		{ "GET, POST a.com", "commas" },
		{ ",GET a.com", "commas" },
		{ "GET POST a.com", "space" },
		{ "a.com /x", "methods" },
		{ "GET a.com x", "space" },
		{ "A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q a.com", "too many methods" },
		{ "*", "only as" },
		{ "*:443", "only as" },
		{ "GET */x", "only as" },
		{ "a.*.com", "only as" },
		{ "a.com:0", "port" },
		{ "a.com:", "port" },
		{ "a.com:https", "port" },
		{ "127.1", "four decimal numbers" },
		{ "https://a.com/", "leave the scheme away" },
		{ "GET HTTP://a.com", "leave the scheme away" },
		{ "udp://a.com:53", "only scheme" },
		{ "tcp://a.com", "needs a port" },
		{ "tcp://a.com:1/", "no path" },
		{ "GET tcp://a.com:1", "no methods" },
		{ "/x", "empty" },
		{ "a.com/x?y", "query" },
		{ "a.com/../x", "dot" },
		{ "a.com//x", "empty segments" },
		{ "a.com/%zz", "escape" },
		{ "a.com\n", "control" },
		{ "a\tb", "control" },
		{ "b\xc3\xbc.de", "xn--" },
		{ "::1", "empty" },
	};
	static const char *const secrets[] = {
		"u:secret@a.com",     "https://u:secret@a.com/", "tcp://secret@a.com:1",
		"GET secret@a.com/x", "u:secret@a.com/x://y",
	};
	char text[RULE_TEXT_MAX + 2];
	struct err err;

	(void)state;
	configure("x.com\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		err = (struct err){ 0 };
		if (policy_add(&policy, rows[i].text, true, &err) != -EINVAL ||
		    !strstr(err.text, rows[i].why))
			fail_msg("'%s' gave '%s'", rows[i].text, err.text);
	}
	for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
		assert_int_equal(policy_add(&policy, secrets[i], true, &err), -EINVAL);
		assert_null(strstr(err.text, "secret"));
	}
	assert_int_equal(policy_add(&policy, "a.com/x;y", false, &err), -EINVAL);
	memset(text, 'a', sizeof(text));
	memcpy(text, "a.com/", 6);
	text[RULE_TEXT_MAX + 1] = '\0';
	assert_int_equal(policy_add(&policy, text, true, &err), -EINVAL);
	text[RULE_TEXT_MAX] = '\0';
	assert_int_equal(policy_add(&policy, text, true, &err), 0);
	assert_int_equal(policy.count, 2);
	check("GET https://x.com/", "x.com");
}

static int drop(void **state)
{
	(void)state;
	policy_fini(&policy);
	return 0;
}

static void rules_are_described(void **state)
{
	static const struct {
		const char *rule;
		bool is_allow;
		const char *expected;
	} rows[] = {
		{ "a.test", true, "any request to a.test, port 443 with TLS or 80 without" },
		{ "a.test", false, "any request to a.test, any port" },
		{ "GET *.a.test:8443/x/*", true,
		  "GET to a.test and every name below it, port 8443, path /x/*" },
		{ "GET,PUT,POST a.test/**", true,
		  "GET, PUT or POST to a.test, port 443 with TLS or 80 without" },
		{ "tcp://a.test:5432", true,
		  "any connection to a.test, port 5432; nobody looks into it, and no secret goes "
		  "there" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct policy two = { 0 };
		struct err err;
		struct buf text;

		buf_init(&text, 4096);
		assert_int_equal(policy_add(&two, rows[i].rule, rows[i].is_allow, &err), 0);
		policy_describe(&two, 0, &text);
		assert_string_equal(text.data, rows[i].expected);
		buf_fini(&text);
		policy_fini(&two);
	}
}

static void conflicts_are_found(void **state)
{
	static const struct {
		const char *allow, *deny;
		enum conflict expected;
	} rows[] = {
		{ "a.test", "b.test", CONFLICT_NONE },
		{ "a.test", "POST a.test/x", CONFLICT_NONE },
		{ "a.test:443", "POST a.test/x", CONFLICT_HOLE },
		{ "a.test:443", "POST a.test:443/x", CONFLICT_NONE },
		{ "a.test:8443", "POST a.test:443/x", CONFLICT_NONE },
		{ "a.test", "POST *.test/x", CONFLICT_HOLE },
		{ "a.test", "*.test:443", CONFLICT_HOLE },
		{ "a.test", "*.test:22", CONFLICT_NONE },
		{ "a.test", "*.test", CONFLICT_EXCEPTION },
		{ "*.a.test", "*.test", CONFLICT_EXCEPTION },
		{ "*.test", "*.a.test", CONFLICT_NONE },
		{ "a.test", "a.test", CONFLICT_MOOT },
		{ "*.a.test", "*.a.test", CONFLICT_MOOT },
		{ "GET a.test", "a.test", CONFLICT_EXCEPTION },
		{ "GET a.test", "POST *.test", CONFLICT_NONE },
		{ "GET,POST a.test", "POST *.test", CONFLICT_HOLE },
		{ "POST a.test", "PUT,POST *.test", CONFLICT_EXCEPTION },
		{ "GET a.test/x/**", "a.test/X/y", CONFLICT_HOLE },
		{ "GET a.test/x/**", "a.test/z", CONFLICT_NONE },
		{ "tcp://a.test:1", "*.test", CONFLICT_EXCEPTION },
		{ "tcp://a.test:1", "a.test", CONFLICT_EXCEPTION },
		{ "tcp://a.test:1", "a.test:1", CONFLICT_MOOT },
		{ "tcp://a.test:1", "POST a.test:1", CONFLICT_NONE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct policy two = { 0 };
		struct err err;

		assert_int_equal(policy_add(&two, rows[i].allow, true, &err), 0);
		assert_int_equal(policy_add(&two, rows[i].deny, false, &err), 0);
		if (policy_conflict(&two, 0, 1) != rows[i].expected)
			fail_msg("%s, %s: %d", rows[i].allow, rows[i].deny,
				 policy_conflict(&two, 0, 1));
		policy_fini(&two);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_empty_policy_allows_nothing),
		TEST(refusals_say_how_far_a_request_came),
		TEST(the_most_specific_rule_decides),
		TEST(denies_win_among_equals),
		TEST(a_deny_is_not_got_round),
		TEST(every_path_also_means_those_that_are_not_plain),
		TEST(tunnels_are_apart_from_requests),
		TEST(ports_are_listed_once),
		TEST(bad_rules_are_explained),
		TEST(rules_are_described),
		TEST(conflicts_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, drop);
}
