/* SPDX-License-Identifier: MIT */
/*
 * What `warder keeper` is told: the settings of every keeper and its own. It names secrets, and
 * holds none but those that a URL of the store may have in it.
 */
#ifndef CONFIG_SHARED_CONFIG_H
#define CONFIG_SHARED_CONFIG_H

#include "config/file.h"
#include "config/keeper_config.h"

#define SHARED_USERS_MAX  64
#define SHARED_KEYS_MAX   8
#define SHARED_KEY_ID_MAX 32

enum shared_scheme {
	SHARED_UNIX = 1,
	SHARED_TCP = 2,
	SHARED_TLS = 4,
};

/* Where to listen: a path, or a host and a port; neither where nothing was asked for. */
struct shared_endpoint {
	const char *path, *host;
	uint16_t port;
};

struct shared_key_list {
	struct {
		const char *id, *source;
	} keys[SHARED_KEYS_MAX];
	size_t count;
};

struct shared_config {
	struct keeper_config keeper; /* first: its rows are among ours */
	struct shared_endpoint control, listen, admin;
	uint64_t control_mode;
	const char *control_users[SHARED_USERS_MAX]; /* names, or numbers as text */
	size_t control_user_count;
	const char *cert, *cert_key;                  /* a file, a source */
	struct shared_key_list token_keys, link_keys; /* of requests' tokens, and of links' */
	const char *store; /* a URL, or the source of one; NULL: the default */
	uint64_t reconcile_every_ms, reconcile_grace_ms, drain_ms;
	const char *log; /* "json" or "text" */
	const char *config;
	uint64_t take_over, help;
};

/* Defaults; shared_config_fini is owed from here on. */
void shared_config_init(struct shared_config *config);
void shared_config_fini(struct shared_config *config);

/*
 * Reads words "--name value …" on top of what is there. Most texts are borrowed: the words must
 * outlive the config.
 */
int shared_config_parse(struct shared_config *config, int argc, char **argv,
			struct err *err) must_check;

/* The words that a configuration file has become, for CONFIG_FOR_SHARED. */
int shared_config_add_file(struct shared_config *config, const struct config_file *file,
			   struct err *err) must_check;

/* What can only be judged when everything has been read. */
int shared_config_check(const struct shared_config *config, struct err *err) must_check;

/* Whether anything can be reached: an LLM, or a host by a rule or for a secret. */
bool shared_config_allows_any(const struct shared_config *config);

/* Whether the store's URL is to be read from somewhere: env:NAME or file:PATH. */
bool shared_store_is_source(const char *store);

/*
 * Everything that a keeper is told: a command line, and the file that it names, which counts
 * less; a command line alone has to allow something. Asked for help, nothing else is looked at. The
 * config borrows from both, so *ret_file, which has the values of secrets, outlives it;
 * config_file_fini and shared_config_fini are owed in any case. It may be called again, for a new
 * pair, as often as the file changes.
 */
int shared_config_read(struct shared_config *config, struct config_file *ret_file, int argc,
		       char **argv, struct err *err) must_check;

void shared_config_print_help(FILE *out);
void shared_config_print_mdoc(FILE *out);

#endif
