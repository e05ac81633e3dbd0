/* SPDX-License-Identifier: MIT */
/*
 * What a keeper is told: words of a command line in, a plain struct out. It names secrets, and
 * holds none.
 */
#ifndef CONFIG_KEEPER_CONFIG_H
#define CONFIG_KEEPER_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "config/options.h"
#include "config/provider.h"
#include "config/url.h"

#define KEEPER_LLMS_MAX     16
#define KEEPER_MAPPINGS_MAX 192 /* a service has three */
#define KEEPER_METADATA_MAX 32
#define KEEPER_RULES_MAX    1024
#define KEEPER_SECRETS_MAX  64
#define KEEPER_HOSTS_MAX    64   /* of one secret */
#define KEEPER_LIMITS_MAX   256  /* accounts with limits, and hosts */
#define KEEPER_METADATA_LEN 4096 /* of all names and values together */

/* An upstream, and which requests are its own. */
struct keeper_llm {
	const char *prefix; /* of the path, without a last slash; or NULL */
	const char *model;  /* a pattern with '*'; or NULL. With neither: the default */
	struct url url;
	const char *key; /* the source of its key, or NULL */
	const struct provider *provider;
};

/* Dial `address` instead of `host`. */
struct keeper_mapping {
	const char *host, *address;
	uint16_t host_port, address_port;
};

struct keeper_metadata {
	const char *name, *value;
};

/* What may be reached, as it was written; the policy reads it. */
struct keeper_rule {
	const char *text;
	bool is_allow;
};

/* Where a placeholder may stand, as a mask. */
enum keeper_place {
	KEEPER_HEADER = 1,
	KEEPER_BASIC = 2,
	KEEPER_QUERY = 4,
	KEEPER_PATH = 8,
	KEEPER_BODY = 16,
	KEEPER_WEBSOCKET = 32,
};

struct keeper_secret {
	const char *name;
	const char *source;
	const char *hosts[KEEPER_HOSTS_MAX];
	size_t host_count;
	unsigned int places;
	const char *inject_header, *inject_format; /* or NULL */
	const char *placeholder; /* as it was written; NULL: of the value's shape */
	bool may_be_cleartext, may_have_addresses;
};

/* Of an account, "*" being those without a row of their own; or of a host, as requests have it. */
struct keeper_limit {
	const char *name;
	struct limits limits;
};

/* What stands in a placeholder for random characters. */
#define KEEPER_RANDOM "<random>"

struct keeper_config {
	struct arena arena;
	struct keeper_llm llms[KEEPER_LLMS_MAX];
	size_t llm_count;
	struct keeper_mapping mappings[KEEPER_MAPPINGS_MAX];
	size_t mapping_count;
	struct keeper_metadata metadata[KEEPER_METADATA_MAX];
	size_t metadata_count, metadata_len;
	struct keeper_rule *rules; /* in the arena, as what follows */
	size_t rule_count;
	struct keeper_secret *secrets;
	size_t secret_count;
	const char *upstream_ca, *audit, *durability, *billing_account, *dns;
	uint64_t egress_bytes, egress_host_bytes; /* 0: no limit */
	struct limits run_limits;
	struct keeper_limit *account_limits, *host_limits;
	size_t account_limit_count, host_limit_count;
	uint64_t spend_reserve; /* money: what a request may cost, while nobody knows */
	uint64_t connect_ms, first_byte_ms, idle_ms, connections;
	/* Of the run, not of the operator; not among the shared rows. */
	const char *run_id;
	const char *learn;        /* a file for a draft, or NULL */
	const char *token_secret; /* the source of what tokens are signed with, or NULL */
	uint64_t attempt, verbose;
};

/* Defaults; keeper_config_fini is owed from here on. */
void keeper_config_init(struct keeper_config *config);
void keeper_config_fini(struct keeper_config *config);

/* Reads words "--name value …" on top of what is there. */
int keeper_config_parse(struct keeper_config *config, int argc, char **argv,
			struct err *err) must_check;

/* Applies one row by its name, for verbs that have the rows among their own. */
int keeper_config_apply(struct keeper_config *config, const char *name, const char *text,
			struct err *err) must_check;

/* Whether the name of a place may be written so; its bit of enum keeper_place, or 0. */
unsigned int keeper_place_of(const char *name);
const char *keeper_place_name(unsigned int place);

/* What can only be judged when everything has been read. */
int keeper_config_check(const struct keeper_config *config, struct err *err) must_check;

/* Refuses a text that is no source of a secret, without repeating it: it may be the secret. */
int keeper_check_source(const char *option, const char *text, struct err *err) must_check;

/* The same where a value that a configuration file has itself cannot be meant. */
int keeper_check_outer_source(const char *option, const char *text, struct err *err) must_check;

#endif
