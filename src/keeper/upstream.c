/* SPDX-License-Identifier: MIT */
/* Upstreams. */
#include "keeper/upstream.h"

#include <errno.h>
#include <stdio.h>

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
	}
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

int upstream_open(struct upstream *upstream, const struct keeper_config *config,
		  const struct keeper_llm *llm, struct err *err)
{
	int r = 0;

	*upstream = (struct upstream){ .llm = llm,
				       .is_tls = llm->url.is_tls,
				       .port = llm->url.port };
	snprintf(upstream->host, sizeof(upstream->host), "%s", llm->url.host);
	snprintf(upstream->label, sizeof(upstream->label),
		 strchr(upstream->host, ':') ? "[%s]:%u" : "%s:%u", upstream->host, upstream->port);
	find_address(config, upstream);
	if (llm->key) {
		r = secret_open(llm->key, &upstream->key, err);
		if (r == 0)
			r = check_key(upstream->key, llm->key, err);
		if (r == 0)
			upstream->pattern = scrub_pattern_new(upstream->key);
	}
	return r;
}

void upstream_close(struct upstream *upstream)
{
	while (upstream->idle)
		origin_close(upstream->idle);
	scrub_pattern_free(upstream->pattern);
	secret_free(upstream->key);
}
