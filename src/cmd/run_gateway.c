/* SPDX-License-Identifier: MIT */
/* What `warder run` does for its gateway. */
#include "cmd/run_gateway.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "cmd/listen.h"
#include "cmd/llm_env.h"
#include "cmd/state.h"
#include "cmd/status.h"
#include "sandbox/paths.h"
#include "sys/pass.h"

static int start(struct run_gateway *gateway, const struct run_config *config, struct err *err)
{
	const struct gateway_run run = {
		.config = config->config,
		.words = config->keeper_words,
		.word_count = config->keeper_word_count,
		.run_id = gateway->run_id,
		.attempt = config->attempt,
		.is_verbose = config->verbose,
		.connections = config->keeper.connections,
	};

	return gateway_start(&gateway->gateway, &run, &config->keeper, err);
}

/* The keeper has read the file, and tells what is in it for us. */
static int read_file_words(struct run_gateway *gateway, struct run_config *config, int argc,
			   char **argv, struct err *err)
{
	size_t len = 0, total = 0;
	char *words = malloc(2 * (STATUS_TEXT_MAX + 1));

	if (!words)
		die_no_memory();
	gateway->words = words;
	for (int i = 0; i < 2; i++) {
		int type = status_receive(gateway->gateway.status_fd, -1, words + total, &len);

		if (type == STATUS_FAILED)
			return err_say(err, EINVAL, "%.500s", words + total);
		if (type != STATUS_WORDS)
			return err_say(err, EIO, "the keeper ended before it was ready");
		total += len;
	}
	return run_config_parse_again(config, (struct bytes){ words, total }, argc, argv, err);
}

/* ---- what the agent is given ---- */

/* Whether NAME=VALUE is what a source of the form env:NAME holds. */
static bool is_source(const char *variable, const char *source)
{
	const char *name = source && strncmp(source, "env:", 4) == 0 ? source + 4 : NULL;
	size_t len = name ? strlen(name) : 0;
	const char *value = name ? getenv(name) : NULL;

	return value && strncmp(variable, name, len) == 0 && variable[len] == '=' &&
	       strcmp(variable + len + 1, value) == 0;
}

/* INV-SECRETS-HOST-ONLY, also when it was asked for by habit. */
int run_gateway_check(const struct run_config *config, struct err *err)
{
	for (size_t i = 0; i < config->env_count; i++)
		for (size_t j = 0; j < config->keeper.llm_count; j++)
			if (is_source(config->env[i], config->keeper.llms[j].key))
				return err_say(err, EINVAL,
					       "--env %s would give the LLM's key to the agent, "
					       "which does not need it",
					       config->keeper.llms[j].key + 4);
	return 0;
}

/* ---- what the agent could read or change ---- */

static bool is_within(const char *real, const char *top)
{
	_cleanup_free_ char *real_top = realpath(top, NULL);

	return real_top && path_is_within(real, real_top);
}

/* Where the agent sees a path of the host, without links; NULL: nowhere. */
static const char *find_exposed(const struct run_config *config, const char *real, bool is_writable)
{
	const char *workspace = config->workspace ? config->workspace : ".";

	if (is_within(real, workspace))
		return workspace;
	for (size_t i = 0; i < config->mount_count; i++) {
		const struct warder_mount *mount = &config->mounts[i];

		if (mount->source && (mount->mode == WARDER_MOUNT_RW || !is_writable) &&
		    is_within(real, mount->source))
			return mount->source;
	}
	return NULL;
}

/* What there is of the way to a file, without links: itself, or the nearest directory. */
static char *find_real(char *path)
{
	char *real = realpath(path, NULL);

	while (!real && strcmp(path, "/") != 0 && strcmp(path, ".") != 0) {
		path = dirname(path);
		real = realpath(path, NULL);
	}
	return real;
}

/* INV-AUDIT-FIRST is worth nothing where the agent can change what was written. */
static int check_audit(const struct run_config *config, struct err *err)
{
	char path[STATE_PATH_MAX];
	_cleanup_free_ char *real = NULL;
	const char *exposed;
	int r = state_audit_path(config->keeper.audit, path, err);

	if (r < 0)
		return r;
	real = find_real(path);
	if (!real)
		return err_set(err, errno, "the directory of the audit log");
	/* Also where it could only read: whoever can open a file can lock it. */
	exposed = find_exposed(config, real, false);
	if (exposed)
		return err_say(err, EINVAL,
			       "the audit log would lie in '%.150s', which the agent is shown; "
			       "say --audit FILE for another place",
			       exposed);
	return 0;
}

