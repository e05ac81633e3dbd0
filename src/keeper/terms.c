/* SPDX-License-Identifier: MIT */
/* Terms. */
#include "keeper/terms.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static const char *find_placeholder(const struct terms *terms, const char *name)
{
	const struct vault *vault = terms ? &terms->charter->vault : NULL;

	for (size_t i = 0; vault && i < vault->count; i++)
		if (strcmp(vault->entries[i].config->name, name) == 0)
			return terms->placeholders[i];
	return NULL;
}

static int make_placeholders(struct terms *terms, const struct terms *earlier, struct err *err)
{
	const struct vault *vault = &terms->charter->vault;
	int r = 0;

	terms->placeholders = arena_alloc(&terms->arena, (vault->count + 1) * sizeof(char *));
	for (size_t i = 0; r == 0 && i < vault->count; i++) {
		const char *known = find_placeholder(earlier, vault->entries[i].config->name);
		_cleanup_free_ char *made = NULL;

		if (!known)
			r = vault_make_placeholder(&vault->entries[i], &made, err);
		if (r == 0)
			terms->placeholders[i] = arena_strdup(&terms->arena, known ? known : made);
	}
	return r;
}

/* What comes back is searched for every secret, the LLM's keys too, whoever sends it. */
static int make_sets(struct terms *terms, struct err *err)
{
	struct charter *charter = terms->charter;
	const struct vault *vault = &charter->vault;
	struct substitute_secret out[KEEPER_SECRETS_MAX];
	struct scrub_secret back[KEEPER_SECRETS_MAX + KEEPER_LLMS_MAX];
	size_t count = vault->count;
	int r;

	for (size_t i = 0; i < vault->count; i++) {
		const struct vault_entry *entry = &vault->entries[i];
		struct bytes value = secret_get(entry->value);
		struct bytes placeholder = bytes_of(terms->placeholders[i]);

		out[i] = (struct substitute_secret){ placeholder, value, entry->config->places };
		back[i] = (struct scrub_secret){ value, placeholder };
	}
	for (size_t i = 0; i < charter->config->llm_count; i++)
		if (charter->llm_keys[i])
			back[count++] = (struct scrub_secret){ .value = secret_get(
								       charter->llm_keys[i]) };
	r = substitute_set_new(out, vault->count, &terms->substitutes);
	/* Without placeholders it is the same for every run: a thousand share one. */
	if (r == 0 && vault->count == 0 && !charter->scrubs)
		r = scrub_set_new(back, count, &charter->scrubs);
	if (r == 0 && vault->count == 0)
		terms->scrubs = charter->scrubs;
	else if (r == 0)
		r = scrub_set_new(back, count, &terms->scrubs);
	return r < 0 ? err_set(err, -r, "prepare the secrets") : 0;
}

static void make_upstreams(struct terms *terms)
{
	const struct keeper_config *config = terms->charter->config;

	terms->llms = calloc(config->llm_count + 1, sizeof(*terms->llms));
	if (!terms->llms)
		die_no_memory();
	for (size_t i = 0; i < config->llm_count; i++)
		upstream_init_llm(&terms->llms[i], config, &config->llms[i],
				  terms->charter->llm_keys[i]);
}

int terms_new(struct charter *charter, const struct terms *earlier, struct terms **ret_terms,
	      struct err *err)
{
	struct terms *terms = calloc(1, sizeof(*terms));
	int r;

	if (!terms)
		die_no_memory();
	terms->use_count = 1;
	terms->charter = charter_ref(charter);
	make_upstreams(terms);
	r = make_placeholders(terms, earlier, err);
	if (r == 0)
		r = make_sets(terms, err);
	if (r < 0) {
		terms_unref(terms);
		return r;
	}
	*ret_terms = terms;
	return 0;
}

struct terms *terms_ref(struct terms *terms)
{
	terms->use_count++;
	return terms;
}

static void close_connections(struct terms *terms)
{
	for (size_t i = 0; i < terms->charter->config->llm_count; i++)
		upstream_close(&terms->llms[i]);
	upstream_close_hosts(&terms->hosts);
}

void terms_unref(struct terms *terms)
{
	if (!terms || --terms->use_count > 0)
		return;
	close_connections(terms);
	arena_fini(&terms->arena);
	free(terms->llms);
	substitute_set_free(terms->substitutes);
	if (terms->scrubs != terms->charter->scrubs)
		scrub_set_free(terms->scrubs);
	charter_unref(terms->charter);
	free(terms);
}

void terms_end(struct terms *terms)
{
	for (size_t i = 0; i < terms->charter->config->llm_count; i++)
		upstream_keep_none(&terms->llms[i]);
	for (struct upstream *host = terms->hosts; host; host = host->next)
		upstream_keep_none(host);
}
