/* SPDX-License-Identifier: MIT */
/*
 * The secrets of a run, beside the LLM's key: their values, what the agent has in their place,
 * and where each may go (INV-HOST-SCOPED).
 */
#ifndef KEEPER_VAULT_H
#define KEEPER_VAULT_H

#include "config/keeper_config.h"
#include "keeper/scrub.h"
#include "keeper/secret.h"
#include "keeper/substitute.h"
#include "policy/rule.h"

struct vault_entry {
	const struct keeper_secret *config;
	struct secret *value;
	char *placeholder;
	struct authority hosts[KEEPER_HOSTS_MAX]; /* patterns; a port of 0 is any */
};

struct vault {
	struct vault_entry *entries;
	size_t count;
	struct substitute_set *substitutes; /* placeholder to value, on the way out */
	struct scrub_set *scrubs;           /* values to placeholders, on the way back */
	uint64_t cleartext;                 /* mask of those that may go over plain HTTP */
};

/* The LLM's keys, which are looked for in what comes back as well. */
struct vault_keys {
	const struct secret *keys[KEEPER_LLMS_MAX];
	size_t count;
};

/*
 * Reads the hosts of a secret into `ret_hosts`, of KEEPER_HOSTS_MAX, and allows them where the
 * operator has no rules for them. Nothing is opened.
 */
int vault_read_hosts(const struct keeper_secret *config, struct policy *policy,
		     struct authority *ret_hosts, struct err *err) must_check;

/* Opens every secret, and allows its hosts. vault_close is owed in any case. */
int vault_open(struct vault *vault, const struct keeper_config *config,
	       const struct vault_keys *keys, struct policy *policy, struct err *err) must_check;
void vault_close(struct vault *vault);

/* Which secrets may go to a host, as a mask. */
uint64_t vault_bound(const struct vault *vault, const struct authority *authority, bool is_tls);

#endif
