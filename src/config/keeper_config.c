/* SPDX-License-Identifier: MIT */
/* The rows of keeper.def, and the kinds that only they have. */
#include "config/keeper_config.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/money.h"
#include "config/keeper_limits.h"
#include "config/labels.h"

#define DEFAULT_CONNECT_MS    10000
#define DEFAULT_FIRST_BYTE_MS 600000
#define DEFAULT_IDLE_MS       3600000
#define DEFAULT_CONNECTIONS   1024
#define DEFAULT_SPEND_RESERVE (MONEY_UNIT / 20)

void keeper_config_init(struct keeper_config *config)
{
	*config = (struct keeper_config){
		.durability = "write",
		.dns = "explain",
		.connect_ms = DEFAULT_CONNECT_MS,
		.first_byte_ms = DEFAULT_FIRST_BYTE_MS,
		.idle_ms = DEFAULT_IDLE_MS,
		.connections = DEFAULT_CONNECTIONS,
		.spend_reserve = DEFAULT_SPEND_RESERVE,
	};
}

void keeper_config_fini(struct keeper_config *config)
{
	arena_fini(&config->arena);
}

/* ---- kinds ---- */

static bool has_rest(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0 && text[strlen(prefix)];
}

int keeper_check_source(const char *option, const char *text, struct err *err)
{
	/* A value of the configuration file, as the words of one name it. */
	if (has_rest(text, "config:"))
		return 0;
	return keeper_check_outer_source(option, text, err);
}

