/* SPDX-License-Identifier: MIT */
/* The table of providers. */
#include "config/provider.h"

#include <string.h>

#include "base/attr.h"

/* What a client that insists on a key is given; nothing reads it. */
#define NO_KEY "sk-warder-has-the-key"

#define OPENAI_VARIABLES                                                                           \
	{ "OPENAI_BASE_URL", "/v1" }, { "OPENAI_API_BASE", "/v1" },                                \
	{                                                                                          \
		"OPENAI_API_KEY", NO_KEY                                                           \
	}
#define ANTHROPIC_VARIABLES                                                                        \
	{ "ANTHROPIC_BASE_URL", "/" },                                                             \
	{                                                                                          \
		"ANTHROPIC_API_KEY", NO_KEY                                                        \
	}

static const struct provider providers[] = {
	{
		.name = "litellm",
		.key_header = "authorization",
		.key_prefix = "Bearer ",
		.paths = { "/v1/" },
		.is_litellm = true,
		.variables = { OPENAI_VARIABLES, ANTHROPIC_VARIABLES },
	},
	{
		.name = "openai",
		.host = "api.openai.com",
		.key_header = "authorization",
		.key_prefix = "Bearer ",
		.paths = { "/v1/" },
		.variables = { OPENAI_VARIABLES },
	},
	{
		.name = "anthropic",
		.host = "api.anthropic.com",
		.key_header = "x-api-key",
		.key_prefix = "",
		.paths = { "/v1/" },
		.variables = { ANTHROPIC_VARIABLES },
	},
	{
		.name = "google",
		.host = "generativelanguage.googleapis.com",
		.key_header = "x-goog-api-key",
		.key_prefix = "",
		.key_parameters = { "key", "access_token" },
		.paths = { "/v1/", "/v1beta/", "/upload/v1beta/" },
		.variables = { { "GOOGLE_GEMINI_BASE_URL", "/" },
			       { "GEMINI_API_KEY", NO_KEY },
			       { "GOOGLE_API_KEY", NO_KEY } },
	},
	{
		.name = "azure",
		.host = "*.openai.azure.com",
		.key_header = "api-key",
		.key_prefix = "",
		.paths = { "/openai/" },
		.variables = { { "AZURE_OPENAI_ENDPOINT", "/" },
			       { "AZURE_OPENAI_API_KEY", NO_KEY },
			       { "OPENAI_API_TYPE", "azure" } },
	},
};

const struct provider *provider_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(providers); i++)
		if (strcmp(providers[i].name, name) == 0)
			return &providers[i];
	return NULL;
}

static bool is_host(const char *pattern, const char *host)
{
	size_t len = strlen(host), suffix_len;

	if (!pattern)
		return false;
	if (pattern[0] != '*')
		return strcmp(pattern, host) == 0;
	suffix_len = strlen(pattern + 1);
	return len > suffix_len && strcmp(host + len - suffix_len, pattern + 1) == 0;
}

const struct provider *provider_of_host(const char *host)
{
	for (size_t i = 0; i < ARRAY_LEN(providers); i++)
		if (is_host(providers[i].host, host))
			return &providers[i];
	return &providers[0];
}
