/* SPDX-License-Identifier: MIT */
/* The command line: what is read, and what is said about what cannot be. */
#include "unit.h"

#include "config/settings.h"

#define WORDS_MAX 10

struct bad_row {
	const char *words[WORDS_MAX];
	const char *expected; /* how the error begins */
};

static int parse(const char *const *words, struct run_config *config, struct err *err)
{
	int argc = 1;
	static const char *argv[WORDS_MAX + 2] = { "run" }; /* lives as long as a config */

	while (words[argc - 1]) {
		argv[argc] = words[argc - 1];
		argc++;
	}
	argv[argc] = NULL;
	return run_config_parse(config, argc, (char **)argv, err);
}

static void bad_lines_are_explained(void **state)
{
	static const struct bad_row rows[] = {
		{ { NULL }, "no command" },
		{ { "--", NULL }, "no command" },
		{ { "--timeout", NULL }, "--timeout needs an argument: TIME" },
		{ { "--timeout", "soon", "true", NULL }, "--timeout: 'soon' is not a time" },
		{ { "--timeout=0", "true", NULL }, "--timeout: '0' is too small" },
		{ { "--memory", "1K", "true", NULL }, "--memory: '1K' is too small" },
		{ { "--memory", "9999999T", "true", NULL }, "--memory: '9999999T' is too large" },
		{ { "--pids", "-5", "true", NULL }, "--pids: '-5' is not a whole number" },
		{ { "--cpu", "x", "true", NULL }, "--cpu: 'x' is not a number" },
		{ { "--json=1", "true", NULL }, "--json takes no argument" },
		{ { "--jsno", "true", NULL }, "unknown option '--jsno'; did you mean --json?" },
		{ { "-Z", "true", NULL }, "unknown option '-Z'" },
		{ { "--run-id", "a/b", "true", NULL }, "--run-id: 'a/b' is not an id" },
		{ { "--cgroup", "v3", "true", NULL }, "--cgroup: 'v3' is not one of auto|v2" },
		{ { "--cgroup", "aut", "true", NULL }, "--cgroup: 'aut' is not one of" },
		{ { "--env", "1A=x", "true", NULL }, "--env: '1A' is not a variable's name" },
		{ { "--env", "=x", "true", NULL }, "--env: '' is not a variable's name" },
		{ { "--env", "RUN_ID=x", "true", NULL }, "--env: RUN_ID is set by warder" },
		{ { "--ro", ":/x", "true", NULL }, "--ro: ':/x' is not PATH[:DEST]" },
		{ { "--rw", "/x:", "true", NULL }, "--rw: '/x:' is not PATH[:DEST]" },
		{ { "--tmpfs", "/x:big", "true", NULL }, "--tmpfs: 'big' is not a size" },
		{ { "--workspace", "", "true", NULL }, "--workspace: is empty" },
		{ { "--keeper", "/run/k", "true", NULL },
		  "--keeper: '/run/k' is not unix:PATH|tls:HOST:PORT" },
		{ { "--keeper=unix:", "true", NULL }, "--keeper: 'unix:' is not" },
		{ { "--keeper=tls:h", "true", NULL }, "--keeper: 'tls:h' is not" },
		{ { "--keeper=tls:h:1", "true", NULL },
		  "--keeper: a keeper on another machine needs --keeper-token" },
		{ { "--keeper=tls:h:1", "--keeper-token=LIVE", "true", NULL },
		  "--keeper-token: a secret comes from env:NAME, file:PATH or exec:COMMAND; what "
		  "was given is not shown" },
		{ { "--keeper=tls:h:1", "--keeper-token=config:A", "true", NULL },
		  "--keeper-token: a secret comes from" },
		{ { "--keeper=unix:/k", "--keeper-token=env:T", "true", NULL },
		  "--keeper-token: is for a keeper on another machine; this one knows who asks" },
		{ { "--keeper=unix:/k", "--keeper-ca=c", "true", NULL },
		  "--keeper-ca: is for a keeper on another machine; this one knows who asks" },
		{ { "--keeper-token=env:T", "true", NULL },
		  "--keeper-token: belongs to --keeper tls:HOST:PORT" },
		{ { "--keeper-ca=c", "true", NULL }, "--keeper-ca: belongs to --keeper" },
		{ { "--llm=http://l", "--keeper=unix:/k", "true", NULL },
		  "--llm: the keeper decides; leave it to its configuration" },
		{ { "--keeper=unix:/k", "--metadata=a=b", "--limit=run:spend=1", "true", NULL },
		  "--limit: the keeper decides; leave it to its configuration" },
		{ { "--keeper=unix:/k", "--config=w.json", "true", NULL },
		  "--config: needs a keeper of the run's own; leave it or --keeper away" },
		{ { "--keeper=unix:/k", "--learn=d.json", "true", NULL },
		  "--learn: needs a keeper of the run's own; leave it or --keeper away" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct run_config config;
		struct err err = { 0 };

		assert_true(parse(rows[i].words, &config, &err) < 0);
		if (strncmp(err.text, rows[i].expected, strlen(rows[i].expected)) != 0)
			fail_msg("'%s' is not '%s'", err.text, rows[i].expected);
		run_config_fini(&config);
	}
}

static void values_arrive(void **state)
{
	const char *words[] = { "-t10s", "--memory=64M", "-e", "A=b", "--ro",
				"/a:/b", "--",           "-x", NULL };
	struct run_config config;
	struct err err;

	(void)state;
	assert_int_equal(parse(words, &config, &err), 0);
	assert_int_equal(config.timeout_ms, 10000);
	assert_int_equal(config.memory_bytes, 64 << 20);
	assert_string_equal(config.env[0], "A=b");
	assert_null(config.env[1]);
	assert_int_equal(config.mount_count, 1);
	assert_string_equal(config.mounts[0].source, "/a");
	assert_string_equal(config.mounts[0].dest, "/b");
	assert_string_equal(config.argv[0], "-x");
	assert_string_equal(config.cgroup, "auto");
	run_config_fini(&config);
}

/* A caller that wants JSON gets it also when another option is wrong. */
static void the_rest_of_a_bad_line_is_read(void **state)
{
	const char *words[] = { "--bad", "--timeout", "x", "--json", "true", NULL };
	struct run_config config;
	struct err err;

	(void)state;
	assert_true(parse(words, &config, &err) < 0);
	assert_true(config.json);
	assert_non_null(strstr(err.text, "--bad"));
	run_config_fini(&config);
}

static void a_shared_keeper_is_named(void **state)
{
	const char *near[] = { "--keeper=unix:/k",
			       "--billing-account=t",
			       "--metadata=a=b",
			       "--llm-port=81",
			       "true",
			       NULL };
	const char *far[] = { "--keeper=tls:[::1]:7443", "--keeper-token=file:/t", "--keeper-ca=c",
			      "true", NULL };
	struct bytes words = BYTES("--llm\0http://l:4000\0--allow-net\0a.test\0");
	struct run_config config;
	struct err err;

	(void)state;
	assert_int_equal(parse(near, &config, &err), 0);
	assert_true(run_config_has_gateway(&config));
	assert_false(run_config_has_egress(&config));
	assert_string_equal(config.keeper_address, "unix:/k");
	assert_string_equal(config.keeper.billing_account, "t");
	/* What it tells of itself is no option of the caller. */
	assert_int_equal(run_config_add_words(&config, words, &err), 0);
	assert_true(run_config_has_egress(&config));
	assert_int_equal(config.keeper.llm_count, 1);
	run_config_fini(&config);
	assert_int_equal(parse(far, &config, &err), 0);
	assert_string_equal(config.keeper_address, "tls:[::1]:7443");
	assert_string_equal(config.keeper_token, "file:/t");
	assert_string_equal(config.keeper_ca, "c");
	run_config_fini(&config);
}

static void check_mapping(const struct keeper_mapping *mapping, uint16_t port)
{
	assert_string_equal(mapping->host, "litellm");
	assert_int_equal(mapping->host_port, port);
	assert_string_equal(mapping->address, "10.0.0.5");
	assert_int_equal(mapping->address_port, 4000);
}

/* A name that is allowed, and where it is. */
static void a_service_is_rules_and_mappings(void **state)
{
	const char *words[] = { "--service", "LiteLLM=10.0.0.5:4000", "true", NULL };
	struct run_config config;
	struct err err;

	(void)state;
	assert_int_equal(parse(words, &config, &err), 0);
	assert_true(run_config_has_egress(&config));
	assert_int_equal(config.keeper.rule_count, 2);
	assert_string_equal(config.keeper.rules[0].text, "litellm");
	assert_string_equal(config.keeper.rules[1].text, "litellm:4000");
	assert_true(config.keeper.rules[0].is_allow && config.keeper.rules[1].is_allow);
	assert_int_equal(config.keeper.mapping_count, 3);
	check_mapping(&config.keeper.mappings[0], 80);
	check_mapping(&config.keeper.mappings[1], 443);
	check_mapping(&config.keeper.mappings[2], 4000);
	run_config_fini(&config);
}

static void what_belongs_to_a_secret_names_it(void **state)
{
	const char *words[] = { "--secret",
				"A=env:X@a.test",
				"--secret-cleartext",
				"A",
				"--secret-ip-literals=A",
				"--secret-placeholder",
				"A=abc-<random>",
				"--secret-in=A=body,path",
				"true",
				NULL };
	const struct keeper_secret *secret;
	struct run_config config;
	struct err err;

	(void)state;
	assert_int_equal(parse(words, &config, &err), 0);
	secret = &config.keeper.secrets[0];
	assert_true(secret->may_be_cleartext && secret->may_have_addresses);
	assert_string_equal(secret->placeholder, "abc-<random>");
	assert_int_equal(secret->places, KEEPER_BODY | KEEPER_PATH);
	run_config_fini(&config);
}

/* What decides about a placeholder is whether it can be told from all others. */
static void placeholders_must_differ(void **state)
{
	static const struct {
		const char *first, *second;
		bool is_good;
	} rows[] = {
		{ "A=abcdefgh", "B=abcdefgi", true },
		{ "A=abcdefgh", "B=abcdefgh", false },
		{ "A=abcdefgh", "B=xabcdefgh", false },
		{ "A=xabcdefgh", "B=abcdefgh", false },
		{ "A=<random>", "B=<random>", true },
		{ "A=abcdefgh", "B=abcdefgh<random>", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *words[] = { "--secret=A=env:X@a.test",
					"--secret=B=env:Y@b.test",
					"--secret-placeholder",
					rows[i].first,
					"--secret-placeholder",
					rows[i].second,
					"true",
					NULL };
		struct run_config config;
		struct err err;

		assert_int_equal(parse(words, &config, &err), 0);
		if ((keeper_config_check(&config.keeper, &err) == 0) != rows[i].is_good)
			fail_msg("%s and %s", rows[i].first, rows[i].second);
		run_config_fini(&config);
	}
}

int main(void)
{
	RUN_TESTS(TEST(bad_lines_are_explained), TEST(values_arrive),
		  TEST(the_rest_of_a_bad_line_is_read), TEST(a_service_is_rules_and_mappings),
		  TEST(a_shared_keeper_is_named), TEST(what_belongs_to_a_secret_names_it),
		  TEST(placeholders_must_differ));
}
