/* SPDX-License-Identifier: MIT */
/*
 * What a configuration comes to when it has been read: rules, secrets and keys, for every run
 * alike. It never changes; a reload makes another one, and the one before lives until the last
 * request that was decided by it has ended.
 */
#ifndef KEEPER_CHARTER_H
#define KEEPER_CHARTER_H

#include "config/keeper_config.h"
#include "keeper/keyring.h"
#include "keeper/scrub.h"
#include "keeper/vault.h"
#include "policy/rule.h"
#include "tls/tls_client.h"

struct charter {
	unsigned int use_count;
	const struct keeper_config *config;
	struct policy policy; /* which hosts may be reached */
	struct vault vault;
	struct secret *llm_keys[KEEPER_LLMS_MAX]; /* by the number of the LLM, or NULL */
	struct scrub_set *scrubs;  /* of these keys, for all runs where there is no other secret */
	struct keyring token_keys; /* of requests' run tokens; empty: nobody has one */
	struct keyring link_keys;  /* of those that links begin with */
	struct tls_client *tls;    /* NULL while no upstream needs it */
	void (*on_free)(struct charter *charter); /* or NULL; `config` may go, too */
};

/* Opens what the configuration names: certificates and secrets. The caller has the first use. */
int charter_new(const struct keeper_config *config, struct charter **ret_charter,
		struct err *err) must_check;

/* Opens the key of an upstream: what no header can hold is refused. */
int charter_open_key(const char *source, struct secret **ret_key, struct err *err) must_check;

/*
 * What tokens may be signed with, beside what is there, in one of its two rings. An agent may have
 * a token for requests, and must not open a link with it: no key may be in both.
 */
int charter_add_key(struct charter *charter, struct keyring *ring, const char *id,
		    const char *source, struct err *err) must_check;

/* Whether it has an upstream of the same place and provider, with a key from the same source. */
bool charter_has_llm(const struct charter *charter, const struct keeper_llm *llm);

struct charter *charter_ref(struct charter *charter);
/* The last use frees it, and wipes what it holds. NULL is fine. */
void charter_unref(struct charter *charter);

#endif
