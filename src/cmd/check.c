/* SPDX-License-Identifier: MIT */
/*
 * `warder check FILE`: what a configuration file means, line by line, and what is odd about it.
 * Everything is read as a run would read it, or a shared keeper where there is something for one
 * only, and nothing is opened: no secret, no log, no network.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/explain.h"
#include "config/file.h"
#include "config/settings.h"
#include "keeper/vault.h"
#include "policy/rule.h"
#include "warder.h"

#define LINE_MAX_LEN 4096

struct check {
	const char *path;
	struct config_file file;
	struct run_config run; /* of one or the other */
	struct shared_config shared;
	const struct keeper_config *keeper; /* the settings that each of them has in it */
	struct policy policy;
	bool has_values;
	size_t warnings;
};

/* ---- reading ---- */

/* The words of a list, each with its NUL. */
static void join(struct buf *out, const struct config_words *list)
{
	for (size_t i = 0; i < list->count; i++)
		buf_add(out, list->words[i], strlen(list->words[i]) + 1);
}

static int read_run(struct check *check, struct buf *words, struct err *err)
{
	static const char *const argv[] = { "run", "--", "true", NULL };
	int r;

	join(words, &check->file.run);
	join(words, &check->file.keeper);
	r = run_config_parse_again(&check->run, (struct bytes){ words->data, words->len }, 3,
				   (char **)argv, err);
	check->keeper = &check->run.keeper;
	return r < 0 ? r : keeper_config_check(check->keeper, err);
}

static bool is_shared(const struct check *check)
{
	return check->file.shared_mark.key;
}

static int read_shared(struct check *check, struct err *err)
{
	const char *store;
	int r = config_file_expect(&check->file, check->path, CONFIG_FOR_SHARED, err);

	shared_config_init(&check->shared);
	check->keeper = &check->shared.keeper;
	if (r == 0)
		r = shared_config_add_file(&check->shared, &check->file, err);
	if (r == 0)
		r = shared_config_check(&check->shared, err);
	store = check->shared.store;
	if (store && !shared_store_is_source(store) && strpbrk(store, "@?"))
		check->has_values = true;
	return r;
}

static int read_settings(struct check *check, struct buf *words, struct err *err)
{
	int r = config_file_read(check->path, &check->file, err);

	if (r < 0)
		return r;
	check->has_values = check->file.value_count > 0;
	config_file_wipe_values(&check->file);
	return is_shared(check) ? read_shared(check, err) : read_run(check, words, err);
}

/* As rules write them. */
static int read_limit_hosts(const struct keeper_config *config, struct err *err)
{
	for (size_t i = 0; i < config->host_limit_count; i++) {
		const char *host = config->host_limits[i].name, *why;
		struct authority authority;

		if (strchr(host, ':')) /* an address, which has been read as one */
			continue;
		if (authority_parse_pattern(bytes_of(host), 0, &authority, &why) < 0)
			return err_say(err, EINVAL, "--limit: host '%.100s' %s", host, why);
	}
	return 0;
}

/* The operator's rules come first, as in a run; what secrets add comes after them. */
static int read_policy(struct check *check, struct err *err)
{
	const struct keeper_config *config = check->keeper;
	struct authority hosts[KEEPER_HOSTS_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->rule_count; i++)
		r = policy_add(&check->policy, config->rules[i].text, config->rules[i].is_allow,
			       err);
	for (size_t i = 0; r == 0 && i < config->secret_count; i++)
		r = vault_read_hosts(&config->secrets[i], &check->policy, hosts, err);
	return r < 0 ? r : read_limit_hosts(config, err);
}

/* ---- explaining ---- */

static void explain_rules(const struct check *check)
{
	for (size_t i = 0; i < check->policy.count; i++) {
		struct buf text;

		buf_init(&text, LINE_MAX_LEN);
		policy_describe(&check->policy, i, &text);
		printf("%-8s %s: %s%s\n", policy_is_allow(&check->policy, i) ? "allow" : "deny",
		       policy_text(&check->policy, i), text.data,
		       i < check->keeper->rule_count ? "" : " (a secret's host)");
		buf_fini(&text);
	}
	if (check->policy.count == 0)
		printf("allow    nothing: no host can be reached\n");
}