int keeper_check_outer_source(const char *option, const char *text, struct err *err)
{
	static const char *const prefixes[] = { "env:", "file:", "exec:" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (has_rest(text, prefixes[i]))
			return 0;
	err_say(err, EINVAL, "--%s: a secret comes from env:NAME, file:PATH or exec:COMMAND",
		option);
	err_hint(err, "what was given is not shown, in case it is the secret itself");
	return -EINVAL;
}

/* [MATCH=]URL: a URL has no = before its "://". */
static int read_llm(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	struct keeper_llm llm = { .prefix = NULL };
	struct err inner;
	const char *scheme = strstr(text, "://"), *equals = strchr(text, '=');
	int r;

	if (config->llm_count == KEEPER_LLMS_MAX)
		return err_say(err, E2BIG, "--llm: more than %d upstreams", KEEPER_LLMS_MAX);
	if (equals && (!scheme || equals < scheme)) {
		size_t len = (size_t)(equals - text);

		while (text[0] == '/' && len > 0 && text[len - 1] == '/')
			len--;
		if (len == 0)
			return err_say(err, EINVAL, "--%s: '%.60s' is not %s", option->name, text,
				       option->argument);
		*(text[0] == '/' ? &llm.prefix : &llm.model) = arena_printf(&config->arena, "%.*s",
									    (int)len, text);
		text = equals + 1;
	}
	r = url_parse(text, &config->arena, &llm.url, &inner);
	if (r < 0)
		return err_say(err, -r, "--%s: %.400s", option->name, inner.text);
	llm.provider = provider_of_host(llm.url.host);
	config->llms[config->llm_count++] = llm;
	return 0;
}

static struct keeper_llm *last_llm(struct keeper_config *config, const struct option *option,
				   struct err *err)
{
	if (config->llm_count > 0)
		return &config->llms[config->llm_count - 1];
	err_say(err, EINVAL, "--%s: belongs to the --llm before it, and there is none",
		option->name);
	return NULL;
}

static int read_llm_key(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	struct keeper_llm *llm = last_llm(config, option, err);
	int r = llm ? keeper_check_source(option->name, text, err) : -EINVAL;

	if (r == 0)
		llm->key = arena_strdup(&config->arena, text);
	return r;
}

static int read_llm_provider(void *data, const struct option *option, const char *text,
			     struct err *err)
{
	struct keeper_llm *llm = last_llm(data, option, err);
	const struct provider *provider = provider_find(text);

	if (!llm)
		return -EINVAL;
	if (!provider)
		return err_say(err, EINVAL, "--%s: '%.40s' is not one of %s", option->name, text,
			       option->argument);
	llm->provider = provider;
	return 0;
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* What goes into a header: printable ASCII. */
static int add_rule(struct keeper_config *config, const struct option *option, const char *text,
		    bool is_allow, struct err *err)
{
	if (!*text)
		return err_say(err, EINVAL, "--%s: is empty", option->name);
	if (config->rule_count == KEEPER_RULES_MAX)
		return err_say(err, E2BIG, "--%s: more than %d rules", option->name,
			       KEEPER_RULES_MAX);
	if (!config->rules)
		config->rules = arena_alloc(&config->arena,
					    KEEPER_RULES_MAX * sizeof(*config->rules));
	config->rules[config->rule_count++] = (struct keeper_rule){
		arena_strdup(&config->arena, text), is_allow
	};
	return 0;
}

static int read_allow(void *data, const struct option *option, const char *text, struct err *err)
{
	return add_rule(data, option, text, true, err);
}

static int read_deny(void *data, const struct option *option, const char *text, struct err *err)
{
	return add_rule(data, option, text, false, err);
}

/* ---- secrets ---- */

/* Takes the words of a list, separated by commas; 0 when one of them is empty. */
static size_t split_list(struct arena *arena, const char *text, const char **ret_words, size_t most)
{
	size_t count = 0;

	for (;;) {
		size_t len = strcspn(text, ",");

		if (len == 0 || count == most)
			return 0;
		ret_words[count++] = arena_printf(arena, "%.*s", (int)len, text);
		if (!text[len])
			return count;
		text += len + 1;
	}
}

/* NAME=SOURCE@HOST[,HOST]; the last @ is the one that counts. An error shows no source. */
static int read_secret(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	struct keeper_secret *secret;
	const char *equals = strchr(text, '='), *at = strrchr(text, '@');
	size_t len = equals ? (size_t)(equals - text) : 0;

	if (!equals || !at || at < equals || !option_is_variable(text, len))
		return err_say(err, EINVAL, "--%s: is not %s", option->name, option->argument);
	if (config->secret_count == KEEPER_SECRETS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d", option->name, KEEPER_SECRETS_MAX);
	if (!config->secrets)
		config->secrets = arena_alloc(&config->arena,
					      KEEPER_SECRETS_MAX * sizeof(*config->secrets));
	secret = &config->secrets[config->secret_count];
	*secret = (struct keeper_secret){
		.name = arena_printf(&config->arena, "%.*s", (int)len, text),
		.source = arena_printf(&config->arena, "%.*s", (int)(at - equals - 1), equals + 1),
		.places = KEEPER_HEADER | KEEPER_BASIC | KEEPER_QUERY,
	};
	for (size_t i = 0; i < config->secret_count; i++)
		if (strcmp(config->secrets[i].name, secret->name) == 0)
			return err_say(err, EEXIST, "--%s: %s is given twice", option->name,
				       secret->name);
	secret->host_count = split_list(&config->arena, at + 1, secret->hosts, KEEPER_HOSTS_MAX);
	if (secret->host_count == 0)
		return err_say(err, EINVAL, "--%s: %s needs its hosts, as in @api.example.com",
			       option->name, secret->name);
	if (keeper_check_source(option->name, secret->source, err) < 0)
		return -EINVAL;
	config->secret_count++;
	return 0;
}

/* NAME or NAME=… of a secret that was given before; *ret_rest is what follows. */
static struct keeper_secret *find_secret(struct keeper_config *config, const struct option *option,
					 const char *text, const char **ret_rest, struct err *err)
{
	size_t len = strcspn(text, "=");
	bool has_value = strchr(option->argument, '=') != NULL;

	for (size_t i = 0; has_value == (text[len] == '=') && i < config->secret_count; i++)
		if (strlen(config->secrets[i].name) == len &&
		    memcmp(config->secrets[i].name, text, len) == 0) {
			*ret_rest = text + len + has_value;
			return &config->secrets[i];
		}
	err_say(err, EINVAL, "--%s: '%.*s' is no secret that was given before it", option->name,
		(int)(len < 60 ? len : 60), text);
	return NULL;
}

static const char *const places[] = { "header", "basic", "query", "path", "body", "websocket" };

unsigned int keeper_place_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (strcmp(places[i], name) == 0)
			return 1U << i;
	return 0;
}

const char *keeper_place_name(unsigned int place)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (place == 1U << i)
			return places[i];
	return NULL;
}

static int read_secret_in(void *data, const struct option *option, const char *text,
			  struct err *err)
{
	struct keeper_config *config = data;
	const char *rest, *words[ARRAY_LEN(places)];
	struct keeper_secret *secret = find_secret(config, option, text, &rest, err);
	size_t count = secret ? split_list(&config->arena, rest, words, ARRAY_LEN(places)) : 0;
	unsigned int mask = 0;

	if (!secret)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		unsigned int place = keeper_place_of(words[i]);

		if (!place)
			count = 0;
		mask |= place;
	}
	if (count == 0)
		return err_say(err, EINVAL,
			       "--%s: %s: places are header, basic, query, path, body and "
			       "websocket",
			       option->name, secret->name);
	secret->places = mask;
	return 0;
}

