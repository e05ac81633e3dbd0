/* SPDX-License-Identifier: MIT */
/*
 * What LLM providers differ in: how the key is sent, which paths are theirs, and which
 * variables make their clients come to us.
 */
#ifndef CONFIG_PROVIDER_H
#define CONFIG_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#define PROVIDER_VARIABLES_MAX 8
#define PROVIDER_PATHS_MAX     4

#define PROVIDER_PARAMETERS_MAX 3

struct provider_variable {
	const char *name;
	const char *value; /* a path below the endpoint when it begins with '/', else as it is */
};

struct provider {
	const char *name;
	const char *host;                    /* whose API this is, or "*.suffix"; NULL: nobody's */
	const char *key_header, *key_prefix; /* how the key is sent */
	/* Of the query, in which clients send one; ends with NULL. */
	const char *key_parameters[PROVIDER_PARAMETERS_MAX];
	const char *paths[PROVIDER_PATHS_MAX]; /* prefixes; ends with NULL */
	bool is_litellm; /* it takes the run's identity, and lets bodies outrank it */
	struct provider_variable variables[PROVIDER_VARIABLES_MAX]; /* ends with a NULL name */
};

/* By its name, or NULL. */
const struct provider *provider_find(const char *name);

/* The one whose host this is; LiteLLM for any other. */
const struct provider *provider_of_host(const char *host);

#endif
