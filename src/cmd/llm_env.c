/* SPDX-License-Identifier: MIT */
/* Variables per provider. */
#include "cmd/llm_env.h"

#include <string.h>

static const char *format(struct run_config *config, const struct keeper_llm *llm,
			  const struct provider_variable *variable)
{
	if (variable->value[0] != '/')
		return arena_printf(&config->arena, "%s=%s", variable->name, variable->value);
	return arena_printf(&config->arena, "%s=http://127.0.0.1:%u%s%s", variable->name,
			    (unsigned int)config->llm_port, llm->prefix ? llm->prefix : "",
			    variable->value[1] ? variable->value : "");
}

static size_t add(struct run_config *config, bool has_prefix, const char **env, size_t count)
{
	for (size_t i = 0; i < config->keeper.llm_count; i++) {
		const struct keeper_llm *llm = &config->keeper.llms[i];

		for (size_t j = 0; !llm->prefix == !has_prefix && j < PROVIDER_VARIABLES_MAX; j++)
			if (llm->provider->variables[j].name)
				env[count++] = format(config, llm, &llm->provider->variables[j]);
	}
	return count;
}

const char *const *llm_env(struct run_config *config)
{
	size_t most = config->keeper.llm_count * PROVIDER_VARIABLES_MAX + config->env_count + 1;
	const char **env = arena_alloc(&config->arena, most * sizeof(*env));
	/* Whoever has a prefix of its own is meant for its own clients. */
	size_t count = add(config, true, env, add(config, false, env, 0));

	for (size_t i = 0; i < config->env_count; i++)
		env[count++] = config->env[i];
	env[count] = NULL;
	return env;
}
