/* SPDX-License-Identifier: MIT */
/* Charters. */
#include "keeper/charter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"
#include "link/link.h"

/* A wrong file is found at once, whether it is needed or not. */
static bool needs_tls(const struct keeper_config *config)
{
	bool is_needed = config->upstream_ca != NULL || config->rule_count > 0 ||
			 config->secret_count > 0;

	for (size_t i = 0; i < config->llm_count; i++)
		is_needed = is_needed || config->llms[i].url.is_tls;
	return is_needed;
}

/* A key goes into one line of a head: nothing in it may end that line. */
static int check_key(const struct secret *key, const char *source, struct err *err)
{
	struct bytes value = secret_get(key);

	for (size_t i = 0; i < value.len; i++)
		if (value.data[i] < 0x20 || value.data[i] >= 0x7f)
			return err_say(err, EINVAL,
				       "the key from %.200s has a byte that no header can hold",
				       source);
	return 0;
}

int charter_open_key(const char *source, struct secret **ret_key, struct err *err)
{
	int r = secret_open(source, ret_key, err);

	return r < 0 ? r : check_key(*ret_key, source, err);
}

static int open_keys(struct charter *charter, struct err *err)
{
	const struct keeper_config *config = charter->config;
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->llm_count; i++) {
		const char *source = config->llms[i].key;

		if (source)
			r = charter_open_key(source, &charter->llm_keys[i], err);
	}
	if (r == 0 && config->token_secret)
		r = charter_add_key(charter, &charter->token_keys, "default", config->token_secret,
				    err);
	return r;
}

int charter_add_key(struct charter *charter, struct keyring *ring, const char *id,
		    const char *source, struct err *err)
{
	const struct keyring *other = ring == &charter->link_keys ? &charter->token_keys
								  : &charter->link_keys;
	struct secret *secret;
	int r = secret_open(source, &secret, err);

	if (r < 0)
		return r;
	if (keyring_has(other, secret)) {
		secret_free(secret);
		return err_say(err, EEXIST,
			       "the key '%s' is one for links and for requests at gates: an agent "
			       "could open a link with its token; make two",
			       id);
	}
	return keyring_add(ring, id, secret, err);
}

static size_t count_tunnels(const struct keeper_config *config)
{
	size_t count = 0;

	for (size_t i = 0; i < config->rule_count; i++)
		count += config->rules[i].is_allow &&
			 strncmp(config->rules[i].text, "tcp://", 6) == 0;
	return count;
}

static int read_rules(struct charter *charter, struct err *err)
{
	const struct keeper_config *config = charter->config;
	int r = 0;

	if (count_tunnels(config) > LINK_TUNNELS_MAX)
		return err_say(err, E2BIG, "more than %d rules tcp://HOST:PORT", LINK_TUNNELS_MAX);
	for (size_t i = 0; r == 0 && i < config->rule_count; i++)
		r = policy_add(&charter->policy, config->rules[i].text, config->rules[i].is_allow,
			       err);
	return r;
}

int charter_new(const struct keeper_config *config, struct charter **ret_charter, struct err *err)
{
	struct charter *charter = calloc(1, sizeof(*charter));
	int r = 0;

	if (!charter)
		die_no_memory();
	charter->use_count = 1;
	charter->config = config;
	if (needs_tls(config))
		r = tls_client_new(config->upstream_ca, &charter->tls, err);
	if (r == 0)
		r = open_keys(charter, err);
	if (r == 0)
		r = read_rules(charter, err);
	if (r == 0)
		r = vault_open(&charter->vault, config, &charter->policy, err);
	if (r < 0) {
		charter_unref(charter);
		return r;
	}
	*ret_charter = charter;
	return 0;
}

bool charter_has_llm(const struct charter *charter, const struct keeper_llm *llm)
{
	const struct keeper_config *config = charter->config;

	for (size_t i = 0; i < config->llm_count; i++)
		if (charter->llm_keys[i] && config->llms[i].provider == llm->provider &&
		    strcmp(config->llms[i].url.authority, llm->url.authority) == 0 &&
		    strcmp(config->llms[i].key, llm->key) == 0)
			return true;
	return false;
}

struct charter *charter_ref(struct charter *charter)
{
	charter->use_count++;
	return charter;
}

void charter_unref(struct charter *charter)
{
	if (!charter || --charter->use_count > 0)
		return;
	scrub_set_free(charter->scrubs);
	for (size_t i = 0; i < KEEPER_LLMS_MAX; i++)
		secret_free(charter->llm_keys[i]);
	keyring_fini(&charter->token_keys);
	keyring_fini(&charter->link_keys);
	policy_fini(&charter->policy);
	vault_close(&charter->vault);
	if (charter->tls)
		tls_client_free(charter->tls);
	if (charter->on_free)
		charter->on_free(charter);
	free(charter);
}
