/* SPDX-License-Identifier: MIT */
/* Routes by prefix and by model. */
#include "keeper/route.h"

#include "http/path.h"

/* '*' stands for any text, also none. */
static bool matches(const char *pattern, struct bytes text)
{
	const char *star = NULL;
	size_t i = 0, resume = 0;

	while (i < text.len) {
		if (*pattern == '*') {
			star = pattern++;
			resume = i;
		} else if (*pattern && *pattern == text.data[i]) {
			pattern++;
			i++;
		} else if (star) {
			pattern = star + 1;
			i = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_below(struct bytes path, const char *prefix)
{
	size_t len = strlen(prefix);

	return path.len > len && memcmp(path.data, prefix, len) == 0 && path.data[len] == '/';
}

static bool has_path(const struct provider *provider, struct bytes path)
{
	for (size_t i = 0; i < PROVIDER_PATHS_MAX && provider->paths[i]; i++) {
		size_t len = strlen(provider->paths[i]);

		if (path.len > len && memcmp(path.data, provider->paths[i], len) == 0)
			return true;
	}
	return false;
}

/* The longest prefix that the path is below. */
static const struct keeper_llm *find_prefix(const struct keeper_config *config, struct bytes path)
{
	const struct keeper_llm *best = NULL;

	for (size_t i = 0; i < config->llm_count; i++) {
		const struct keeper_llm *llm = &config->llms[i];

		if (llm->prefix && is_below(path, llm->prefix) &&
		    (!best || strlen(llm->prefix) > strlen(best->prefix)))
			best = llm;
	}
	return best;
}

static bool is_by_model(const struct keeper_llm *llm, struct bytes path)
{
	return llm->model && has_path(llm->provider, path);
}

/* The longest pattern that the model matches, or the upstream that takes everything else. */
static const struct keeper_llm *find_model(const struct keeper_config *config, struct bytes path,
					   struct bytes model)
{
	const struct keeper_llm *best = NULL, *other = NULL;

	for (size_t i = 0; i < config->llm_count; i++) {
		const struct keeper_llm *llm = &config->llms[i];

		if (is_by_model(llm, path) && matches(llm->model, model) &&
		    (!best || strlen(llm->model) > strlen(best->model)))
			best = llm;
		if (!llm->model && !llm->prefix && has_path(llm->provider, path))
			other = llm;
	}
	return best ? best : other;
}

static bool is_model_needed(const struct keeper_config *config, struct bytes path)
{
	for (size_t i = 0; i < config->llm_count; i++)
		if (is_by_model(&config->llms[i], path))
			return true;
	return false;
}

enum refusal route_find(const struct keeper_config *config, struct bytes path, struct bytes model,
			struct route *ret_route)
{
	const struct keeper_llm *llm = find_prefix(config, path);

	if (!http_path_is_plain(path))
		return REFUSAL_BAD_PATH;
	*ret_route = (struct route){ .path = path };
	if (llm) {
		bytes_take(&ret_route->path, strlen(llm->prefix));
		if (!has_path(llm->provider, ret_route->path))
			return REFUSAL_NOT_FOUND;
	} else {
		bool is_needed = is_model_needed(config, path);

		ret_route->needs_model = is_needed && !model.data;
		if (ret_route->needs_model)
			return REFUSAL_NONE;
		llm = find_model(config, path, model);
		if (!llm)
			return is_needed ? REFUSAL_MODEL_UNKNOWN : REFUSAL_NOT_FOUND;
	}
	ret_route->llm = (size_t)(llm - config->llms);
	return REFUSAL_NONE;
}
