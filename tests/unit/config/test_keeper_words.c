/* SPDX-License-Identifier: MIT */
/* What a run is told of a shared keeper's configuration, and what it is not. */
#include "unit.h"

#include <stdio.h>

#include "config/keeper_words.h"
#include "config/settings.h"

static void parse(struct keeper_config *config, const char *const *words, size_t count)
{
	const char *argv[4096] = { "keeper" };
	struct err err = { 0 };

	assert_true(count + 2 < ARRAY_LEN(argv));
	for (size_t i = 0; i < count; i++)
		argv[i + 1] = words[i];
	keeper_config_init(config);
	if (keeper_config_parse(config, (int)count + 1, (char **)argv, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(keeper_config_check(config, &err), 0);
}

static void check_text(const char *a, const char *b)
{
	assert_int_equal(a == NULL, b == NULL);
	if (a)
		assert_string_equal(a, b);
}

static void check_llm(const struct keeper_llm *a, const struct keeper_llm *b)
{
	check_text(a->prefix, b->prefix);
	check_text(a->model, b->model);
	assert_int_equal(a->url.is_tls, b->url.is_tls);
	assert_string_equal(a->url.host, b->url.host);
	assert_int_equal(a->url.port, b->url.port);
	assert_string_equal(a->url.authority, b->url.authority);
	assert_string_equal(a->url.base, b->url.base);
	assert_ptr_equal(a->provider, b->provider);
	assert_null(b->key);
}

static void check_secret(const struct keeper_secret *a, const struct keeper_secret *b)
{
	char source[300];

	assert_string_equal(a->name, b->name);
	snprintf(source, sizeof(source), "config:%s", a->name);
	assert_string_equal(b->source, source);
	assert_int_equal(a->host_count, b->host_count);
	for (size_t i = 0; i < a->host_count; i++)
		assert_string_equal(a->hosts[i], b->hosts[i]);
	assert_int_equal(a->may_be_cleartext, b->may_be_cleartext);
	assert_int_equal(a->may_have_addresses, b->may_have_addresses);
}

static void check_same(const struct keeper_config *a, const struct keeper_config *b)
{
	assert_int_equal(a->llm_count, b->llm_count);
	for (size_t i = 0; i < a->llm_count; i++)
		check_llm(&a->llms[i], &b->llms[i]);
	assert_int_equal(a->rule_count, b->rule_count);
	for (size_t i = 0; i < a->rule_count; i++) {
		assert_string_equal(a->rules[i].text, b->rules[i].text);
		assert_int_equal(a->rules[i].is_allow, b->rules[i].is_allow);
	}
	assert_int_equal(a->secret_count, b->secret_count);
	for (size_t i = 0; i < a->secret_count; i++)
		check_secret(&a->secrets[i], &b->secrets[i]);
	assert_string_equal(a->dns, b->dns);
	assert_int_equal(a->connections, b->connections);
}

static const char *const everything[] = {
	"--llm",
	"http://litellm:4000",
	"--llm-key",
	"env:LIVE",
	"--llm",
	"/claude/=https://api.anthropic.com/base/",
	"--llm-key",
	"exec:echo LIVE",
	"--llm",
	"gpt-*=https://[2001:db8::1]:8443",
	"--llm-provider",
	"openai",
	"--allow-net",
	"GET,HEAD a.test/x?/**",
	"--deny-net",
	"--odd",
	"--allow-net",
	"tcp://db.test:5432",
	"--service",
	"search=10.0.0.7:9200",
	"--secret",
	"A=file:/LIVE@h.test,*.i.test:8443",
	"--secret-inject",
	"A=X-LIVE: {value}",
	"--secret",
	"B_2=env:LIVE@10.0.0.1",
	"--secret-cleartext",
	"B_2",
	"--secret-ip-literals",
	"B_2",
	"--secret-in",
	"B_2=body",
	"--secret",
	"C=config:C@c.test",
	"--connect-to",
	"h.test:443=10.9.9.9:1",
	"--upstream-ca",
	"/LIVE",
	"--audit",
	"/LIVE",
	"--billing-account",
	"LIVE",
	"--metadata",
	"a=LIVE",
	"--limit",
	"account=LIVE:spend=1",
	"--dns",
	"deny",
	"--connections",
	"77",
};

static void the_words_mean_the_same(void **state)
{
	struct keeper_config config, again;
	struct arena arena = { NULL };
	const char **words;
	size_t count;

	(void)state;
	parse(&config, everything, ARRAY_LEN(everything));
	keeper_config_words(&config, &arena, &words, &count);
	assert_null(words[count]);
	parse(&again, words, count);
	check_same(&config, &again);
	keeper_config_fini(&config);
	keeper_config_fini(&again);
	arena_fini(&arena);
}

/* Neither where secrets come from, nor where things are, nor whose limits there are. */
static void nothing_else_is_told(void **state)
{
	struct keeper_config config;
	struct arena arena = { NULL };
	const char **words;
	size_t count;

	(void)state;
	parse(&config, everything, ARRAY_LEN(everything));
	keeper_config_words(&config, &arena, &words, &count);
	keeper_config_fini(&config);
	assert_true(count > 20);
	for (size_t i = 0; i < count; i++)
		if (strstr(words[i], "LIVE") || strstr(words[i], "10.9.9.9") ||
		    strstr(words[i], "10.0.0.7"))
			fail_msg("%s", words[i]);
	arena_fini(&arena);
}

/* As a run reads them; and the largest configuration there is fits. */
static void a_run_reads_them(void **state)
{
	static const char *const base[] = { "--llm", "http://litellm:4000", "--secret",
					    "A=env:A@h.test" };
	static const char *const argv[] = { "run", "--keeper=unix:/k", "--", "true", NULL };
	static char text[256 * 1024];
	struct keeper_config config;
	struct run_config run;
	struct arena arena = { NULL };
	struct err err = { 0 };
	const char **words;
	size_t count, len = 0;

	(void)state;
	parse(&config, base, ARRAY_LEN(base));
	while (config.rule_count < KEEPER_RULES_MAX)
		assert_int_equal(keeper_config_apply(&config, "allow-net", "a.test", &err), 0);
	keeper_config_words(&config, &arena, &words, &count);
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s", words[i]) + 1;
	assert_int_equal(run_config_parse(&run, 4, (char **)argv, &err), 0);
	if (run_config_parse_again(&run, (struct bytes){ text, len }, 4, (char **)argv, &err) < 0)
		fail_msg("%s", err.text);
	check_same(&config, &run.keeper);
	assert_true(run_config_has_egress(&run));
	run_config_fini(&run);
	keeper_config_fini(&config);
	arena_fini(&arena);
}

static void an_empty_one_is_told_as_well(void **state)
{
	struct keeper_config config;
	struct arena arena = { NULL };
	const char **words;
	size_t count;

	(void)state;
	keeper_config_init(&config);
	keeper_config_words(&config, &arena, &words, &count);
	assert_int_equal(count, 4);
	assert_string_equal(words[0], "--dns");
	assert_string_equal(words[1], "explain");
	keeper_config_fini(&config);
	arena_fini(&arena);
}

int main(void)
{
	RUN_TESTS(TEST(the_words_mean_the_same), TEST(nothing_else_is_told), TEST(a_run_reads_them),
		  TEST(an_empty_one_is_told_as_well));
}
