/* SPDX-License-Identifier: MIT */
/* `warder token`: mints run tokens and tells what one says. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/verb.h"
#include "config/options.h"
#include "keeper/keyring.h"
#include "sys/fd.h"
#include "warder.h"

#define DEFAULT_TTL_MS UINT64_C(86400000)

struct token_config {
	const char *run_id;
	const char *secrets[KEYRING_MAX];
	size_t secret_count;
	uint64_t attempt, ttl_ms, expires, help;
};

static int read_secret(void *config, const struct option *option, const char *text, struct err *err)
{
	struct token_config *token = config;

	(void)option;
	if (token->secret_count == KEYRING_MAX)
		return err_say(err, E2BIG, "--secret: at most %d times", KEYRING_MAX);
	token->secrets[token->secret_count++] = text;
	return 0;
}

static const struct option rows[] = {
	{ "secret", 's', OPTION_OWN, read_secret, 0, 0, 0, "[ID=]SOURCE",
	  "the shared secret: env:NAME or file:PATH; verify takes several", "" },
	{ "run-id", 0, OPTION_RUN_ID, NULL, offsetof(struct token_config, run_id), 0, 0, "ID",
	  "the run it is for; with verify, the run it must be for", "" },
	{ "attempt", 0, OPTION_COUNT, NULL, offsetof(struct token_config, attempt), 0, UINT32_MAX,
	  "N", "the attempt (default 0)", "" },
	{ "ttl", 0, OPTION_DURATION, NULL, offsetof(struct token_config, ttl_ms), 1000,
	  UINT64_C(31536000000), "TIME", "how long it is valid (default 1d)", "" },
	{ "expires", 0, OPTION_COUNT, NULL, offsetof(struct token_config, expires), 1,
	  UINT64_C(9999999999), "SECONDS", "until when, in seconds since 1970, instead of --ttl",
	  "" },
	{ "help", 'h', OPTION_FLAG, NULL, offsetof(struct token_config, help), 1, 0, NULL,
	  "print this help", "" },
};

static const struct option_table table = { "token", rows, ARRAY_LEN(rows) };

static int mint(const struct token_config *config, const struct keyring *ring, char **rest,
		struct err *err)
{
	uint64_t now = clock_ms(CLOCK_REALTIME) / 1000;
	struct token token = { .attempt = (uint32_t)config->attempt };
	char text[TOKEN_MAX];

	if (!config->run_id)
		return err_say(err, EINVAL, "token mint: needs --run-id");
	if (ring->count > 1)
		return err_say(err, EINVAL, "token mint: takes one --secret");
	if (*rest)
		return err_say(err, EINVAL, "token mint: takes no argument, but got '%.60s'",
			       *rest);
	snprintf(token.run_id, sizeof(token.run_id), "%s", config->run_id);
	token.expiry = config->expires ? config->expires : now + config->ttl_ms / 1000;
	keyring_mint(ring, &token, text);
	printf("%s\n", text);
	return 0;
}

/* The token is an argument, or the first line of standard input. */
static int read_token(char **rest, char *ret_text, struct err *err)
{
	ssize_t len;

	if (rest[0] && rest[1])
		return err_say(err, EINVAL, "token verify: takes one token");
	if (rest[0] && strcmp(rest[0], "-") != 0) {
		if (strlen(rest[0]) >= TOKEN_MAX)
			return err_say(err, E2BIG, "token verify: malformed");
		memcpy(ret_text, rest[0], strlen(rest[0]) + 1);
		return 0;
	}
	len = read(STDIN_FILENO, ret_text, TOKEN_MAX - 1);
	if (len < 0)
		return err_set(err, errno, "read the token from standard input");
	ret_text[len] = '\0';
	ret_text[strcspn(ret_text, "\r\n")] = '\0';
	return 0;
}

static void print_token(const struct token *token, const char *key)
{
	struct buf text;
	struct json json = { .out = &text };

	buf_init(&text, 1024);
	json_open(&json, NULL, '{');
	json_text(&json, "runId", token->run_id);
	json_number(&json, "attempt", token->attempt);
	json_number(&json, "expiry", (int64_t)token->expiry);
	if (key)
		json_text(&json, "key", key);
	json_close(&json, '}');
	puts(text.data);
	buf_fini(&text);
}

static int verify(const struct token_config *config, const struct keyring *ring, char **rest,
		  struct err *err)
{
	char text[TOKEN_MAX];
	enum token_verdict verdict;
	const char *key = NULL;
	struct token token;
	int r = read_token(rest, text, err);

	if (r < 0)
		return r;
	verdict = keyring_verify(ring, bytes_of(text), clock_ms(CLOCK_REALTIME) / 1000, &token,
				 &key);
	if (verdict != TOKEN_VALID)
		return err_say(err, EACCES, "token verify: %s", token_verdict_name(verdict));
	if (config->run_id && strcmp(config->run_id, token.run_id) != 0)
		return err_say(err, EACCES, "token verify: for another run");
	/* The one key there is, is not worth a word. */
	print_token(&token, ring->count > 1 ? key : NULL);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const struct token_config *config, const struct keyring *ring, char **rest,
		   struct err *err);
} verbs[] = {
	{ "mint", mint },
	{ "verify", verify },
};

static void print_help(void)
{
	printf("usage: warder token mint --secret SOURCE --run-id ID [options]\n"
	       "       warder token verify --secret [ID=]SOURCE... [--run-id ID] [TOKEN]\n\n"
	       "Without TOKEN, verify reads it from standard input.\n\n");
	options_print_help(&table, stdout);
	printf("\nExit status: 0, 1 when a token is not valid, 125 for anything else.\n");
}

/* "ID=SOURCE"; without an id, a key is known by its place. No source has a '=' after a mere id. */
static int add_key(struct keyring *ring, const char *text, struct err *err)
{
	size_t len = strcspn(text, "=:");
	struct secret *secret = NULL;
	char id[RUNID_MAX + 1];
	int r;

	if (len <= RUNID_MAX && text[len] == '=') {
		snprintf(id, sizeof(id), "%.*s", (int)len, text);
		text += len + 1;
	} else {
		snprintf(id, sizeof(id), "%zu", ring->count + 1);
	}
	r = secret_open(text, &secret, err);
	return r < 0 ? r : keyring_add(ring, id, secret, err);
}

static int run_verb(int argc, char **argv, struct err *err)
{
	struct token_config config = { .ttl_ms = DEFAULT_TTL_MS };
	struct keyring ring = { .count = 0 };
	int rest = 0, r = options_parse(&table, &config, argc, argv, &rest, err);

	if (config.help) {
		print_help();
		return 0;
	}
	if (r == 0 && config.secret_count == 0)
		r = err_say(err, EINVAL, "token %s: needs --secret", argv[0]);
	for (size_t i = 0; r == 0 && i < config.secret_count; i++)
		r = add_key(&ring, config.secrets[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, argv[0]) == 0)
			r = verbs[i].run(&config, &ring, argv + rest, err);
	keyring_fini(&ring);
	return r;
}

int cmd_token(int argc, char **argv)
{
	static const char *const names[] = { "mint", "verify", NULL };
	static const struct verb_command command = { "token", names, print_help, run_verb };

	return verb_main(&command, argc, argv);
}