/* Fields that make the message what it is are not for secrets. */
static bool may_be_injected(const char *header, size_t len)
{
	static const char *const framing[] = {
		"host",    "content-length", "transfer-encoding", "connection", "te", "trailer",
		"upgrade", "expect",         "keep-alive"
	};

	for (size_t i = 0; i < ARRAY_LEN(framing); i++)
		if (strlen(framing[i]) == len && strncasecmp(framing[i], header, len) == 0)
			return false;
	for (size_t i = 0; i < len; i++)
		if (header[i] != '-' && header[i] != '_' && !is_alnum(header[i]))
			return false;
	return len > 0;
}

static int read_secret_inject(void *data, const struct option *option, const char *text,
			      struct err *err)
{
	struct keeper_config *config = data;
	const char *rest, *colon;
	struct keeper_secret *secret = find_secret(config, option, text, &rest, err);

	if (!secret)
		return -EINVAL;
	colon = strstr(rest, ": ");
	if (!colon || !label_is_text(rest) || !strstr(colon, "{value}"))
		return err_say(err, EINVAL, "--%s: %s: HEADER: FORMAT, with {value} in it",
			       option->name, secret->name);
	if (!may_be_injected(rest, (size_t)(colon - rest)))
		return err_say(err, EINVAL, "--%s: %s: '%.*s' is no header that can be set",
			       option->name, secret->name,
			       (int)(colon - rest > 60 ? 60 : colon - rest), rest);
	secret->inject_header = arena_printf(&config->arena, "%.*s", (int)(colon - rest), rest);
	secret->inject_format = arena_strdup(&config->arena, colon + 2);
	return 0;
}

#define PLACEHOLDER_LEN_MIN 8 /* a shorter one could turn up by chance */
#define PLACEHOLDER_LEN_MAX 256

/* Characters that are written alike everywhere, and <random>, which is eight or more of them. */
static bool is_placeholder(const char *text)
{
	const char *random = strstr(text, KEEPER_RANDOM);
	size_t len = strlen(text);

	for (const char *c = text; *c; c++)
		if (c == random)
			c += strlen(KEEPER_RANDOM) - 1;
		else if (!is_alnum(*c) && !strchr("-_.~", *c))
			return false;
	return len >= PLACEHOLDER_LEN_MIN && len <= PLACEHOLDER_LEN_MAX;
}

static int read_secret_placeholder(void *data, const struct option *option, const char *text,
				   struct err *err)
{
	struct keeper_config *config = data;
	const char *rest;
	struct keeper_secret *secret = find_secret(config, option, text, &rest, err);

	if (!secret)
		return -EINVAL;
	if (!is_placeholder(rest))
		return err_say(err, EINVAL,
			       "--%s: %s: %d to %d letters, digits, '-', '_', '.' and '~', with "
			       "one " KEEPER_RANDOM " among them or none",
			       option->name, secret->name, PLACEHOLDER_LEN_MIN,
			       PLACEHOLDER_LEN_MAX);
	secret->placeholder = arena_strdup(&config->arena, rest);
	return 0;
}

static int read_secret_cleartext(void *data, const struct option *option, const char *text,
				 struct err *err)
{
	const char *rest;
	struct keeper_secret *secret = find_secret(data, option, text, &rest, err);

	if (secret)
		secret->may_be_cleartext = true;
	return secret ? 0 : -EINVAL;
}

static int read_secret_ip_literals(void *data, const struct option *option, const char *text,
				   struct err *err)
{
	const char *rest;
	struct keeper_secret *secret = find_secret(data, option, text, &rest, err);

	if (secret)
		secret->may_have_addresses = true;
	return secret ? 0 : -EINVAL;
}

