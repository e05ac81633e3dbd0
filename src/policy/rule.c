/* SPDX-License-Identifier: MIT */
/* Rules: read once, ranked once, and asked for every request. */
#include "policy/rule.h"

#include <errno.h>

#include "base/die.h"
#include "http/charset.h"
#include "http/path.h"
#include "policy/glob.h"

#define PORT_TLS   443
#define PORT_PLAIN 80

struct rule {
	const char *text;
	const char *host; /* or a wildcard */
	struct bytes *methods;
	size_t method_count; /* 0: any */
	struct glob path;
	struct bytes path_text; /* as it was written */
	bool has_path;
	uint16_t port; /* 0: see rule.h */
	bool is_allow;
	bool is_tcp;
	uint32_t rank; /* how specific it is; compares as a number */
};

/* How far a rule goes along with a request, in the order in which its parts are looked at. */
enum reach {
	REACH_NOTHING,
	REACH_HOST,
	REACH_PORT,
	REACH_METHOD,
	REACH_ALL,
};

struct request {
	const struct authority *authority;
	bool is_tls;
	struct bytes method;
	const struct glob_path *path; /* NULL when no rule looks at it */
};

/* --- reading --- */

static int refuse(struct err *err, const struct rule *rule, const char *part, const char *why)
{
	err_say(err, EINVAL, "rule '%.200s': %s%s", rule->text, part, why);
	return -EINVAL;
}

/* What is repeated in messages and in the log has to be harmless there. */
static int check_text(const char *text, struct err *err)
{
	const char *scheme = strstr(text, "://");
	const char *host = scheme ? scheme + 3 : text;
	size_t len = strlen(text);

	if (len > RULE_TEXT_MAX)
		return err_say(err, EINVAL, "a rule of more than %d characters", RULE_TEXT_MAX);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return err_say(err, EINVAL,
				       "a rule with characters that are not ASCII; "
				       "write names as xn--… and paths as %%XX");
		else if (charset_is_control(text[i]) || text[i] == '\t')
			return err_say(err, EINVAL, "a rule with a control character in it");
	/* What stands before an @ may be a password, unless it is in the path. */
	if (memchr(text, '@', strcspn(text, "/")) || memchr(host, '@', strcspn(host, "/")))
		return err_say(err, EINVAL, "a rule with user information in front of its host");
	return 0;
}

static bool is_method(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] >= 'a' && text.data[i] <= 'z')
			return false;
	return charset_is_token(text);
}

static int add_method(struct rule *rule, struct bytes method, struct err *err)
{
	if (!is_method(method))
		return refuse(err, rule, "",
			      "in front of the host are methods in capitals, with "
			      "commas and no spaces between them");
	if (rule->method_count == RULE_METHODS_MAX)
		return refuse(err, rule, "", "too many methods; none at all means every one");
	rule->methods[rule->method_count++] = method;
	return 0;
}

/* Takes "METHOD,METHOD " off the front, if it is there. */
static int read_methods(struct policy *policy, struct rule *rule, struct bytes *text,
			struct err *err)
{
	struct bytes list, method;
	int r = 0;

	if (!bytes_split(text, ' ', &list))
		return 0;
	rule->methods = arena_alloc(&policy->arena, RULE_METHODS_MAX * sizeof(*rule->methods));
	while (r == 0 && bytes_split(&list, ',', &method))
		r = add_method(rule, method, err);
	if (r == 0)
		r = add_method(rule, list, err);
	while (text->len > 0 && text->data[0] == ' ')
		bytes_take(text, 1);
	return r;
}

/* Takes "tcp://" off the front; no other scheme is known. */
static int read_scheme(struct rule *rule, struct bytes *text, struct err *err)
{
	static const char tcp[] = "tcp://";

	if (bytes_has_prefix_nocase(*text, BYTES(tcp))) {
		bytes_take(text, sizeof(tcp) - 1);
		rule->is_tcp = true;
		return 0;
	}
	if (bytes_has_prefix_nocase(*text, BYTES("https://")) ||
	    bytes_has_prefix_nocase(*text, BYTES("http://")))
		return refuse(err, rule, "",
			      "leave the scheme away: host[:port][/path] means both");
	if (text->data && memmem(text->data, text->len, "://", 3))
		return refuse(err, rule, "", "the only scheme is tcp://");
	return 0;
}

/* The glob that matches every path restricts nothing, and is not asked whether one is plain. */
static bool is_every_path(struct bytes path)
{
	return path.len == 0 || bytes_equal(path, BYTES("/**"));
}

static int read_path(struct policy *policy, struct rule *rule, struct bytes path, struct err *err)
{
	const char *why;

	if (rule->is_tcp && path.len > 0)
		return refuse(err, rule, "", "tcp:// has no path");
	if (is_every_path(path))
		return 0;
	why = glob_parse(&policy->arena, path, !rule->is_allow, &rule->path);
	if (why)
		return refuse(err, rule, "its path ", why);
	rule->path_text = path;
	rule->has_path = true;
	return 0;
}

