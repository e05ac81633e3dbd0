/* SPDX-License-Identifier: MIT */
/* Limits as they are written: --limit run:requests=30/m,spend=5. */
#include "config/keeper_limits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"
#include "base/money.h"
#include "base/units.h"
#include "config/nearest.h"

#define ACCOUNT_MAX 256 /* as --billing-account */
#define HOST_MAX    255

#define RATE_MAX     (1000000 * LIMITS_PER_SECOND)
#define COUNT_MAX    UINT64_C(1000000)
#define BYTES_MAX    (UINT64_C(1) << 50)
#define DURATION_MAX (LIMITS_DURATION_DAYS * UINT64_C(86400000))

static int parse_money(const char *text, uint64_t *ret_amount)
{
	return money_parse(bytes_of(text), ret_amount);
}

/* ---- names ---- */

/* Whose limits they are. */
enum scope {
	SCOPE_RUN = 1,
	SCOPE_ACCOUNT = 2,
	SCOPE_HOST = 4,
	SCOPE_ANY = SCOPE_RUN | SCOPE_ACCOUNT | SCOPE_HOST,
};

static const char *name_scopes(unsigned int scopes)
{
	return scopes == SCOPE_RUN ? "a run" : "a run or an account";
}

/* The least is always one: 0 stands for no limit, and nobody who writes it means that. */
static const struct limit_name {
	const char *name;
	size_t offset; /* in struct limits */
	int (*parse)(const char *text, uint64_t *ret_value);
	uint64_t high;
	const char *form;
	unsigned int scopes; /* that can have it */
} names[] = {
	{ "requests", offsetof(struct limits, rate), units_parse_rate, RATE_MAX,
	  "a rate such as 10, 0.5, 30/m or 100/h", SCOPE_ANY },
	{ "burst", offsetof(struct limits, burst), units_parse_count, COUNT_MAX, "a whole number",
	  SCOPE_ANY },
	{ "concurrent", offsetof(struct limits, concurrent), units_parse_count, COUNT_MAX,
	  "a whole number", SCOPE_ANY },
	{ "bytes", offsetof(struct limits, bytes), units_parse_size, BYTES_MAX,
	  "a size such as 512M", SCOPE_ANY },
	{ "spend", offsetof(struct limits, spend), parse_money, MONEY_MAX,
	  "an amount such as 5 or 0.25", SCOPE_RUN | SCOPE_ACCOUNT },
	{ "duration", offsetof(struct limits, duration_ms), units_parse_duration, DURATION_MAX,
	  "a time such as 30s or 10m", SCOPE_RUN },
};

static const struct limit_name *find_name(const struct option *option, struct bytes word,
					  struct err *err)
{
	struct nearest nearest;

	nearest_init(&nearest, word);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (bytes_equal(bytes_of(names[i].name), word))
			return &names[i];
		nearest_try(&nearest, names[i].name);
	}
	err_say(err, EINVAL, "--%s: '%.*s' is not a limit", option->name,
		(int)bytes_cut(word, 40).len, word.data);
	if (nearest.found)
		err_hint(err, "did you mean %s?", nearest.found);
	else
		err_hint(err, "there are requests, burst, concurrent, bytes, spend and duration");
	return NULL;
}

/* A number as a limit has it, from 1 to `high`. */
static int read_amount(const char *what, const char *text, int (*parse)(const char *, uint64_t *),
		       const char *form, uint64_t high, uint64_t *ret_value, struct err *err)
{
	uint64_t value = 0;
	int r = parse(text, &value);

	if (r == -EINVAL)
		return err_say(err, EINVAL, "%s: '%.40s' is not %s", what, text, form);
	if (r < 0 || value > high)
		return err_say(err, ERANGE, "%s: '%.40s' is too large", what, text);
	if (value == 0)
		return err_say(err, EDOM, "%s: '%.40s' is too small", what, text);
	*ret_value = value;
	return 0;
}

/* NAME=VALUE */
static int read_one(const struct option *option, struct bytes text, enum scope scope,
		    struct limits *limits, struct arena *arena, struct err *err)
{
	const struct limit_name *name;
	struct bytes word;
	uint64_t value = 0;
	int r;

