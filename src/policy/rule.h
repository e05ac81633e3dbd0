/* SPDX-License-Identifier: MIT */
/*
 * What a run may reach: rules as an operator writes them, and the decision on one request.
 *
 *   [METHOD[,METHOD] ]host[:port][/path-glob]
 *   tcp://host:port
 *
 * host may be "*.name" (host.h), the path is a glob (glob.h). An allow without a port means 443
 * with TLS and 80 without; a deny without one means every port. Of the rules that match a
 * request the most specific one decides: an exact host before a wildcard and a longer wildcard
 * before a shorter one; then with a port before without; then with methods before without; then
 * the longer text before the path's first star. Among equals a deny decides. What no rule
 * matches is refused, so an empty policy allows nothing (INV-NETWORK-DENY).
 *
 * A path that is not plain (glob.h) matches no allow that has a path and every deny that has
 * one (INV-FAIL-CLOSED). A glob of one slash and two stars matches every path, plain or not: it
 * is the same as no path.
 */
#ifndef POLICY_RULE_H
#define POLICY_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "policy/host.h"

#define POLICY_RULES_MAX 1024
#define POLICY_PORTS_MAX (POLICY_RULES_MAX + 1) /* only 443 and 80 come from one rule */
#define RULE_TEXT_MAX    1024
#define RULE_METHODS_MAX 16

struct rule;

/* All zero is the empty policy. */
struct policy {
	struct arena arena;
	struct rule *rules;
	size_t count, size;
	bool has_paths; /* some rule looks at them */
};

enum verdict {
	VERDICT_ALLOW,
	VERDICT_DENY,    /* a rule says no */
	VERDICT_NO_RULE, /* no rule says yes */
};

struct verdict_info {
	enum verdict verdict;
	const char *rule; /* text of the rule that decided, or NULL; lives as long as the policy */
	/*
	 * NULL when allowed; else host_not_allowed, port_not_allowed, method_not_allowed or
	 * path_not_allowed, the furthest that any allow got, or denied.
	 */
	const char *refusal_code;
};

/*
 * Adds one rule. 0, -EINVAL or -E2BIG; the message names the rule and what is wrong with it.
 * A policy is unchanged by a failure.
 */
int policy_add(struct policy *policy, const char *text, bool is_allow, struct err *err) must_check;

/* Judges a request. `path` is the target's, its query is not looked at. */
void policy_judge(const struct policy *policy, const struct authority *authority, bool is_tls,
		  struct bytes method, struct bytes path, struct verdict_info *ret_info);

/*
 * Whether a tcp:// rule allows an opaque connection, on which no secret ever goes. Denies of
 * the whole host or port count here too; a tcp:// deny counts for requests as well.
 */
bool policy_is_tunnel(const struct policy *policy, const struct authority *authority);

/* Whether anything at all may be allowed on a host: what its name resolves for, where dns=deny. */
bool policy_knows_host(const struct policy *policy, const char *host);

/*
 * The same for every host that rules are about: a pattern, which comes once, and whether anything
 * at all may be allowed on a host for which it is the most specific. `*at` is 0 to begin with;
 * false: there are no more.
 */
bool policy_next_host(const struct policy *policy, size_t *at, const char **ret_pattern,
		      bool *ret_is_known);

/* The ports that allows speak of, each once: 443 and 80 for those without. Returns how many. */
size_t policy_ports(const struct policy *policy, uint16_t ret_ports[POLICY_PORTS_MAX]);

/* ---- for whoever explains a policy; rules are named by the order they were added in ---- */

/* Adds what a rule is about, in words: "GET to api.test, port 443 with TLS or 80 without". */
void policy_describe(const struct policy *policy, size_t rule, struct buf *out);

/* How an allow and a deny stand to each other. */
enum conflict {
	CONFLICT_NONE,      /* nothing that both match, or the deny decides, as one expects */
	CONFLICT_EXCEPTION, /* all that the allow matches, the deny would, too: it is an exception
			     */
	CONFLICT_HOLE,      /* the deny says more than the allow, and is outranked by it anyway */
	CONFLICT_MOOT,      /* the allow is never heard: the deny decides on all that it matches */
};

/* Where paths may or may not have something in common, they are taken to. */
enum conflict policy_conflict(const struct policy *policy, size_t allow, size_t deny);

bool policy_is_allow(const struct policy *policy, size_t rule);
const char *policy_text(const struct policy *policy, size_t rule);

void policy_fini(struct policy *policy);

#endif