static void explain_secret(const struct keeper_secret *secret)
{
	printf("secret   %s from %s: goes to ", secret->name, explain_source(secret->source));
	for (size_t i = 0; i < secret->host_count; i++)
		printf("%s%s", i > 0 ? ", " : "", secret->hosts[i]);
	printf(" %s; its placeholder may stand in",
	       secret->may_be_cleartext ? "with TLS and without" : "with TLS");
	for (unsigned int place = 1, count = 0; keeper_place_name(place); place <<= 1)
		if (secret->places & place)
			printf("%s %s", count++ > 0 ? "," : "", keeper_place_name(place));
	if (secret->inject_header)
		printf("; %s is set in every request there", secret->inject_header);
	printf("\n");
}

static void explain_llm(const struct keeper_llm *llm)
{
	const char *match = llm->prefix ? llm->prefix : llm->model;

	printf("llm      %s://%s%s takes %s%s; key from %s, as %s\n",
	       llm->url.is_tls ? "https" : "http", llm->url.authority, llm->url.base,
	       match ? (llm->prefix ? "paths below " : "the models ") : "all requests",
	       match ? match : "", llm->key ? explain_source(llm->key) : "nowhere",
	       llm->provider->name);
}

static void explain_mapping(const struct keeper_mapping *mapping)
{
	printf("connect  %s:%u is dialled at %s:%u, public or not\n", mapping->host,
	       mapping->host_port, mapping->address, mapping->address_port);
}

/* Settings that stand for themselves. */
static bool is_explained(const char *option)
{
	static const char *const prefixes[] = { "--allow-net", "--deny-net", "--secret",
						"--service",   "--llm",      "--connect-to",
						"--limit" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(option, prefixes[i], strlen(prefixes[i])) == 0)
			return strcmp(option, "--llm-port") != 0;
	return false;
}

/* Of a variable only the name: its value may be anything. */
static void explain_words(const struct config_words *list)
{
	for (size_t i = 0; i + 1 < list->count; i += 2) {
		bool is_env = strcmp(list->words[i], "--env") == 0;
		int len = (int)strcspn(list->words[i + 1], is_env ? "=" : "");

		if (!is_explained(list->words[i]))
			printf("setting  %s %.*s\n", list->words[i], len, list->words[i + 1]);
	}
}

static void explain(const struct check *check)
{
	const struct keeper_config *config = check->keeper;

	explain_rules(check);
	for (size_t i = 0; i < config->secret_count; i++)
		explain_secret(&config->secrets[i]);
	for (size_t i = 0; i < config->llm_count; i++)
		explain_llm(&config->llms[i]);
	for (size_t i = 0; i < config->mapping_count; i++)
		explain_mapping(&config->mappings[i]);
	explain_limits(config);
	if (is_shared(check))
		explain_shared(&check->shared);
	explain_words(&check->file.run);
	explain_words(&check->file.keeper);
}

/* ---- what is odd ---- */

static void warn(struct check *check, const char *fmt, ...) printf_like(2);