static int read_host(struct policy *policy, struct rule *rule, struct bytes host, struct err *err)
{
	struct authority authority;
	const char *why;

	if (authority_parse_pattern(host, 0, &authority, &why) < 0)
		return refuse(err, rule, "its host ", why);
	if (rule->is_tcp && authority.port == 0)
		return refuse(err, rule, "", "tcp:// needs a port");
	if (rule->is_tcp && rule->method_count > 0)
		return refuse(err, rule, "", "tcp:// has no methods");
	rule->host = arena_strdup(&policy->arena, authority.host);
	rule->port = authority.port;
	return 0;
}

/* Each field outweighs all that are to the right of it. */
static uint32_t rank_of(const struct rule *rule)
{
	uint32_t host = rule->host[0] == '*' ? (uint32_t)strlen(rule->host) : UINT16_MAX;
	uint32_t prefix = rule->has_path ? (uint32_t)rule->path.prefix_len : 0;

	_Static_assert(GLOB_MAX < 1 << 14, "a prefix has 14 bits");
	return host << 16 | (uint32_t)(rule->port != 0) << 15 |
	       (uint32_t)(rule->method_count > 0) << 14 | prefix;
}

static int read_rule(struct policy *policy, struct rule *rule, struct err *err)
{
	struct bytes rest = bytes_of(rule->text), host;
	const char *slash;
	int r;

	r = read_methods(policy, rule, &rest, err);
	if (r == 0)
		r = read_scheme(rule, &rest, err);
	if (r < 0)
		return r;
	slash = rest.len > 0 ? memchr(rest.data, '/', rest.len) : NULL;
	host = bytes_take(&rest, slash ? (size_t)(slash - rest.data) : rest.len);
	r = read_host(policy, rule, host, err);
	if (r == 0)
		r = read_path(policy, rule, rest, err);
	if (r == 0)
		rule->rank = rank_of(rule);
	return r;
}

static void grow(struct policy *policy)
{
	size_t size = policy->size ? policy->size * 2 : 16;
	struct rule *rules = reallocarray(policy->rules, size, sizeof(*rules));

	if (!rules)
		die_no_memory();
	policy->rules = rules;
	policy->size = size;
}

int policy_add(struct policy *policy, const char *text, bool is_allow, struct err *err)
{
	struct rule rule = { .is_allow = is_allow };
	int r = check_text(text, err);

	if (r < 0)
		return r;
	if (policy->count == POLICY_RULES_MAX)
		return err_say(err, E2BIG, "more than %d rules", POLICY_RULES_MAX);
	rule.text = arena_strdup(&policy->arena, text);
	r = read_rule(policy, &rule, err);
	if (r < 0)
		return r;
	if (policy->count == policy->size)
		grow(policy);
	policy->rules[policy->count++] = rule;
	policy->has_paths = policy->has_paths || rule.has_path;
	return 0;
}

void policy_fini(struct policy *policy)
{
	free(policy->rules);
	arena_fini(&policy->arena);
	*policy = (struct policy){ 0 };
}

/* --- deciding --- */

static bool has_port(const struct rule *rule, uint16_t port, bool is_tls)
{
	if (rule->port != 0)
		return rule->port == port;
	return !rule->is_allow || port == (is_tls ? PORT_TLS : PORT_PLAIN);
}

static bool has_method(const struct rule *rule, struct bytes method)
{
	for (size_t i = 0; i < rule->method_count; i++)
		/* A server that takes "post" for POST must not get round a deny. */
		if (rule->is_allow ? bytes_equal(rule->methods[i], method)
				   : bytes_equal_nocase(rule->methods[i], method))
			return true;
	return rule->method_count == 0;
}

static bool is_plain(const struct glob_path *path)
{
	return path && path->is_plain;
}

static bool has_path(const struct rule *rule, const struct glob_path *path)
{
	if (!rule->has_path)
		return true;
	/* What servers read differently could be anything that must not get through. */
	return is_plain(path) ? glob_matches(&rule->path, path) : !rule->is_allow;
}

static enum reach reach_of(const struct rule *rule, const struct request *request)
{
	if (!host_matches(rule->host, request->authority->host))
		return REACH_NOTHING;
	if (!has_port(rule, request->authority->port, request->is_tls))
		return REACH_HOST;
	if (!has_method(rule, request->method))
		return REACH_PORT;
	return has_path(rule, request->path) ? REACH_ALL : REACH_METHOD;
}

/* The one that decides, of two of which the first may be NULL. */
static const struct rule *stronger(const struct rule *a, const struct rule *b)
{
	if (!a || b->rank > a->rank || (b->rank == a->rank && a->is_allow && !b->is_allow))
		return b;
	return a;
}

