/* SPDX-License-Identifier: MIT */
/* Which upstream a request is for, and which paths there are none for. */
#include "unit.h"

#include "keeper/route.h"

static struct keeper_config config;

static void configure(const char *const *words, int count)
{
	const char *argv[32] = { "keeper" };
	struct err err = { 0 };

	for (int i = 0; i < count; i++)
		argv[i + 1] = words[i];
	keeper_config_init(&config);
	if (keeper_config_parse(&config, count + 1, (char **)argv, &err) < 0)
		fail_msg("%s", err.text);
}

static void check(const char *path, const char *model, enum refusal refusal, const char *host,
		  const char *rest)
{
	struct bytes name = model ? bytes_of(model) : (struct bytes){ NULL, 0 };
	struct route route;
	enum refusal got = route_find(&config, bytes_of(path), name, &route);

	if (got != refusal)
		fail_msg("%s gave %s", path, refusal_code(got));
	if (got != REFUSAL_NONE)
		return;
	assert_int_equal(route.needs_model, host == NULL);
	if (!host)
		return;
	assert_string_equal(config.llms[route.llm].url.host, host);
	assert_int_equal(route.path.len, strlen(rest));
	assert_memory_equal(route.path.data, rest, strlen(rest));
}

static void one_upstream_has_its_provider_s_paths(void **state)
{
	static const char *const words[] = { "--llm", "http://one:4000" };
	static const char *const refused[] = {
		"/", "/v1", "/v2/x", "/V1/x", "/key/generate", "/v1x/y", "/openai/v1/x",
	};
	static const char *const ambiguous[] = {
		"/v1/../key",     "/v1/./x",      "/v1//x",      "//v1/x",
		"/v1/%2e%2e/key", "/v1/.%2E/key", "/v1/..;/key", "/v1/..;a=b/key",
		"/v1/x%2fy",      "/v1/x%5Cy",    "/v1/x\\y",    "/v1/%252e/x",
		"/v1/x/..",       "/v1/x/.",      "/v1/%00",     "/v1/;x",
	};

	(void)state;
	configure(words, ARRAY_LEN(words));
	check("/v1/chat/completions", "", REFUSAL_NONE, "one", "/v1/chat/completions");
	check("/v1/models/", "", REFUSAL_NONE, "one", "/v1/models/");
	check("/v1/x..y/...", NULL, REFUSAL_NONE, "one", "/v1/x..y/...");
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		check(refused[i], "", REFUSAL_NOT_FOUND, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(ambiguous); i++)
		check(ambiguous[i], "", REFUSAL_BAD_PATH, NULL, NULL);
	keeper_config_fini(&config);
}

static void prefixes_come_first_and_the_longest_counts(void **state)
{
	static const char *const words[] = {
		"--llm", "http://one",         "--llm", "/a=https://api.anthropic.com",
		"--llm", "/a/b/=http://three",
	};

	(void)state;
	configure(words, ARRAY_LEN(words));
	check("/v1/x", NULL, REFUSAL_NONE, "one", "/v1/x");
	check("/a/v1/messages", NULL, REFUSAL_NONE, "api.anthropic.com", "/v1/messages");
	check("/a/b/v1/x", NULL, REFUSAL_NONE, "three", "/v1/x");
	check("/a/key", NULL, REFUSAL_NOT_FOUND, NULL, NULL);
	check("/ab/v1/x", NULL, REFUSAL_NOT_FOUND, NULL, NULL);
	check("/a", NULL, REFUSAL_NOT_FOUND, NULL, NULL);
	keeper_config_fini(&config);
}

static void models_choose_and_the_longest_pattern_counts(void **state)
{
	static const char *const words[] = {
		"--llm", "claude-*=http://two", "--llm", "claude-3*=http://three",
		"--llm", "*-mini=http://four",  "--llm", "http://one",
	};

	(void)state;
	configure(words, ARRAY_LEN(words));
	check("/v1/x", NULL, REFUSAL_NONE, NULL, NULL);
	check("/v1/x", "claude-2", REFUSAL_NONE, "two", "/v1/x");
	check("/v1/x", "claude-3-opus", REFUSAL_NONE, "three", "/v1/x");
	check("/v1/x", "gpt-mini", REFUSAL_NONE, "four", "/v1/x");
	check("/v1/x", "gpt", REFUSAL_NONE, "one", "/v1/x");
	check("/v1/x", "", REFUSAL_NONE, "one", "/v1/x");
	keeper_config_fini(&config);
	configure(words, 2);
	check("/v1/x", "gpt", REFUSAL_MODEL_UNKNOWN, NULL, NULL);
	check("/v1/x", "claude-", REFUSAL_NONE, "two", "/v1/x");
	keeper_config_fini(&config);
}

static void providers_are_told_by_their_hosts(void **state)
{
	static const struct {
		const char *url, *provider;
	} rows[] = {
		{ "https://api.openai.com", "openai" },
		{ "https://API.OpenAI.com:443/", "openai" },
		{ "https://api.anthropic.com", "anthropic" },
		{ "https://generativelanguage.googleapis.com", "google" },
		{ "https://my.openai.azure.com", "azure" },
		{ "https://openai.azure.com.evil.com", "litellm" },
		{ "https://api.openai.com.evil.com", "litellm" },
		{ "http://[::1]:4000", "litellm" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const words[] = { "--llm", rows[i].url };

		configure(words, 2);
		assert_string_equal(config.llms[0].provider->name, rows[i].provider);
		keeper_config_fini(&config);
	}
}

int main(void)
{
	RUN_TESTS(TEST(one_upstream_has_its_provider_s_paths),
		  TEST(prefixes_come_first_and_the_longest_counts),
		  TEST(models_choose_and_the_longest_pattern_counts),
		  TEST(providers_are_told_by_their_hosts));
}