	if (!bytes_split(&text, '=', &word))
		return err_say(err, EINVAL, "--%s: '%.*s' is not NAME=VALUE", option->name,
			       (int)bytes_cut(text, 40).len, text.data);
	name = find_name(option, word, err);
	if (!name)
		return -EINVAL;
	if (!(name->scopes & scope))
		return err_say(err, EINVAL, "--%s: %s is a limit of %s only", option->name,
			       name->name, name_scopes(name->scopes));
	r = read_amount(arena_printf(arena, "--%s: %s", option->name, name->name),
			arena_printf(arena, "%.*s", (int)text.len, text.data), name->parse,
			name->form, name->high, &value, err);
	if (r == -EDOM)
		err_hint(err, "what has no limit is left away");
	if (r == 0)
		*(uint64_t *)(void *)((char *)limits + name->offset) = value;
	return r;
}

/* ---- scopes ---- */

static bool is_account(struct bytes id)
{
	for (size_t i = 0; i < id.len; i++)
		if (id.data[i] < 0x20 || id.data[i] > 0x7e)
			return false;
	return id.len > 0 && id.len <= ACCOUNT_MAX;
}

/* As policy/host.h has addresses: without brackets, and IPv4 as such. */
static const char *read_v6(struct arena *arena, struct bytes text)
{
	char found[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (inet_pton(AF_INET6, arena_printf(arena, "%.*s", (int)text.len, text.data), &address) !=
	    1)
		return NULL;
	if (IN6_IS_ADDR_V4MAPPED(&address))
		inet_ntop(AF_INET, &address.s6_addr[12], found, sizeof(found));
	else
		inet_ntop(AF_INET6, &address, found, sizeof(found));
	return arena_strdup(arena, found);
}

static bool is_name(struct bytes name)
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.";

	if (name.len > 2 && memcmp(name.data, "*.", 2) == 0)
		bytes_take(&name, 2);
	for (size_t i = 0; i < name.len; i++)
		if (!memchr(letters, name.data[i], sizeof(letters) - 1))
			return false;
	return name.len > 0 && name.data[0] != '.' && !memmem(name.data, name.len, "..", 2);
}

/* In the one spelling that requests are compared with; NULL when it is none. */
static const char *read_host(struct arena *arena, struct bytes host)
{
	char *copy;

	if (host.len > HOST_MAX)
		return NULL;
	if (host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']')
		return read_v6(arena, (struct bytes){ host.data + 1, host.len - 2 });
	if (!is_name(host))
		return NULL;
	if (host.data[host.len - 1] == '.')
		host.len--;
	copy = arena_printf(arena, "%.*s", (int)host.len, host.data);
	for (char *c = copy; *c; c++)
		*c = ascii_lower(*c);
	return copy;
}

/* The row of a name, which is new when there was none; NULL when there is no place. */
static struct limits *find_row(struct arena *arena, struct keeper_limit **rows, size_t *count,
			       const char *name)
{
	for (size_t i = 0; i < *count; i++)
		if (strcmp((*rows)[i].name, name) == 0)
			return &(*rows)[i].limits;
	if (*count == KEEPER_LIMITS_MAX)
		return NULL;
	if (!*rows)
		*rows = arena_alloc(arena, KEEPER_LIMITS_MAX * sizeof(**rows));
	(*rows)[*count].name = name;
	return &(*rows)[(*count)++].limits;
}

static struct limits *find_account(struct keeper_config *config, const struct option *option,
				   struct bytes id, struct err *err)
{
	struct limits *limits;

	if (!is_account(id)) {
		err_say(err, EINVAL,
			"--%s: an account is up to %d printable ASCII characters, or * for those "
			"without limits of their own",
			option->name, ACCOUNT_MAX);
		return NULL;
	}
	limits = find_row(&config->arena, &config->account_limits, &config->account_limit_count,
			  arena_printf(&config->arena, "%.*s", (int)id.len, id.data));
	if (!limits)
		err_say(err, E2BIG, "--%s: more than %d accounts", option->name, KEEPER_LIMITS_MAX);
	return limits;
}