/* ---- where hosts are ---- */

static int add_mapping(struct keeper_config *config, const struct option *option,
		       struct keeper_mapping mapping, struct err *err)
{
	if (config->mapping_count == KEEPER_MAPPINGS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d ports of hosts are mapped",
			       option->name, KEEPER_MAPPINGS_MAX);
	config->mappings[config->mapping_count++] = mapping;
	return 0;
}

/* What a name may not have in it, in a rule or in an option. */
static bool is_plain_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_alnum(text[i]) && !strchr("-_.", text[i]))
			return false;
	return len > 0 && len <= 253;
}

/* NAME=ADDRESS:PORT. Whichever port of the name is meant, the service is there. */
static int read_service(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;
	struct keeper_mapping mapping;
	uint16_t ports[] = { 80, 443, 0 };
	int r = 0;

	if (!is_plain_name(text, len))
		return err_say(err, EINVAL, "--%s: '%.100s' is not %s", option->name, text,
			       option->argument);
	mapping.host = arena_printf(&config->arena, "%.*s", (int)len, text);
	for (char *c = (char *)mapping.host; *c; c++)
		*c = ascii_lower(*c);
	if (url_parse_address(equals + 1, &config->arena, &mapping.address, &mapping.address_port,
			      err) < 0)
		return -EINVAL;
	ports[2] = mapping.address_port;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(ports); i++) {
		mapping.host_port = ports[i];
		r = add_mapping(config, option, mapping, err);
	}
	if (r == 0)
		r = add_rule(config, option, mapping.host, true, err);
	if (r == 0)
		r = add_rule(config, option,
			     arena_printf(&config->arena, "%s:%u", mapping.host, ports[2]), true,
			     err);
	return r;
}

static int read_connect_to(void *data, const struct option *option, const char *text,
			   struct err *err)
{
	struct keeper_config *config = data;
	struct keeper_mapping mapping;
	const char *equals = strchr(text, '=');
	int r;

	if (!equals)
		return err_say(err, EINVAL, "--%s: '%.100s' is not %s", option->name, text,
			       option->argument);
	r = url_parse_address(arena_printf(&config->arena, "%.*s", (int)(equals - text), text),
			      &config->arena, &mapping.host, &mapping.host_port, err);
	if (r == 0)
		r = url_parse_address(equals + 1, &config->arena, &mapping.address,
				      &mapping.address_port, err);
	return r < 0 ? r : add_mapping(config, option, mapping, err);
}

static int read_header_text(void *data, const struct option *option, const char *text,
			    struct err *err)
{
	if (!label_is_account(text))
		return err_say(err, EINVAL, "--%s: up to 256 printable ASCII characters",
			       option->name);
	*(const char **)(void *)((char *)data + option->offset) = text;
	return 0;
}

static int read_metadata(void *data, const struct option *option, const char *text, struct err *err)
{
	struct keeper_config *config = data;
	const char *equals = strchr(text, '='), *name;
	size_t len = strlen(text);

	name = equals ? arena_printf(&config->arena, "%.*s", (int)(equals - text), text) : "";
	if (!label_is_metadata(name, equals ? equals + 1 : ""))
		return err_say(err, EINVAL,
			       "--%s: NAME=VALUE in printable ASCII; runId and attempt are said "
			       "already",
			       option->name);
	if (config->metadata_count == KEEPER_METADATA_MAX ||
	    config->metadata_len + len > KEEPER_METADATA_LEN)
		return err_say(err, E2BIG, "--%s: more than %d, or more than %d bytes",
			       option->name, KEEPER_METADATA_MAX, KEEPER_METADATA_LEN);
	config->metadata_len += len;
	config->metadata[config->metadata_count++] = (struct keeper_metadata){
		name,
		arena_strdup(&config->arena, equals + 1),
	};
	return 0;
}

static int read_source(void *data, const struct option *option, const char *text, struct err *err)
{
	int r = keeper_check_source(option->name, text, err);

	if (r == 0)
		*(const char **)(void *)((char *)data + option->offset) = text;
	return r;
}

/* ---- the table ---- */

