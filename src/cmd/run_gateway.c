/* SPDX-License-Identifier: MIT */
/* What `warder run` does for its gateway. */
#include "cmd/run_gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/die.h"
#include "base/words.h"
#include "cmd/egress_ports.h"
#include "cmd/exposure.h"
#include "cmd/listen.h"
#include "cmd/llm_env.h"
#include "cmd/run_keeper.h"
#include "sys/pass.h"
#include "sys/status.h"

static int start(struct run_gateway *gateway, const struct run_config *config, struct err *err)
{
	const struct gateway_run run = {
		.config = config->config,
		.config_variable = config->config_variable,
		.words = config->keeper_words,
		.word_count = config->keeper_word_count,
		.run_id = gateway->run_id,
		.attempt = config->attempt,
		.learn = config->learn,
		.is_verbose = config->verbose,
		.connections = config->keeper.connections,
		/* What a file says is not known yet. */
		.has_egress = run_config_has_egress(config) || run_config_has_file(config),
	};

	return gateway_start(&gateway->gateway, &run, &config->keeper, err);
}

#define COVER "/etc/warder/covered"

/*
 * The words of a file that has secrets itself and nothing else. Whoever could have changed such
 * a file in an earlier run could have read it as well.
 */
static bool has_only_secrets(struct bytes words)
{
	struct bytes word, value;

	while (bytes_split(&words, '\0', &word) && bytes_split(&words, '\0', &value)) {
		if (!bytes_has_prefix_nocase(word, BYTES("--secret")))
			return false;
		if (bytes_equal(word, BYTES("--secret")) &&
		    !memmem(value.data, value.len, "=config:", 8))
			return false;
	}
	return true;
}

/*
 * INV-SECRETS-HOST-ONLY: a file of secrets that lies in the workspace, as users of secrets-proxy
 * have it, is covered by an empty one. A mount cannot be moved away.
 */
static int cover_file(struct run_config *config, struct bytes words, struct err *err)
{
	const char *name = config->covers_config ? exposure_find_name(config) : NULL;
	struct warder_mount empty = { .mode = WARDER_MOUNT_FILE, .source = "", .dest = COVER };
	struct warder_mount cover = { .mode = WARDER_MOUNT_COVER, .source = COVER };
	int r;

	if (!name)
		return 0;
	if (!has_only_secrets(words))
		return err_say(err, EINVAL,
			       "'%.120s' lies in the workspace, which the agent can write to, and "
			       "so may only have secrets with a value; keep it elsewhere",
			       config->config);
	cover.dest = arena_printf(&config->arena, "/workspace/%s", name);
	r = run_config_add_mount(config, &empty, err);
	return r < 0 ? r : run_config_add_mount(config, &cover, err);
}

