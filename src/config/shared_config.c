/* SPDX-License-Identifier: MIT */
/* The rows of shared.def, and the kinds that only they have. */
#include "config/shared_config.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "config/url.h"

#define DEFAULT_CONTROL_MODE       0600
#define DEFAULT_RECONCILE_EVERY_MS 300000
#define DEFAULT_RECONCILE_GRACE_MS 600000
#define DEFAULT_DRAIN_MS           30000

#define USER_NAME_MAX 32 /* as useradd has it */

void shared_config_init(struct shared_config *config)
{
	*config = (struct shared_config){
		.control_mode = DEFAULT_CONTROL_MODE,
		.reconcile_every_ms = DEFAULT_RECONCILE_EVERY_MS,
		.reconcile_grace_ms = DEFAULT_RECONCILE_GRACE_MS,
		.drain_ms = DEFAULT_DRAIN_MS,
		.log = "text",
	};
	keeper_config_init(&config->keeper);
}

void shared_config_fini(struct shared_config *config)
{
	keeper_config_fini(&config->keeper);
}

/* ---- kinds ---- */

static const char **text_field(void *config, const struct option *option)
{
	return (const char **)(void *)((char *)config + option->offset);
}

static bool has_only(const char *text, size_t len, const char *characters)
{
	return len > 0 && strspn(text, characters) >= len;
}

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int read_path(const struct option *option, const char *path,
		     struct shared_endpoint *ret_endpoint, struct err *err)
{
	struct sockaddr_un address;

	if (!*path || strlen(path) >= sizeof(address.sun_path))
		return err_say(err, EINVAL, "--%s: the path of a socket has 1 to %zu bytes",
			       option->name, sizeof(address.sun_path) - 1);
	*ret_endpoint = (struct shared_endpoint){ .path = path };
	return 0;
}

/* SCHEME:PATH or SCHEME:ADDRESS:PORT, of the schemes that the row has. */
static int read_endpoint(void *data, const struct option *option, const char *text, struct err *err)
{
	static const struct {
		const char *prefix;
		uint64_t scheme;
	} schemes[] = { { "unix:", SHARED_UNIX }, { "tcp:", SHARED_TCP }, { "tls:", SHARED_TLS } };
	struct shared_endpoint *field = (void *)((char *)data + option->offset);
	struct shared_config *config = data;
	struct shared_endpoint found = { .path = NULL };
	struct err ignored;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		const char *rest = text + strlen(schemes[i].prefix);

		if (!(schemes[i].scheme & option->low) ||
		    strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) != 0)
			continue;
		if (schemes[i].scheme == SHARED_UNIX)
			return read_path(option, rest, field, err);
		if (url_parse_address(rest, &config->keeper.arena, &found.host, &found.port,
				      &ignored) < 0)
			break;
		*field = found;
		return 0;
	}
	return err_say(err, EINVAL, "--%s: '%.100s' is not %s", option->name, text,
		       option->argument);
}

static int read_mode(void *data, const struct option *option, const char *text, struct err *err)
{
	uint64_t mode = 0;
	size_t len = strlen(text);

	if (len > 4 || !has_only(text, len, "01234567"))
		len = 0;
	for (size_t i = 0; i < len; i++)
		mode = mode * 8 + (uint64_t)(text[i] - '0');
	if (len == 0 || mode > 0777)
		return err_say(err, EINVAL,
			       "--%s: '%.40s' is not permissions in octal, such as 0660",
			       option->name, text);
	*(uint64_t *)(void *)((char *)data + option->offset) = mode;
	return 0;
}

/* Whether there is such a user is asked where it matters. */
static int read_user(void *data, const struct option *option, const char *text, struct err *err)
{
	struct shared_config *config = data;
	size_t len = strlen(text);

	if (len > USER_NAME_MAX || !has_only(text, len, DIGITS LETTERS "._-") || text[0] == '-')
		return err_say(err, EINVAL, "--%s: '%.40s' is not a user's name or number",
			       option->name, text);
	if (config->control_user_count == SHARED_USERS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d users", option->name,
			       SHARED_USERS_MAX);
	config->control_users[config->control_user_count++] = text;
	return 0;
}

static int read_source(void *data, const struct option *option, const char *text, struct err *err)
{
	int r = keeper_check_outer_source(option->name, text, err);

	if (r == 0)
		*text_field(data, option) = text;
	return r;
}

bool shared_store_is_source(const char *store)
{
	return strncmp(store, "env:", 4) == 0 || strncmp(store, "file:", 5) == 0;
}

/* An error repeats nothing: there may be a password in it. */
static int read_store(void *data, const struct option *option, const char *text, struct err *err)
{
	static const char *const prefixes[] = { "sqlite:",       "postgresql://", "redis://",
						"redis+unix://", "env:",          "file:" };
	bool is_known = strcmp(text, "memory:") == 0;

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			is_known = text[strlen(prefixes[i])] != '\0';
	if (!is_known) {
		err_say(err, EINVAL,
			"--%s: is sqlite:PATH, postgresql://…, redis://… or memory:, or env:NAME "
			"or file:PATH that holds such a URL",
			option->name);
		err_hint(err, "what was given is not shown, in case it has a password in it");
		return -EINVAL;
	}
	*text_field(data, option) = text;
	return 0;
}

