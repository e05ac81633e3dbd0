/* SPDX-License-Identifier: MIT */
/* Opening secrets. */
#include "keeper/vault.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "keeper/placeholder.h"

int vault_make_placeholder(const struct vault_entry *entry, char **ret_text, struct err *err)
{
	const char *given = entry->config->placeholder, *name = entry->config->name;
	struct bytes value = secret_get(entry->value);
	_cleanup_free_ char *text = malloc((given ? strlen(given) : value.len) +
					   PLACEHOLDER_RANDOM + 1);
	int r;

	if (!text)
		die_no_memory();
	r = given ? placeholder_fill(given, KEEPER_RANDOM, text) : placeholder_make(value, text);
	if (r < 0)
		return err_set(err, -r, "make a placeholder");
	if (memmem(text, strlen(text), value.data, value.len))
		return err_say(err, EINVAL, "secret %s: its placeholder has its value in it", name);
	*ret_text = text;
	text = NULL;
	return 0;
}

static int open_value(struct vault_entry *entry, struct err *err)
{
	struct bytes value;
	int r = secret_open(entry->config->source, &entry->value, err);

	if (r < 0)
		return r;
	value = secret_get(entry->value);
	for (size_t i = 0; i < value.len; i++)
		if (value.data[i] < 0x20 || value.data[i] >= 0x7f)
			return err_say(err, EINVAL, "secret %s has a byte that no header can hold",
				       entry->config->name);
	if (value.len < PLACEHOLDER_MIN)
		return err_say(
			err, EINVAL,
			"secret %s is shorter than %d bytes: a placeholder for it could turn "
			"up by chance",
			entry->config->name, PLACEHOLDER_MIN);
	return 0;
}

/* A port of its own is a rule of its own. */
static int allow_host(const struct authority *host, struct policy *policy, struct err *err)
{
	char rule[AUTHORITY_TEXT_MAX];

	if (policy_knows_host(policy, host->host))
		return 0; /* where the operator has rules for the host, they stand */
	if (host->port)
		authority_format(host->host, host->port, rule);
	else
		snprintf(rule, sizeof(rule), strchr(host->host, ':') ? "[%s]" : "%s", host->host);
	return policy_add(policy, rule, true, err);
}

int vault_read_hosts(const struct keeper_secret *config, struct policy *policy,
		     struct authority *ret_hosts, struct err *err)
{
	struct err why_not;
	const char *why;

	for (size_t i = 0; i < config->host_count; i++) {
		struct bytes text = bytes_of(config->hosts[i]);
		struct authority *host = &ret_hosts[i];

		if (authority_parse_bound(text, host, &why) < 0)
			return err_say(err, EINVAL, "secret %s: hosts: '%.100s' %s", config->name,
				       config->hosts[i], why);
		if (host->is_address && !config->may_have_addresses)
			return err_say(
				err, EINVAL,
				"secret %s: hosts: '%.100s' is an address; allow_ip_literals "
				"(--secret-ip-literals %s) lets it be one",
				config->name, config->hosts[i], config->name);
		if (allow_host(host, policy, &why_not) < 0)
			return err_say(err, EINVAL, "secret %s: hosts: %.300s", config->name,
				       why_not.text);
	}
	return 0;
}

int vault_open(struct vault *vault, const struct keeper_config *config, struct policy *policy,
	       struct err *err)
{
	int r = 0;

	*vault = (struct vault){ .count = 0 };
	vault->entries = calloc(config->secret_count + 1, sizeof(*vault->entries));
	if (!vault->entries)
		die_no_memory();
	for (; r == 0 && vault->count < config->secret_count; vault->count++) {
		struct vault_entry *entry = &vault->entries[vault->count];

		entry->config = &config->secrets[vault->count];
		entry->hosts = arena_alloc(&vault->arena,
					   (entry->config->host_count + 1) * sizeof(*entry->hosts));
		r = open_value(entry, err);
		if (r == 0)
			r = vault_read_hosts(entry->config, policy, entry->hosts, err);
		if (entry->config->may_be_cleartext)
			vault->cleartext |= UINT64_C(1) << vault->count;
	}
	return r;
}

void vault_close(struct vault *vault)
{
	for (size_t i = 0; i < vault->count; i++) {
		secret_free(vault->entries[i].value);
	}
	free(vault->entries);
	arena_fini(&vault->arena);
	*vault = (struct vault){ .count = 0 };
}

static bool is_bound(const struct vault_entry *entry, const struct authority *authority)
{
	for (size_t i = 0; i < entry->config->host_count; i++)
		if (host_matches(entry->hosts[i].host, authority->host) &&
		    (entry->hosts[i].port == 0 || entry->hosts[i].port == authority->port))
			return true;
	return false;
}

uint64_t vault_bound(const struct vault *vault, const struct authority *authority, bool is_tls)
{
	uint64_t bound = 0;

	for (size_t i = 0; i < vault->count; i++)
		if (is_bound(&vault->entries[i], authority))
			bound |= UINT64_C(1) << i;
	return is_tls ? bound : bound & vault->cleartext;
}

bool vault_has(const struct vault *vault, const char *name, const struct authority *authority,
	       bool is_tls)
{
	uint64_t bound = vault_bound(vault, authority, is_tls);

	for (size_t i = 0; i < vault->count; i++)
		if ((bound >> i & 1) && strcmp(vault->entries[i].config->name, name) == 0)
			return true;
	return false;
}