static const char *code_of_reach(enum reach reach)
{
	static const char *const codes[] = {
		[REACH_NOTHING] = "host_not_allowed",
		[REACH_HOST] = "port_not_allowed",
		[REACH_PORT] = "method_not_allowed",
		[REACH_METHOD] = "path_not_allowed",
	};

	return codes[reach];
}

static const char *code_of_deny(const struct rule *rule, const struct request *request)
{
	return rule->has_path && !is_plain(request->path) ? "path_not_allowed" : "denied";
}

static void judge(const struct policy *policy, const struct request *request,
		  struct verdict_info *ret_info)
{
	const struct rule *best = NULL;
	enum reach furthest = REACH_NOTHING;

	for (size_t i = 0; i < policy->count; i++) {
		const struct rule *rule = &policy->rules[i];
		enum reach reach;

		if (rule->is_tcp && rule->is_allow)
			continue;
		reach = reach_of(rule, request);
		if (reach == REACH_ALL)
			best = stronger(best, rule);
		else if (rule->is_allow && reach > furthest)
			furthest = reach;
	}
	*ret_info = (struct verdict_info){ .verdict = VERDICT_NO_RULE };
	if (!best) {
		ret_info->refusal_code = code_of_reach(furthest);
		return;
	}
	ret_info->rule = best->text;
	ret_info->verdict = best->is_allow ? VERDICT_ALLOW : VERDICT_DENY;
	if (!best->is_allow)
		ret_info->refusal_code = code_of_deny(best, request);
}

/* Apart, since what it puts on the stack is large. */
static void judge_with_path(const struct policy *policy, struct request *request,
			    struct bytes target, struct verdict_info *ret_info)
{
	struct glob_path path;
	struct bytes query;

	glob_path_read(http_path_split(target, &query), &path);
	request->path = &path;
	judge(policy, request, ret_info);
	request->path = NULL;
}

void policy_judge(const struct policy *policy, const struct authority *authority, bool is_tls,
		  struct bytes method, struct bytes path, struct verdict_info *ret_info)
{
	struct request request = { .authority = authority, .is_tls = is_tls, .method = method };

	if (policy->has_paths)
		judge_with_path(policy, &request, path, ret_info);
	else
		judge(policy, &request, ret_info);
}

static bool is_of_connections(const struct rule *rule)
{
	return rule->is_tcp || (!rule->is_allow && !rule->has_path && rule->method_count == 0);
}

bool policy_is_tunnel(const struct policy *policy, const struct authority *authority)
{
	const struct rule *best = NULL;

	for (size_t i = 0; i < policy->count; i++) {
		const struct rule *rule = &policy->rules[i];

		if (is_of_connections(rule) && host_matches(rule->host, authority->host) &&
		    has_port(rule, authority->port, false))
			best = stronger(best, rule);
	}
	return best && best->is_allow;
}

/* Of denies only those count that nothing less specific gets past, whatever it asks for. */
static bool is_of_names(const struct rule *rule)
{
	return rule->is_allow || (is_of_connections(rule) && rule->port == 0);
}

bool policy_knows_host(const struct policy *policy, const char *host)
{
	const struct rule *best = NULL;

	for (size_t i = 0; i < policy->count; i++) {
		const struct rule *rule = &policy->rules[i];

		if (is_of_names(rule) && host_matches(rule->host, host))
			best = stronger(best, rule);
	}
	return best && best->is_allow;
}

/* The first rule from `at` on about this host, or NULL for any host. */
static const struct rule *find_of_names(const struct policy *policy, size_t *at, const char *host)
{
	for (; *at < policy->count; ++*at) {
		const struct rule *rule = &policy->rules[*at];

		if (is_of_names(rule) && (!host || strcmp(rule->host, host) == 0))
			return rule;
	}
	return NULL;
}

bool policy_next_host(const struct policy *policy, size_t *at, const char **ret_pattern,
		      bool *ret_is_known)
{
	const struct rule *first, *rule, *best;
	size_t earlier = 0, later;

	for (; (first = find_of_names(policy, at, NULL)); ++*at, earlier = 0)
		if (find_of_names(policy, &earlier, first->host) == first)
			break; /* nobody before it has spoken of its host */
	if (!first)
		return false;
	best = first;
	for (later = *at + 1; (rule = find_of_names(policy, &later, first->host)); later++)
		best = stronger(best, rule);
	++*at;
	*ret_pattern = first->host;
	*ret_is_known = best->is_allow;
	return true;
}

static size_t add_port(uint16_t port, uint16_t *ports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ports[i] == port)
			return count;
	ports[count] = port;
	return count + 1;
}

