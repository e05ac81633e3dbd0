/* SPDX-License-Identifier: MIT */
/* Limits and a shared keeper's settings, as a person would say them. */
#include "cmd/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/money.h"

const char *explain_source(const char *source)
{
	if (strncmp(source, "config:", 7) == 0)
		return "this file";
	return strncmp(source, "exec:", 5) == 0 ? "a command" : source;
}

/* ---- limits ---- */

static double in_units(uint64_t milli)
{
	return (double)milli / 1000;
}

static void print_part(bool *has_part, const char *fmt, ...) printf_like(2);

static void print_part(bool *has_part, const char *fmt, ...)
{
	va_list ap;

	printf(*has_part ? ", " : " ");
	*has_part = true;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

/* Of a second, a minute or an hour: the first of which it is a whole number. */
static void print_rate(bool *has_part, uint64_t rate)
{
	static const struct {
		const char *each;
		uint64_t worth;
	} units[] = { { "a second", LIMITS_PER_SECOND }, { "a minute", LIMITS_PER_SECOND / 60 } };

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (rate % units[i].worth == 0) {
			print_part(has_part, "%" PRIu64 " requests %s", rate / units[i].worth,
				   units[i].each);
			return;
		}
	print_part(has_part, "%.10g requests an hour", in_units(rate));
}

static void explain_row(const char *scope, const char *name, const struct limits *limits)
{
	char spend[MONEY_TEXT_MAX];
	bool has_part = false;

	printf("limit    %s%s:", scope, name);
	if (limits->rate)
		print_rate(&has_part, limits->rate);
	if (limits->burst)
		print_part(&has_part, "bursts of %" PRIu64, limits->burst);
	if (limits->concurrent)
		print_part(&has_part, "%" PRIu64 " at once", limits->concurrent);
	if (limits->bytes)
		print_part(&has_part, "%" PRIu64 " bytes", limits->bytes);
	money_format(limits->spend, spend);
	if (limits->spend)
		print_part(&has_part, "%s to spend", spend);
	if (limits->duration_ms)
		print_part(&has_part, "%.10g seconds", in_units(limits->duration_ms));
	printf("\n");
}

static const char *account_name(const char *id)
{
	return strcmp(id, "*") == 0 ? "any other account" : id;
}

void explain_limits(const struct keeper_config *config)
{
	const struct limits *run = &config->run_limits;

	if (run->rate || run->concurrent || run->bytes || run->spend || run->duration_ms)
		explain_row("each run", "", run);
	for (size_t i = 0; i < config->account_limit_count; i++)
		explain_row(strcmp(config->account_limits[i].name, "*") ? "account " : "",
			    account_name(config->account_limits[i].name),
			    &config->account_limits[i].limits);
	for (size_t i = 0; i < config->host_limit_count; i++)
		explain_row("host ", config->host_limits[i].name, &config->host_limits[i].limits);
}

/* ---- a shared keeper ---- */

static void explain_endpoint(const char *what, const struct shared_endpoint *endpoint)
{
	if (endpoint->path)
		printf("keeper   %s at %s", what, endpoint->path);
	else if (endpoint->host)
		printf(strchr(endpoint->host, ':') ? "keeper   %s at [%s]:%u"
						   : "keeper   %s at %s:%u",
		       what, endpoint->host, endpoint->port);
}

static void explain_control(const struct shared_config *config)
{
	explain_endpoint("runs are registered", &config->control);
	if (!config->control.path)
		printf("keeper   runs are registered at the usual place");
	printf(", mode %04o, by its own user", (unsigned int)config->control_mode);
	for (size_t i = 0; i < config->control_user_count; i++)
		printf("%s%s", i + 1 < config->control_user_count ? ", " : " and ",
		       config->control_users[i]);
	printf("\n");
}

static void explain_listen(const struct shared_config *config)
{
	if (!config->listen.host)
		return;
	explain_endpoint("runs on other machines come in with TLS", &config->listen);
	printf("; certificate %s, its key from %s\n", config->cert,
	       explain_source(config->cert_key));
}

/* Of a URL no more than its kind: any part of it may be a password. */
static const char *name_store(const char *store)
{
	if (!store)
		return "SQLite, at the usual place";
	if (strncmp(store, "postgresql:", 11) == 0)
		return "PostgreSQL";
	if (strncmp(store, "redis:", 6) == 0)
		return "Redis";
	return strcmp(store, "memory:") == 0 ? "memory, and forgotten when the keeper ends" : store;
}

static void explain_store(const struct shared_config *config)
{
	bool is_source = config->store && shared_store_is_source(config->store);

	printf("keeper   limits are counted in %s%s\n", is_source ? "what is named by " : "",
	       name_store(config->store));
}

static void explain_times(const struct shared_config *config)
{
	if (config->reconcile_every_ms)
		printf("keeper   spend is compared with LiteLLM's log every %.10g seconds; a call "
		       "may "
		       "take %.10g to appear there\n",
		       in_units(config->reconcile_every_ms), in_units(config->reconcile_grace_ms));
	else
		printf("keeper   spend is never compared with LiteLLM's log\n");
	printf("keeper   requests under way have %.10g seconds to end at shutdown\n",
	       in_units(config->drain_ms));
	printf("keeper   the log is written as %s\n", config->log);
}

static void explain_keys(const struct shared_key_list *list, const char *what)
{
	for (size_t i = 0; i < list->count; i++)
		printf("keeper   run tokens of %s are good when signed with key %s; it comes from "
		       "%s\n",
		       what, list->keys[i].id, explain_source(list->keys[i].source));
}

void explain_shared(const struct shared_config *config)
{
	explain_control(config);
	explain_listen(config);
	explain_keys(&config->link_keys, "links");
	explain_keys(&config->token_keys, "requests at gates");
	explain_endpoint("metrics and health are", &config->admin);
	if (config->admin.path || config->admin.host)
		printf("\n");
	explain_store(config);
	explain_times(config);
}