/* INV-SECRETS-HOST-ONLY: a key in a file that the agent is shown is no secret. */
static int check_key_files(const struct run_config *config, struct err *err)
{
	for (size_t i = 0; i < config->keeper.llm_count; i++) {
		const char *source = config->keeper.llms[i].key, *exposed;
		_cleanup_free_ char *real = NULL;

		if (!source || strncmp(source, "file:", 5) != 0)
			continue;
		real = realpath(source + 5, NULL);
		exposed = real ? find_exposed(config, real, false) : NULL;
		if (exposed)
			return err_say(err, EINVAL,
				       "the key %.150s lies in '%.150s', which the agent can read; "
				       "keep it elsewhere",
				       source, exposed);
	}
	return 0;
}

/*
 * A configuration file names commands and mounts: whoever can change it decides what the next
 * run does on the host. In the workspace itself it is shown read-only; anywhere else that the
 * agent can write, it is refused.
 */
static int check_config(const struct run_config *config, struct err *err)
{
	_cleanup_free_ char *real = realpath(config->config, NULL);
	_cleanup_free_ char *workspace = realpath(config->workspace ? config->workspace : ".",
						  NULL);
	char *name = real ? strrchr(real, '/') : NULL;
	size_t len = workspace ? strlen(workspace) : 0;

	if (!name || !workspace || !find_exposed(config, real, true))
		return 0;
	if ((size_t)(name - real) != len || strncmp(real, workspace, len) != 0)
		return err_say(err, EINVAL,
			       "the configuration '%.150s' lies where the agent can write; keep it "
			       "in the workspace itself, where it is shown read-only, or elsewhere",
			       config->config);
	return 0;
}

static int protect_config(struct run_config *config, struct err *err)
{
	int r = check_config(config, err);
	char *real = realpath(config->config, NULL);

	if (r == 0 && real && find_exposed(config, real, true))
		r = run_config_add_mount(
			config, WARDER_MOUNT_RO, arena_strdup(&config->arena, real),
			arena_printf(&config->arena, "/workspace%s", strrchr(real, '/')), err);
	free(real);
	return r;
}

/* ---- the host's socket ---- */

static int open_socket(struct run_gateway *gateway, const struct socket_config *config,
		       struct err *err)
{
	int r;

	if (!config->path || gateway->socket_fd >= 0)
		return 0;
	r = listen_unix(config, &gateway->socket_fd, err);
	if (r == 0)
		gateway->socket_path = config->path;
	return r;
}

/* It is the gate's alone from here on. */
static int hand_over_socket(struct run_gateway *gateway, struct err *err)
{
	int r = 0;

	if (gateway->socket_fd >= 0)
		r = pass_send(gateway->gateway.control_fd, "L", 1, gateway->socket_fd);
	close_fd(&gateway->socket_fd);
	return r < 0 ? err_set(err, -r, "hand the socket over to the gate") : 0;
}

static int check_files(const struct run_config *config, struct err *err)
{
	int r = check_audit(config, err);

	return r < 0 ? r : check_key_files(config, err);
}

int run_gateway_start(struct run_gateway *gateway, struct run_config *config, int argc, char **argv,
		      struct err *err)
{
	int r = 0;

	if (config->run_id)
		snprintf(gateway->run_id, sizeof(gateway->run_id), "%s", config->run_id);
	else
		r = runid_new(gateway->run_id);
	if (r < 0)
		return err_set(err, -r, "get random bytes");
	/* What can be wrong with the request comes first, while nothing has been started. */
	r = config->config ? check_config(config, err) : check_files(config, err);
	if (r == 0)
		r = open_socket(gateway, &config->llm_socket, err);
	if (r == 0)
		r = start(gateway, config, err);
	if (r == 0 && config->config) {
		r = read_file_words(gateway, config, argc, argv, err);
		if (r == 0)
			r = run_gateway_check(config, err);
		gateway_wipe_sources(&config->keeper);
		if (r == 0)
			r = check_files(config, err);
		if (r == 0)
			r = protect_config(config, err);
		if (r == 0)
			r = open_socket(gateway, &config->llm_socket, err);
		if (r == 0)
			r = status_send(gateway->gateway.status_fd, STATUS_GO, "");
	}
	return r < 0 ? r : hand_over_socket(gateway, err);
}

void run_gateway_apply(const struct run_gateway *gateway, struct run_config *config,
		       struct warder_spec *spec)
{
	spec->run_id = gateway->run_id;
	spec->env = llm_env(config);
	spec->gate_fd = gateway->gateway.control_fd;
	spec->ready_fd = gateway->gateway.status_fd;
	spec->llm_port = (uint16_t)config->llm_port;
}

void run_gateway_stop(struct run_gateway *gateway, struct gateway_summary *ret_summary)
{
	close_fd(&gateway->socket_fd);
	gateway_stop(&gateway->gateway, ret_summary);
	if (gateway->socket_path)
		unlink(gateway->socket_path);
	gateway->socket_path = NULL;
}

void run_gateway_free(struct run_gateway *gateway)
{
	free(gateway->words);
	gateway->words = NULL;
}