static const struct option rows[] = {
#define STRING             OPTION_STRING, NULL
#define CHOICE             OPTION_CHOICE, NULL
#define COUNT              OPTION_COUNT, NULL
#define DURATION           OPTION_DURATION, NULL
#define LLM                OPTION_OWN, read_llm
#define LLM_KEY            OPTION_OWN, read_llm_key
#define LLM_PROVIDER       OPTION_OWN, read_llm_provider
#define ALLOW              OPTION_OWN, read_allow
#define DENY               OPTION_OWN, read_deny
#define SECRET             OPTION_OWN, read_secret
#define SECRET_IN          OPTION_OWN, read_secret_in
#define SECRET_INJECT      OPTION_OWN, read_secret_inject
#define SECRET_PLACEHOLDER OPTION_OWN, read_secret_placeholder
#define SECRET_CLEARTEXT   OPTION_OWN, read_secret_cleartext
#define SECRET_IP_LITERALS OPTION_OWN, read_secret_ip_literals
#define SERVICE            OPTION_OWN, read_service
#define SIZE               OPTION_SIZE, NULL
#define LIMIT              OPTION_OWN, keeper_read_limit
#define MONEY              OPTION_OWN, keeper_read_money
#define CONNECT_TO         OPTION_OWN, read_connect_to
#define HEADER_TEXT        OPTION_OWN, read_header_text
#define METADATA           OPTION_OWN, read_metadata
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{ name,     letter, kind,  offsetof(struct keeper_config, field), low, high,               \
	  argument, help,   detail },
#include "config/keeper.def"
#undef SETTING
	/* What a verb adds about the run. */
	{ "run-id", 0, OPTION_RUN_ID, NULL, offsetof(struct keeper_config, run_id), 0, 0, "ID", "",
	  "" },
	{ "learn", 0, OPTION_STRING, NULL, offsetof(struct keeper_config, learn), 0, 0, "FILE", "",
	  "" },
	{ "attempt", 0, OPTION_COUNT, NULL, offsetof(struct keeper_config, attempt), 0, UINT32_MAX,
	  "N", "", "" },
	{ "token-secret", 0, OPTION_OWN, read_source, offsetof(struct keeper_config, token_secret),
	  0, 0, "SOURCE", "", "" },
	{ "verbose", 0, OPTION_FLAG, NULL, offsetof(struct keeper_config, verbose), 1, 0, NULL, "",
	  "" },
};

static const struct option_table table = { "keeper", rows, ARRAY_LEN(rows) };

int keeper_config_parse(struct keeper_config *config, int argc, char **argv, struct err *err)
{
	int rest, r = options_parse(&table, config, argc, argv, &rest, err);

	if (r == 0 && rest < argc)
		r = err_say(err, EINVAL, "unexpected argument '%.60s'", argv[rest]);
	return r;
}

int keeper_config_apply(struct keeper_config *config, const char *name, const char *text,
			struct err *err)
{
	return options_apply(&table, config, name, text, err);
}

static bool is_same_match(const struct keeper_llm *a, const struct keeper_llm *b)
{
	const char *first = a->prefix ? a->prefix : a->model ? a->model : "";
	const char *second = b->prefix ? b->prefix : b->model ? b->model : "";

	return strcmp(first, second) == 0;
}

/* Two placeholders must be told apart wherever one of them stands. */
static int check_placeholders(const struct keeper_config *config, struct err *err)
{
	for (size_t i = 0; i < config->secret_count; i++)
		for (size_t j = 0; j < config->secret_count; j++) {
			const char *a = config->secrets[i].placeholder;
			const char *b = config->secrets[j].placeholder;

			if (i == j || !a || !b || strstr(a, KEEPER_RANDOM) || !strstr(b, a))
				continue;
			return err_say(err, EINVAL,
				       "the placeholder of secret %s is in that of secret %s; they "
				       "must differ",
				       config->secrets[i].name, config->secrets[j].name);
		}
	return 0;
}

int keeper_config_check(const struct keeper_config *config, struct err *err)
{
	if (check_placeholders(config, err) < 0 || keeper_limits_check(config, err) < 0)
		return -EINVAL;
	for (size_t i = 0; i < config->llm_count; i++)
		for (size_t j = 0; j < i; j++)
			if (is_same_match(&config->llms[i], &config->llms[j]))
				return err_say(err, EINVAL,
					       "--llm: two upstreams for the same requests; give "
					       "one of them a MATCH, as in /prefix=URL");
	return 0;
}
