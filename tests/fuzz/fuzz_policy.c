/* SPDX-License-Identifier: MIT */
/*
 * Hosts and rules on any bytes. A host that is accepted is its own canonical form, and only
 * of bytes that are harmless everywhere; a deny of a host that comes last is never got past
 * by anything that is no more specific; globs mean what a slow matcher says.
 *
 * The input is lines: an authority, a method, a path, and rules, a deny with '-' in front.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/path.h"
#include "policy/glob.h"
#include "policy/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ORACLE_MAX 24 /* it takes exponential time */

static void check(bool is_true)
{
	if (!is_true)
		abort();
}

static struct bytes take_line(struct bytes *text)
{
	struct bytes line = *text;

	if (!bytes_split(text, '\n', &line))
		*text = (struct bytes){ NULL, 0 };
	return line;
}

/* The same host, written once more. */
static void check_again(const struct authority *authority)
{
	char text[HOST_MAX + 16];
	struct authority again;

	snprintf(text, sizeof(text), strchr(authority->host, ':') ? "[%s]:%u" : "%s:%u",
		 authority->host, authority->port);
	check(authority_parse(bytes_of(text), 0, &again) == 0);
	check(strcmp(again.host, authority->host) == 0);
	check(again.port == authority->port && again.is_address == authority->is_address);
}

static bool check_authority(struct bytes text, struct authority *ret)
{
	struct authority pattern;
	const char *why = NULL;
	int r = authority_parse(text, 443, ret);

	/* Whatever is a host is also the pattern of this host alone. */
	if (authority_parse_pattern(text, 443, &pattern, &why) < 0)
		check(r < 0 && why);
	else
		check(pattern.host[0] == '*' ? r < 0 : r == 0);
	if (r < 0)
		return false;
	check(strspn(ret->host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == strlen(ret->host));
	check(ret->host[0] && ret->host[strlen(ret->host) - 1] != '.' && ret->port > 0);
	check(host_matches(ret->host, ret->host) && strcmp(pattern.host, ret->host) == 0);
	check_again(ret);
	return true;
}

static bool means(struct bytes glob, struct bytes text)
{
	bool is_star = glob.len > 0 && glob.data[0] == '*';
	bool is_double = is_star && glob.len > 1 && glob.data[1] == '*';
	struct bytes glob_rest = glob, text_rest = text;

	if (glob.len == 0)
		return text.len == 0;
	bytes_take(&glob_rest, is_double ? 2 : 1);
	if (is_star && means(glob_rest, text))
		return true;
	if (text.len == 0)
		return false;
	bytes_take(&text_rest, 1);
	if (is_star)
		return (is_double || text.data[0] != '/') && means(glob, text_rest);
	return glob.data[0] == text.data[0] && means(glob_rest, text_rest);
}

static void check_glob(struct bytes text, struct bytes path)
{
	static struct glob_path read;
	struct arena arena = { 0 };
	struct glob glob, loose;

	glob_path_read(path, &read);
	if (text.len <= GLOB_MAX && !glob_parse(&arena, text, false, &glob)) {
		bool is_match = glob_matches(&glob, &read);

		check(!is_match || read.is_plain);
		/* What must not get through is at least all that an allow would let through. */
		if (!memchr(text.data, ';', text.len))
			check(!glob_parse(&arena, text, true, &loose));
		if (is_match && !memchr(text.data, ';', text.len) &&
		    !memchr(path.data, ';', path.len))
			check(glob_matches(&loose, &read));
		if (read.is_plain && text.len <= ORACLE_MAX && path.len <= ORACLE_MAX &&
		    !memchr(text.data, '%', text.len) && !memchr(path.data, '%', path.len))
			check(is_match == means(text, path));
	}
	arena_fini(&arena);
}

static void add_rules(struct policy *policy, struct bytes rest)
{
	char text[RULE_TEXT_MAX + 2];
	struct err err;

	while (rest.len > 0 && policy->count < 32) {
		struct bytes line = take_line(&rest);
		bool is_allow = line.len == 0 || line.data[0] != '-';
		size_t count = policy->count;
		int r;

		bytes_take(&line, !is_allow);
		snprintf(text, sizeof(text), "%.*s", (int)line.len, line.data ? line.data : "");
		err = (struct err){ 0 };
		r = policy_add(policy, text, is_allow, &err);
		check(policy->count == count + (r == 0));
		check(r == 0 || err.text[0]);
	}
}

static void check_info(const struct verdict_info *info)
{
	check((info->verdict == VERDICT_NO_RULE) == !info->rule);
	check((info->verdict == VERDICT_ALLOW) == !info->refusal_code);
}

static void check_policy(struct policy *policy, const struct authority *authority,
			 struct bytes method, struct bytes path)
{
	struct verdict_info info, again;
	char text[HOST_MAX + 32];
	struct err err;

	policy_judge(policy, authority, true, method, path, &info);
	check_info(&info);
	if (info.verdict == VERDICT_ALLOW || policy_is_tunnel(policy, authority))
		check(policy_knows_host(policy, authority->host));
	/* Nothing is more specific than this host and port but what also has methods or a path. */
	snprintf(text, sizeof(text), strchr(authority->host, ':') ? "[%s]:%u" : "%s:%u",
		 authority->host, authority->port);
	check(policy_add(policy, text, false, &err) == 0);
	check(!policy_is_tunnel(policy, authority));
	policy_judge(policy, authority, true, method, path, &again);
	check_info(&again);
	check(again.verdict != VERDICT_NO_RULE);
	if (again.verdict == VERDICT_ALLOW)
		check(info.verdict == VERDICT_ALLOW && again.rule == info.rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes rest = { (const char *)data, size };
	struct bytes host = take_line(&rest), method = take_line(&rest), path = take_line(&rest);
	struct policy policy = { 0 };
	struct authority authority;
	uint16_t ports[POLICY_PORTS_MAX];
	struct bytes slash = rest;

	if (slash.len > 0 && memchr(slash.data, '/', slash.len)) {
		bytes_take(&slash,
			   (size_t)((const char *)memchr(slash.data, '/', slash.len) - slash.data));
		if (path.len > 0)
			check_glob(take_line(&slash), path);
	}
	add_rules(&policy, rest);
	check(policy_ports(&policy, ports) <= policy.count + 1);
	if (check_authority(host, &authority))
		check_policy(&policy, &authority, method, path);
	policy_fini(&policy);
	return 0;
}
