/* SPDX-License-Identifier: MIT */
/*
 * The secrets, beside the LLMs' keys: their values, and where each may go (INV-HOST-SCOPED). What
 * an agent has in their place is its run's (keeper/terms.h).
 */
#ifndef KEEPER_VAULT_H
#define KEEPER_VAULT_H

#include "config/keeper_config.h"
#include "keeper/secret.h"
#include "policy/rule.h"

struct vault_entry {
	const struct keeper_secret *config;
	struct secret *value;
	struct authority *hosts; /* patterns; a port of 0 is any */
};

struct vault {
	struct arena arena; /* of the hosts */
	struct vault_entry *entries;
	size_t count;
	uint64_t cleartext; /* mask of those that may go over plain HTTP */
};

/*
 * Reads the hosts of a secret into `ret_hosts`, of KEEPER_HOSTS_MAX, and allows them where the
 * operator has no rules for them. Nothing is opened.
 */
int vault_read_hosts(const struct keeper_secret *config, struct policy *policy,
		     struct authority *ret_hosts, struct err *err) must_check;

/* Opens every secret, and allows its hosts. vault_close is owed in any case. */
int vault_open(struct vault *vault, const struct keeper_config *config, struct policy *policy,
	       struct err *err) must_check;
void vault_close(struct vault *vault);

/* A placeholder for a run: as the operator wrote it, or of the value's shape. To be freed. */
int vault_make_placeholder(const struct vault_entry *entry, char **ret_text,
			   struct err *err) must_check;

/* Which secrets may go to a host, as a mask. */
uint64_t vault_bound(const struct vault *vault, const struct authority *authority, bool is_tls);

/* Whether there is one of this name, and it may go to that host. */
bool vault_has(const struct vault *vault, const char *name, const struct authority *authority,
	       bool is_tls);

#endif
