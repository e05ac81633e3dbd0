/* SPDX-License-Identifier: MIT */
/* A keeper's configuration as words again, without what is not for a run. */
#include "config/keeper_words.h"

#include <inttypes.h>

struct word_list {
	struct arena *arena;
	const char **words;
	size_t count;
};

static void add(struct word_list *list, const char *option, const char *value)
{
	list->words[list->count++] = option;
	list->words[list->count++] = value;
}

static void add_llm(struct word_list *list, const struct keeper_llm *llm)
{
	const char *match = llm->prefix ? llm->prefix : llm->model;

	add(list, "--llm",
	    arena_printf(list->arena, "%s%s%s://%s%s", match ? match : "", match ? "=" : "",
			 llm->url.is_tls ? "https" : "http", llm->url.authority, llm->url.base));
	add(list, "--llm-provider", llm->provider->name);
}

/* Its value is with the keeper, as that of a file would be. */
static void add_secret(struct word_list *list, const struct keeper_secret *secret)
{
	const char *hosts = secret->hosts[0];

	for (size_t i = 1; i < secret->host_count; i++)
		hosts = arena_printf(list->arena, "%s,%s", hosts, secret->hosts[i]);
	add(list, "--secret",
	    arena_printf(list->arena, "%s=config:%s@%s", secret->name, secret->name, hosts));
	if (secret->may_be_cleartext)
		add(list, "--secret-cleartext", arena_strdup(list->arena, secret->name));
	if (secret->may_have_addresses)
		add(list, "--secret-ip-literals", arena_strdup(list->arena, secret->name));
}

/* The most: an upstream has two, a secret three, and two stand alone. */
static size_t count_options(const struct keeper_config *config)
{
	return 2 * config->llm_count + config->rule_count + 3 * config->secret_count + 2;
}

void keeper_config_words(const struct keeper_config *config, struct arena *arena,
			 const char ***ret_words, size_t *ret_count)
{
	struct word_list list = { .arena = arena };

	list.words = arena_alloc(arena, (2 * count_options(config) + 1) * sizeof(*list.words));
	for (size_t i = 0; i < config->llm_count; i++)
		add_llm(&list, &config->llms[i]);
	for (size_t i = 0; i < config->rule_count; i++)
		add(&list, config->rules[i].is_allow ? "--allow-net" : "--deny-net",
		    arena_strdup(arena, config->rules[i].text));
	for (size_t i = 0; i < config->secret_count; i++)
		add_secret(&list, &config->secrets[i]);
	add(&list, "--dns", arena_strdup(arena, config->dns));
	add(&list, "--connections", arena_printf(arena, "%" PRIu64, config->connections));
	*ret_words = list.words;
	*ret_count = list.count;
}
