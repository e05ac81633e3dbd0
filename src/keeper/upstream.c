/* SPDX-License-Identifier: MIT */
/* Upstreams. */
#include "keeper/upstream.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "keeper/origin.h"

/* The operator may have mapped the host to an address. */
static void find_address(const struct keeper_config *config, struct upstream *upstream)
{
	upstream->dial_host = upstream->host;
	upstream->dial_port = upstream->port;
	for (size_t i = 0; i < config->mapping_count; i++) {
		const struct keeper_mapping *mapping = &config->mappings[i];

		if (mapping->host_port != upstream->port ||
		    strcmp(mapping->host, upstream->host) != 0)
			continue;
		upstream->dial_host = mapping->address;
		upstream->dial_port = mapping->address_port;
		upstream->is_mapped = true;
	}
}

static void set_place(struct upstream *upstream, const struct keeper_config *config,
		      const char *host, uint16_t port)
{
	upstream->port = port;
	snprintf(upstream->host, sizeof(upstream->host), "%s", host);
	authority_format(host, port, upstream->label);
	find_address(config, upstream);
}

void upstream_init_llm(struct upstream *upstream, const struct keeper_config *config,
		       const struct keeper_llm *llm, const struct secret *key)
{
	*upstream = (struct upstream){ .llm = llm, .is_tls = llm->url.is_tls, .key = key };
	set_place(upstream, config, llm->url.host, llm->url.port);
}

void upstream_keep_none(struct upstream *upstream)
{
	upstream->keeps_none = true;
	while (upstream->idle)
		origin_close(upstream->idle);
}

void upstream_close(struct upstream *upstream)
{
	upstream_keep_none(upstream);
	while (upstream->shared)
		upstream->shared->wire->lose(upstream->shared);
}

/* ---- hosts of the policy ---- */

/* The one that was not used for the longest time makes room. */
static bool forget_one(struct upstream **hosts)
{
	struct upstream **oldest = NULL, *upstream;

	for (struct upstream **at = hosts; *at; at = &(*at)->next)
		if ((*at)->use_count == 0)
			oldest = at;
	if (!oldest)
		return false;
	upstream = *oldest;
	*oldest = upstream->next;
	upstream_close(upstream);
	free(upstream);
	return true;
}

struct upstream *upstream_find(struct upstream **hosts, const struct keeper_config *config,
			       const struct authority *authority, bool is_tls)
{
	struct upstream *upstream;
	size_t count = 0;

	for (struct upstream **at = hosts; *at; at = &(*at)->next, count++) {
		upstream = *at;
		if (upstream->is_tls != is_tls || upstream->port != authority->port ||
		    strcmp(upstream->host, authority->host) != 0)
			continue;
		*at = upstream->next;
		upstream->next = *hosts;
		*hosts = upstream;
		return upstream;
	}
	if (count >= UPSTREAM_HOSTS_MAX && !forget_one(hosts))
		return NULL;
	upstream = calloc(1, sizeof(*upstream));
	if (!upstream)
		die_no_memory();
	upstream->is_tls = is_tls;
	set_place(upstream, config, authority->host, authority->port);
	upstream->next = *hosts;
	*hosts = upstream;
	return upstream;
}

void upstream_close_hosts(struct upstream **hosts)
{
	while (*hosts) {
		struct upstream *upstream = *hosts;

		*hosts = upstream->next;
		upstream_close(upstream);
		free(upstream);
	}
}