size_t policy_ports(const struct policy *policy, uint16_t ret_ports[POLICY_PORTS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < policy->count; i++) {
		const struct rule *rule = &policy->rules[i];

		if (!rule->is_allow)
			continue;
		if (rule->port != 0) {
			count = add_port(rule->port, ret_ports, count);
			continue;
		}
		count = add_port(PORT_TLS, ret_ports, count);
		count = add_port(PORT_PLAIN, ret_ports, count);
	}
	return count;
}

/* --- explaining --- */

bool policy_is_allow(const struct policy *policy, size_t rule)
{
	return policy->rules[rule].is_allow;
}

const char *policy_text(const struct policy *policy, size_t rule)
{
	return policy->rules[rule].text;
}

static void describe_methods(const struct rule *rule, struct buf *out)
{
	for (size_t i = 0; i < rule->method_count; i++) {
		if (i > 0)
			buf_add_text(out, i + 1 < rule->method_count ? ", " : " or ");
		buf_add(out, rule->methods[i].data, rule->methods[i].len);
	}
	if (rule->method_count == 0)
		buf_add_text(out, rule->is_tcp ? "any connection" : "any request");
}

static void describe_port(const struct rule *rule, struct buf *out)
{
	if (rule->port != 0) {
		buf_add_text(out, "port ");
		buf_add_number(out, rule->port);
	} else {
		buf_add_text(out, rule->is_allow ? "port 443 with TLS or 80 without" : "any port");
	}
}

void policy_describe(const struct policy *policy, size_t index, struct buf *out)
{
	const struct rule *rule = &policy->rules[index];
	bool is_wildcard = rule->host[0] == '*';

	describe_methods(rule, out);
	buf_add_text(out, " to ");
	buf_add_text(out, is_wildcard ? rule->host + 2 : rule->host);
	if (is_wildcard)
		buf_add_text(out, " and every name below it");
	buf_add_text(out, ", ");
	describe_port(rule, out);
	if (rule->has_path) {
		buf_add_text(out, ", path ");
		buf_add(out, rule->path_text.data, rule->path_text.len);
	}
	if (rule->is_tcp && rule->is_allow)
		buf_add_text(out, "; nobody looks into it, and no secret goes there");
}

/* Whether every host of one pattern is the other's. */
static bool has_hosts_of(const char *pattern, const char *inner)
{
	if (inner[0] == '*' && pattern[0] != '*')
		return false;
	return host_matches(pattern, inner[0] == '*' ? inner + 2 : inner);
}

static bool is_port_shared(const struct rule *allow, const struct rule *deny)
{
	if (deny->port == 0 || deny->port == allow->port)
		return true;
	return allow->port == 0 && (deny->port == PORT_TLS || deny->port == PORT_PLAIN);
}

static bool is_method_shared(const struct rule *a, const struct rule *b)
{
	for (size_t i = 0; i < a->method_count; i++)
		if (has_method(b, a->methods[i]))
			return true;
	return a->method_count == 0 || b->method_count == 0;
}

/* What stands before the first stars decides; a deny is in lower case. */
static bool is_path_shared(const struct rule *a, const struct rule *b)
{
	size_t len = a->path.prefix_len < b->path.prefix_len ? a->path.prefix_len
							     : b->path.prefix_len;

	if (!a->has_path || !b->has_path)
		return true;
	for (size_t i = 0; i < len; i++)
		if (ascii_lower((char)a->path.tokens[i]) != ascii_lower((char)b->path.tokens[i]))
			return false;
	return true;
}

static bool is_shared(const struct rule *allow, const struct rule *deny)
{
	if (allow->is_tcp && !is_of_connections(deny))
		return false;
	return (has_hosts_of(allow->host, deny->host) || has_hosts_of(deny->host, allow->host)) &&
	       is_port_shared(allow, deny) && is_method_shared(allow, deny) &&
	       is_path_shared(allow, deny);
}

/* Whether a deny matches all that an allow does; of paths only that it has none is understood. */
static bool has_all_of(const struct rule *deny, const struct rule *allow)
{
	bool has_methods = deny->method_count == 0 || allow->method_count > 0;

	for (size_t i = 0; i < allow->method_count; i++)
		has_methods = has_methods && has_method(deny, allow->methods[i]);
	return has_hosts_of(deny->host, allow->host) && has_methods && !deny->has_path &&
	       (deny->port == 0 || deny->port == allow->port);
}

enum conflict policy_conflict(const struct policy *policy, size_t allow_index, size_t deny_index)
{
	const struct rule *allow = &policy->rules[allow_index], *deny = &policy->rules[deny_index];
	bool is_outranked = allow->rank > deny->rank;

	if (!is_shared(allow, deny))
		return CONFLICT_NONE;
	if (has_all_of(deny, allow))
		return is_outranked ? CONFLICT_EXCEPTION : CONFLICT_MOOT;
	return is_outranked ? CONFLICT_HOLE : CONFLICT_NONE;
}