/* The keeper has read the file, and tells what is in it for us. */
static int read_file_words(struct run_gateway *gateway, struct run_config *config, int argc,
			   char **argv, struct err *err)
{
	size_t len = 0, total = 0;
	char *words = malloc(2 * (STATUS_TEXT_MAX + 1));
	int r;

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
	r = run_config_parse_again(config, (struct bytes){ words, total }, argc, argv, err);
	return r < 0 ? r : cover_file(config, (struct bytes){ words, total }, err);
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

static const char *find_source(const struct run_config *run, const char *variable)
{
	const struct keeper_config *config = &run->keeper;
	static const char file[] = "env:" RUN_CONFIG_VARIABLE;

	if (is_source(variable, file))
		return file;
	if (is_source(variable, run->keeper_token))
		return run->keeper_token;
	for (size_t i = 0; i < config->llm_count; i++)
		if (is_source(variable, config->llms[i].key))
			return config->llms[i].key;
	for (size_t i = 0; i < config->secret_count; i++)
		if (is_source(variable, config->secrets[i].source))
			return config->secrets[i].source;
	return NULL;
}

/* INV-SECRETS-HOST-ONLY, also when it was asked for by habit. */
int run_gateway_check(const struct run_config *config, struct err *err)
{
	for (size_t i = 0; i < config->env_count; i++) {
		const char *source = find_source(config, config->env[i]);

		if (source)
			return err_say(err, EINVAL,
				       "--env %s would give a secret to the agent, which does not "
				       "need it",
				       source + 4);
	}
	return 0;
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

static size_t count_words(struct bytes words)
{
	size_t count = 0;

	while (words_next(&words))
		count++;
	return count;
}

/* What the agent has in place of its secrets is the keeper's to make: two words for each. */
static int read_placeholders(struct run_gateway *gateway, struct run_config *config,
			     struct err *err)
{
	_cleanup_free_ char *text = malloc(STATUS_TEXT_MAX + 1);
	size_t len = 0, missing = 2 * config->keeper.secret_count;
	struct buf words;
	int type = STATUS_WORDS;

	if (!text)
		die_no_memory();
	buf_init(&words, STATUS_TEXT_MAX);
	while (missing > 0 && words.len < STATUS_TEXT_MAX && type == STATUS_WORDS) {
		type = status_receive(gateway->gateway.status_fd, -1, text, &len);
		if (type != STATUS_WORDS)
			break;
		buf_add(&words, text, len);
		len = count_words((struct bytes){ text, len });
		missing -= len < missing ? len : missing;
	}
	gateway->placeholders = words.data;
	if (type == STATUS_FAILED)
		return err_say(err, EINVAL, "%.500s", text);
	if (type != STATUS_WORDS)
		return err_say(err, EIO, "the keeper ended before it was ready");
	if (words.len == STATUS_TEXT_MAX)
		return err_say(err, E2BIG, "the placeholders of the secrets are too long");
	return run_config_add_words(config, (struct bytes){ words.data, words.len }, err);
}

/* ---- everything ---- */

static int start_with_keeper(struct run_gateway *gateway, struct run_config *config,
			     struct err *err)
{
	int r = run_keeper_begin(gateway, config, err);

	if (r == 0) {
		const struct gateway_run run = {
			.run_id = gateway->run_id,
			.connections = config->keeper.connections,
			.has_egress = run_config_has_egress(config),
		};

		r = gateway_start_gate(&gateway->gateway, &run, err);
	}
	if (r == 0 && run_config_has_egress(config))
		r = trust_open(&gateway->trust, gateway->gateway.control_fd, config, err);
	return r;
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
	r = exposure_check(config, err);
	if (r == 0)
		r = open_socket(gateway, &config->llm_socket, err);
	if (r == 0 && config->keeper_address) {
		r = start_with_keeper(gateway, config, err);
		return r < 0 ? r : hand_over_socket(gateway, err);
	}
	if (r == 0)
		r = start(gateway, config, err);
	if (r == 0 && run_config_has_file(config)) {
		r = read_file_words(gateway, config, argc, argv, err);
		if (r == 0)
			r = run_gateway_check(config, err);
		gateway_wipe_sources(&config->keeper);
		if (r == 0)
			r = exposure_check(config, err);
		if (r == 0)
			r = open_socket(gateway, &config->llm_socket, err);
		if (r == 0)
			r = status_send(gateway->gateway.status_fd, STATUS_GO, "");
		else /* it waits for a word that will not come */
			shutdown(gateway->gateway.status_fd, SHUT_WR);
	}
	if (r == 0 && config->keeper.secret_count > 0)
		r = read_placeholders(gateway, config, err);
	if (r == 0 && run_config_has_egress(config))
		r = trust_open(&gateway->trust, gateway->gateway.control_fd, config, err);
	return r < 0 ? r : hand_over_socket(gateway, err);
}

void run_gateway_apply(const struct run_gateway *gateway, struct run_config *config,
		       struct warder_spec *spec)
{
	spec->run_id = gateway->run_id;
	spec->env = trust_env(&gateway->trust, config, llm_env(config));
	spec->gate_fd = gateway->gateway.control_fd;
	spec->ready_fd = gateway->is_ready ? -1 : gateway->gateway.status_fd;
	spec->llm_port = config->keeper.llm_count > 0 ? (uint16_t)config->llm_port : 0;
	spec->captures = run_config_has_egress(config);
	spec->capture = config->capture;
	spec->capture_ports = egress_ports(config, &spec->capture_port_count);
}

void run_gateway_stop(struct run_gateway *gateway, struct gateway_summary *ret_summary)
{
	close_fd(&gateway->socket_fd);
	gateway_stop(&gateway->gateway, ret_summary);
	if (gateway->socket_path)
		unlink(gateway->socket_path);
	trust_close(&gateway->trust);
	gateway->socket_path = NULL;
}

void run_gateway_free(struct run_gateway *gateway)
{
	free(gateway->words);
	free(gateway->placeholders);
	gateway->words = gateway->placeholders = NULL;
}