static void warn(struct check *check, const char *fmt, ...)
{
	va_list ap;

	check->warnings++;
	printf("warning  ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void judge_pair(struct check *check, size_t allow, size_t deny)
{
	const char *allow_text = policy_text(&check->policy, allow);
	const char *deny_text = policy_text(&check->policy, deny);

	switch (policy_conflict(&check->policy, allow, deny)) {
	case CONFLICT_NONE:
		break;
	case CONFLICT_EXCEPTION:
		printf("note     allow '%s' is an exception from deny '%s'\n", allow_text,
		       deny_text);
		break;
	case CONFLICT_HOLE:
		warn(check,
		     "deny '%s' does not hold where allow '%s' matches, which is more specific; "
		     "give the deny the same host and port",
		     deny_text, allow_text);
		break;
	case CONFLICT_MOOT:
		warn(check, "allow '%s' has no effect: deny '%s' decides", allow_text, deny_text);
		break;
	}
}

/* Those of the operator; what is odd about a secret's hosts is said of the secret. */
static void judge_rules(struct check *check)
{
	size_t count = check->keeper->rule_count;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++)
			if (policy_is_allow(&check->policy, i) &&
			    !policy_is_allow(&check->policy, j))
				judge_pair(check, i, j);
}

/* Whether requests to a host are refused as a whole; what has a star is asked for as the domain. */
static const char *find_refusal(const struct policy *policy, struct authority host, bool is_tls)
{
	struct verdict_info info;

	if (host.host[0] == '*')
		memmove(host.host, host.host + 2, strlen(host.host + 2) + 1);
	if (host.port == 0)
		host.port = is_tls ? 443 : 80;
	policy_judge(policy, &host, is_tls, BYTES("GET"), BYTES("/"), &info);
	if (info.verdict == VERDICT_ALLOW || strcmp(info.refusal_code, "method_not_allowed") == 0 ||
	    strcmp(info.refusal_code, "path_not_allowed") == 0)
		return NULL;
	return info.rule ? info.rule : "none";
}

static void judge_secret(struct check *check, const struct keeper_secret *secret)
{
	struct authority hosts[KEEPER_HOSTS_MAX];
	struct err ignored;

	/* A second time: the hosts that it allows are allowed already. */
	if (vault_read_hosts(secret, &check->policy, hosts, &ignored) < 0)
		return;
	for (size_t i = 0; i < secret->host_count; i++) {
		const char *why = find_refusal(&check->policy, hosts[i], true);

		if (why && secret->may_be_cleartext)
			why = find_refusal(&check->policy, hosts[i], false);
		if (why)
			warn(check,
			     "secret %s cannot go to %s: requests there are refused; the rule is: "
			     "%s",
			     secret->name, secret->hosts[i], why);
	}
	if (secret->may_be_cleartext)
		warn(check, "secret %s may go out over plain HTTP, where others can read it",
		     secret->name);
}

static void judge(struct check *check)
{
	const struct keeper_config *config = check->keeper;
	struct stat st;

	judge_rules(check);
	for (size_t i = 0; i < config->secret_count; i++)
		judge_secret(check, &config->secrets[i]);
	if (check->has_values && stat(check->path, &st) == 0 && st.st_mode & 077)
		warn(check, "others may read this file (mode %04o), and it has secrets in it",
		     (unsigned int)st.st_mode & 07777);
}

static int check_file(struct check *check, struct err *err)
{
	struct buf words;
	int r;

	buf_init(&words, 2 * CONFIG_FILE_MAX);
	r = read_settings(check, &words, err);
	if (r == 0)
		r = read_policy(check, err);
	if (r == 0) {
		explain(check);
		judge(check);
		printf("%s: in order, %zu warning%s\n", check->path, check->warnings,
		       check->warnings == 1 ? "" : "s");
		if (fflush(stdout) < 0)
			r = err_set(err, errno, "write to standard output");
	}
	policy_fini(&check->policy);
	run_config_fini(&check->run);
	shared_config_fini(&check->shared);
	config_file_fini(&check->file);
	buf_fini(&words);
	return r;
}

int cmd_check(int argc, char **argv)
{
	static struct check check; /* large */
	bool is_help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
	struct err err = { 0 };

	if (argc != 2 || is_help) {
		fprintf(is_help ? stdout : stderr, "usage: warder check FILE\n\n"
						   "Says what a configuration file allows and "
						   "denies, which secret goes where, "
						   "and\nwhat is odd about it. Opens no secret. "
						   "Exit status: 0 when a run, or a "
						   "shared\nkeeper if it has settings of one, "
						   "would take the file, 1 when not.\n");
		return is_help ? 0 : WARDER_EXIT_FAILED;
	}
	check.path = argv[1];
	if (check_file(&check, &err) == 0)
		return 0;
	fprintf(stderr, "warder: %s\n", err.text);
	return 1;
}