static struct limits *find_host(struct keeper_config *config, const struct option *option,
				struct bytes host, struct err *err)
{
	const char *name = read_host(&config->arena, host);
	struct limits *limits;

	if (!name) {
		err_say(err, EINVAL,
			"--%s: '%.*s' is not a host such as api.example.com or *.example.com",
			option->name, (int)bytes_cut(host, 60).len, host.data);
		return NULL;
	}
	limits = find_row(&config->arena, &config->host_limits, &config->host_limit_count, name);
	if (!limits)
		err_say(err, E2BIG, "--%s: more than %d hosts", option->name, KEEPER_LIMITS_MAX);
	return limits;
}

static int say_scope(const struct option *option, struct bytes word, struct err *err)
{
	static const char *const scopes[] = { "run", "account", "host" };
	static const char *const forms[] = { "run", "account=ID", "host=HOST" };
	struct nearest nearest;

	err_say(err, EINVAL, "--%s: '%.*s' is not run, account=ID or host=HOST", option->name,
		(int)bytes_cut(word, 40).len, word.data);
	nearest_init(&nearest, word);
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
		nearest_try(&nearest, scopes[i]);
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
		if (nearest.found == scopes[i])
			err_hint(err, "did you mean %s?", forms[i]);
	return -EINVAL;
}

static int find_scope(struct keeper_config *config, const struct option *option, struct bytes text,
		      enum scope *ret_scope, struct limits **ret_limits, struct err *err)
{
	struct bytes kind, rest = text;

	*ret_scope = SCOPE_RUN;
	if (bytes_equal(text, BYTES("run"))) {
		*ret_limits = &config->run_limits;
		return 0;
	}
	if (!bytes_split(&rest, '=', &kind))
		return say_scope(option, text, err);
	*ret_scope = bytes_equal(kind, BYTES("host")) ? SCOPE_HOST : SCOPE_ACCOUNT;
	if (bytes_equal(kind, BYTES("account")))
		*ret_limits = find_account(config, option, rest, err);
	else if (*ret_scope == SCOPE_HOST)
		*ret_limits = find_host(config, option, rest, err);
	else
		return say_scope(option, kind, err);
	return *ret_limits ? 0 : -EINVAL;
}

/* ---- readers ---- */

/* The last colon is the one that counts: an account's name may have others. */
int keeper_read_limit(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	const char *colon = strrchr(text, ':');
	struct limits *limits = NULL;
	enum scope scope = SCOPE_RUN;
	struct bytes rest, one;
	int r;

	if (!colon)
		return err_say(err, EINVAL, "--%s: '%.60s' is not %s", option->name, text,
			       option->argument);
	r = find_scope(config, option, (struct bytes){ text, (size_t)(colon - text) }, &scope,
		       &limits, err);
	rest = bytes_of(colon + 1);
	while (r == 0 && bytes_split(&rest, ',', &one))
		r = read_one(option, one, scope, limits, &config->arena, err);
	return r < 0 ? r : read_one(option, rest, scope, limits, &config->arena, err);
}

int keeper_read_money(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;

	return read_amount(arena_printf(&config->arena, "--%s", option->name), text, parse_money,
			   "an amount such as 5 or 0.25", MONEY_MAX,
			   (uint64_t *)(void *)((char *)data + option->offset), err);
}

static int check_burst(const char *scope, const char *name, const struct limits *limits,
		       struct err *err)
{
	if (limits->burst == 0 || limits->rate > 0)
		return 0;
	return err_say(err, EINVAL,
		       "--limit: %s%.60s: burst belongs to requests, which has no limit", scope,
		       name);
}

int keeper_limits_check(const struct keeper_config *config, struct err *err)
{
	int r = check_burst("run", "", &config->run_limits, err);

	for (size_t i = 0; r == 0 && i < config->account_limit_count; i++)
		r = check_burst("account=", config->account_limits[i].name,
				&config->account_limits[i].limits, err);
	for (size_t i = 0; r == 0 && i < config->host_limit_count; i++)
		r = check_burst("host=", config->host_limits[i].name,
				&config->host_limits[i].limits, err);
	return r;
}
