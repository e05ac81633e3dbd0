/* SPDX-License-Identifier: MIT */
/* The command line of `warder run`, read by one table into one plain struct. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "config/keeper_config.h"
#include "warder.h"

enum tty_choice {
	TTY_AUTO,
	TTY_ALWAYS,
	TTY_NEVER,
};

/* A unix socket as it is asked for. */
struct socket_config {
	const char *path, *mode, *owner;
};

/* A file of secrets as the text of a variable; counts when no file is named. */
#define RUN_CONFIG_VARIABLE "SECRETS_PROXY_CONFIG_JSON"

struct run_config {
	struct arena arena; /* owns what the pointers below do not borrow from argv */
	const char *workspace;
	struct warder_mount *mounts;
	size_t mount_count;
	const char **env; /* NAME=VALUE, ends with NULL */
	size_t env_count;
	uint64_t timeout_ms, grace_ms, memory_bytes, pids, cpu_milli, files, tmpfs_bytes;
	uint64_t output_bytes;
	const char *run_id;
	uint64_t attempt;
	const char *cgroup, *capture;
	uint64_t json, tty, verbose, quiet, help; /* flags, and one enum tty_choice */
	const char *result;
	const char *config; /* a file with more settings */
	/* Set by the verb: the variable that has the same as a file, and whether a file in the
	 * workspace that has nothing but secrets is covered there, and else refused. */
	const char *config_variable;
	bool covers_config;
	/* A shared keeper, as it was written, the source of a token and a file; or NULL. */
	const char *keeper_address, *keeper_token, *keeper_ca;
	const char *learn; /* a file for what was refused */
	uint64_t llm_port;
	struct socket_config llm_socket;
	/* The gateway's settings, and the words that they were, for the keeper to read. */
	struct keeper_config keeper;
	const char **keeper_words;
	size_t keeper_word_count;
	const char *const *argv; /* the command, borrowed */
};

/*
 * Reads the words of a configuration file, and the command line again, which counts over
 * them. `words` is a list of texts, each with its NUL; the config keeps pointers into it.
 */
int run_config_parse_again(struct run_config *config, struct bytes words, int argc, char **argv,
			   struct err *err) must_check;

/* One more mount, after those that were asked for; the texts are borrowed. */
int run_config_add_mount(struct run_config *config, const struct warder_mount *mount,
			 struct err *err) must_check;

/* Reads more words, such as a keeper's; see above. They count less than the caller's own. */
int run_config_add_words(struct run_config *config, struct bytes words, struct err *err) must_check;

/* Whether the run may reach hosts, beside its LLM, or is to be told which it may not. */
bool run_config_has_egress(const struct run_config *config);

/* Whether there is more to be read than the command line. */
bool run_config_has_file(const struct run_config *config);

/* Whether the run needs a gateway. */
bool run_config_has_gateway(const struct run_config *config);

/*
 * Reads options up to "--" or the first word that is none. On failure the first
 * error is in *err, but the rest of the line has been read too, so that the caller
 * knows whether --json was among it. run_config_fini is owed in any case.
 */
int run_config_parse(struct run_config *config, int argc, char **argv, struct err *err) must_check;
void run_config_fini(struct run_config *config);

/* The option list of --help. */
void run_config_print_help(FILE *out);

/* The same as an mdoc(7) list. */
void run_config_print_mdoc(FILE *out);

#endif