/* ID=SOURCE; the text may be a key itself, by mistake, so that an error has no more than an id. */
static int read_key(void *data, const struct option *option, const char *text, struct err *err)
{
	struct shared_config *config = data;
	struct shared_key_list *list = (void *)((char *)data + option->offset);
	size_t len = strcspn(text, "=");
	const char *id;

	if (!text[len] || len > SHARED_KEY_ID_MAX || !has_only(text, len, DIGITS LETTERS "_-"))
		return err_say(err, EINVAL,
			       "--%s: is %s; an id is up to %d letters, digits, dashes and "
			       "underscores",
			       option->name, option->argument, SHARED_KEY_ID_MAX);
	if (list->count == SHARED_KEYS_MAX)
		return err_say(err, E2BIG, "--%s: more than %d keys", option->name,
			       SHARED_KEYS_MAX);
	id = arena_printf(&config->keeper.arena, "%.*s", (int)len, text);
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->keys[i].id, id) == 0)
			return err_say(err, EEXIST, "--%s: %s is given twice", option->name, id);
	if (keeper_check_outer_source(option->name, text + len + 1, err) < 0)
		return -EINVAL;
	list->keys[list->count].id = id;
	list->keys[list->count++].source = text + len + 1;
	return 0;
}

/* A setting that every keeper has. */
static int read_keeper(void *data, const struct option *option, const char *text, struct err *err)
{
	struct shared_config *config = data;

	return keeper_config_apply(&config->keeper, option->name, text, err);
}

/* ---- the table ---- */

static const struct option rows[] = {
#define FLAG     OPTION_FLAG, NULL
#define STRING   OPTION_STRING, NULL
#define CHOICE   OPTION_CHOICE, NULL
#define DURATION OPTION_DURATION, NULL
#define ENDPOINT OPTION_OWN, read_endpoint
#define MODE     OPTION_OWN, read_mode
#define USER     OPTION_OWN, read_user
#define SOURCE   OPTION_OWN, read_source
#define STORE    OPTION_OWN, read_store
#define KEY      OPTION_OWN, read_key
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{ name,     letter, kind,  offsetof(struct shared_config, field), low, high,               \
	  argument, help,   detail },
#include "config/shared.def"
#undef SETTING
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{ name, letter, OPTION_OWN, read_keeper, 0, low, high, argument, help, detail },
#include "config/keeper.def"
#undef SETTING
	{ "verbose", 'v', OPTION_FLAG, NULL, offsetof(struct shared_config, keeper.verbose), 1, 0,
	  NULL, "a line on stderr for each request", "" },
	{ "help", 'h', OPTION_FLAG, NULL, offsetof(struct shared_config, help), 1, 0, NULL,
	  "print this help", "" },
};

static const struct option_table table = { "keeper", rows, ARRAY_LEN(rows) };

int shared_config_parse(struct shared_config *config, int argc, char **argv, struct err *err)
{
	int rest, r = options_parse(&table, config, argc, argv, &rest, err);

	if (r == 0 && rest < argc)
		r = err_say(err, EINVAL, "keeper: unexpected argument '%.60s'", argv[rest]);
	return r;
}

static int parse_list(struct shared_config *config, const struct config_words *list,
		      struct err *err)
{
	const char **argv = arena_alloc(&config->keeper.arena, (list->count + 2) * sizeof(*argv));

	argv[0] = "keeper";
	memcpy(argv + 1, list->words, list->count * sizeof(*argv));
	return shared_config_parse(config, (int)list->count + 1, (char **)argv, err);
}

int shared_config_add_file(struct shared_config *config, const struct config_file *file,
			   struct err *err)
{
	int r = parse_list(config, &file->keeper, err);

	return r < 0 ? r : parse_list(config, &file->shared, err);
}

/* Whoever comes from elsewhere must know us, and we them. */
static int check_listen(const struct shared_config *config, struct err *err)
{
	if (!config->listen.host) {
		if (config->cert || config->cert_key)
			return err_say(err, EINVAL, "--cert and --cert-key belong to --listen");
		return 0;
	}
	if (!config->cert || !config->cert_key)
		return err_say(err, EINVAL,
			       "--listen: needs --cert FILE and --cert-key SOURCE, by which runs "
			       "know that they speak with this keeper");
	if (config->link_keys.count == 0)
		return err_say(err, EINVAL,
			       "--listen: needs --link-key ID=SOURCE, by which runs of other "
			       "machines are known");
	return 0;
}

int shared_config_check(const struct shared_config *config, struct err *err)
{
	int r = check_listen(config, err);

	return r < 0 ? r : keeper_config_check(&config->keeper, err);
}

bool shared_config_allows_any(const struct shared_config *config)
{
	bool is_any = config->keeper.llm_count > 0 || config->keeper.secret_count > 0;

	for (size_t i = 0; i < config->keeper.rule_count; i++)
		is_any = is_any || config->keeper.rules[i].is_allow;
	return is_any;
}

void shared_config_print_help(FILE *out)
{
	options_print_help(&table, out);
}

void shared_config_print_mdoc(FILE *out)
{
	options_print_mdoc(&table, out);
}
