/* SPDX-License-Identifier: MIT */
/* `warder gate`: the LLM endpoint on a socket of the host, for agents that warder did not start. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/die.h"
#include "cmd/cmd.h"
#include "cmd/control_client.h"
#include "cmd/gateway.h"
#include "cmd/listen.h"
#include "cmd/result_file.h"
#include "config/options.h"
#include "keeper/control.h"
#include "sys/pass.h"
#include "sys/signals.h"
#include "sys/status.h"
#include "warder.h"

#define WORDS_MAX      1024
#define RETRY_FIRST_MS 100
#define RETRY_MOST_MS  2000

struct serve_config {
	struct keeper_config keeper; /* first: its rows are among ours */
	const char *words[WORDS_MAX];
	size_t word_count;
	const char *listen, *mode, *owner, *config, *shared, *proxy, *ca_out;
	uint64_t verbose, help;
};

static int read_keeper(void *data, const struct option *option, const char *text, struct err *err)
{
	struct serve_config *config = data;

	if (config->word_count + 2 > WORDS_MAX)
		return err_say(err, E2BIG, "--%s: too many options", option->name);
	config->words[config->word_count++] = arena_printf(&config->keeper.arena, "--%s",
							   option->name);
	config->words[config->word_count++] = text;
	return keeper_config_apply(&config->keeper, option->name, text, err);
}

static const struct option rows[] = {
	{ "listen", 'l', OPTION_STRING, NULL, offsetof(struct serve_config, listen), 0, 0,
	  "unix:PATH|tcp:ADDRESS:PORT", "where agents find it", "" },
	{ "mode", 0, OPTION_STRING, NULL, offsetof(struct serve_config, mode), 0, 0, "MODE",
	  "permissions of a unix socket, in octal (default 0600)", "" },
	{ "owner", 0, OPTION_STRING, NULL, offsetof(struct serve_config, owner), 0, 0,
	  "USER[:GROUP]", "owner of a unix socket", "" },
	{ "run-id", 0, OPTION_RUN_ID, NULL, offsetof(struct serve_config, keeper.run_id), 0, 0,
	  "ID", "the run that whoever comes in acts as", "" },
	{ "attempt", 0, OPTION_COUNT, NULL, offsetof(struct serve_config, keeper.attempt), 0,
	  UINT32_MAX, "N", "which attempt of it (default 0)", "" },
	{ "token-secret", 0, OPTION_STRING, NULL,
	  offsetof(struct serve_config, keeper.token_secret), 0, 0, "SOURCE",
	  "ask for X-Run-Token in every request, signed with this: env:NAME, file:PATH, "
	  "exec:COMMAND",
	  "The token says whose request it is;\nwith\n.Fl -run-id\nit must be that run's." },
	{ "keeper", 0, OPTION_STRING, NULL, offsetof(struct serve_config, shared), 0, 0,
	  "unix:PATH", "use a shared keeper: its policy, its log, its keys for X-Run-Token",
	  "Every request then needs a token.\nWhen the keeper ends, its return is waited for." },
	{ "proxy", 0, OPTION_STRING, NULL, offsetof(struct serve_config, proxy), 0, 0,
	  "unix:PATH|tcp:ADDRESS:PORT",
	  "with --keeper: an HTTP proxy to the hosts that its rules allow; X-Run-Token there, too",
	  "CONNECT and absolute-form.\nTLS is terminated with the certificate that\n.Fl -ca-out\n"
	  "has." },
	{ "ca-out", 0, OPTION_STRING, NULL, offsetof(struct serve_config, ca_out), 0, 0, "FILE",
	  "where the certificate is written that clients of the proxy have to trust",
	  "It is made anew whenever the gate is." },
	{ "config", 0, OPTION_STRING, NULL, offsetof(struct serve_config, config), 0, 0, "FILE",
	  "settings from a file, see warder.json(5)", "" },
#define SETTING(name, letter, kind, field, low, high, argument, help, detail)                      \
	{ name, letter, OPTION_OWN, read_keeper, 0, low, high, argument, help, detail },
#include "config/keeper.def"
#undef SETTING
	{ "verbose", 'v', OPTION_FLAG, NULL, offsetof(struct serve_config, verbose), 1, 0, NULL,
	  "a line on stderr for each request", "" },
	{ "help", 'h', OPTION_FLAG, NULL, offsetof(struct serve_config, help), 1, 0, NULL,
	  "print this help", "" },
};

static const struct option_table table = { "gate", rows, ARRAY_LEN(rows) };

static void print_help(void)
{
	printf("usage: warder gate --listen unix:PATH|tcp:ADDRESS:PORT --llm URL [options]\n\n"
	       "       warder gate --listen unix:PATH|tcp:ADDRESS:PORT --keeper unix:PATH\n\n"
	       "Serves the LLM endpoint for agents that warder did not start, until SIGTERM.\n\n");
	options_print_help(&table, stdout);
	printf("\nWithout the option, these variables count: SOCKET_PATH (--listen unix:…),\n"
	       "LITELLM_HOST (--llm http://…), LITELLM_MASTER_KEY (--llm-key), RUN_ID, ATTEMPT,\n"
	       "ACCESS_LOG_PATH (--audit).\n");
}

/* ---- the variables of the original set-up ---- */

static int apply_variable(struct serve_config *config, const char *variable, const char *option,
			  const char *format, struct err *err)
{
	const char *value = getenv(variable);
	struct arena *arena = &config->keeper.arena;
	const char *text;
	size_t len;

	if (!value || !*value)
		return 0;
	/* The format is "…" or "…@": with the value where the mark is. */
	len = strcspn(format, "@");
	text = format[len] ? arena_printf(arena, "%.*s%s", (int)len, format, value)
			   : arena_strdup(arena, format);
	return options_apply(&table, config, option, text, err);
}

static int apply_variables(struct serve_config *config, struct err *err)
{
	int r = 0;

	if (!config->listen)
		r = apply_variable(config, "SOCKET_PATH", "listen", "unix:@", err);
	if (r == 0 && config->keeper.llm_count == 0)
		r = apply_variable(config, "LITELLM_HOST", "llm", "http://@", err);
	if (r == 0 && config->keeper.llm_count == 1 && !config->keeper.llms[0].key)
		r = apply_variable(config, "LITELLM_MASTER_KEY", "llm-key",
				   "env:LITELLM_MASTER_KEY", err);
	if (r == 0 && !config->keeper.run_id)
		r = apply_variable(config, "RUN_ID", "run-id", "@", err);
	if (r == 0 && !config->keeper.attempt)
		r = apply_variable(config, "ATTEMPT", "attempt", "@", err);
	if (r == 0 && !config->keeper.audit)
		r = apply_variable(config, "ACCESS_LOG_PATH", "audit", "@", err);
	return r;
}

static int say_of_hosts(struct err *err)
{
	return err_say(err, EINVAL,
		       "gate: hosts and their secrets are for 'warder run', whose sandbox leads "
		       "every connection here");
}

/* What is the keeper's to decide is not said here. */
static int check_shared(const struct serve_config *config, struct err *err)
{
	const char *word = NULL;

	/* How many connections there may be is the gate's own. */
	for (size_t i = 0; !word && i < config->word_count; i += 2)
		if (strcmp(config->words[i], "--connections") != 0)
			word = config->words[i];
	if (config->config || config->keeper.token_secret || config->keeper.run_id || word)
		return err_say(
			err, EINVAL,
			"gate: with --keeper the keeper decides; %s is for its configuration",
			config->config                ? "--config"
			: config->keeper.token_secret ? "--token-secret"
			: config->keeper.run_id       ? "--run-id"
						      : word);
	return 0;
}

static int check(const struct serve_config *config, struct err *err)
{
	if (!config->listen)
		return err_say(err, EINVAL, "gate: needs --listen unix:PATH or tcp:ADDRESS:PORT");
	if (!config->shared && (config->proxy || config->ca_out))
		return err_say(err, EINVAL, "gate: --proxy and --ca-out belong to --keeper");
	if (config->shared)
		return check_shared(config, err);
	if (config->keeper.llm_count == 0 && !config->config)
		return err_say(err, EINVAL, "gate: needs --llm URL");
	if (config->keeper.rule_count > 0 || config->keeper.secret_count > 0)
		return say_of_hosts(err);
	if (!config->keeper.run_id && !config->keeper.token_secret)
		return err_say(err, EINVAL,
			       "gate: whose requests are they? --run-id ID names the run, "
			       "--token-secret SOURCE asks every request for a token");
	if (config->keeper.token_secret &&
	    keeper_check_source("token-secret", config->keeper.token_secret, err) < 0)
		return -EINVAL;
	return keeper_config_check(&config->keeper, err);
}

/* ---- serving ---- */

static int listen_on(const struct serve_config *config, const char *option, const char *where,
		     int *ret_fd, struct err *err)
{
	const struct socket_config unix_socket = { where + 5, config->mode, config->owner };

	if (strncmp(where, "unix:", 5) == 0)
		return listen_unix(&unix_socket, ret_fd, err);
	if (strncmp(where, "tcp:", 4) == 0 && !config->mode && !config->owner)
		return listen_tcp(where + 4, ret_fd, err);
	return err_say(err, EINVAL, "--%s: '%.100s' is not unix:PATH or tcp:ADDRESS:PORT", option,
		       where);
}

static int hand_over(const struct gateway *gateway, const char *tag, int fd, struct err *err)
{
	int r = pass_send(gateway->control_fd, tag, 1, fd);

	return r < 0 ? err_set(err, -r, "hand the socket over to the gate") : 0;
}

/* Until the gate is ready for its socket. */
static int start(const struct serve_config *config, struct gateway *gateway, struct err *err)
{
	const struct gateway_run run = {
		.config = config->config,
		.words = config->words,
		.word_count = config->word_count,
		.run_id = config->keeper.run_id,
		.attempt = config->keeper.attempt,
		.token_secret = config->keeper.token_secret,
		.is_verbose = config->verbose,
		.connections = config->keeper.connections,
	};
	_cleanup_free_ char *text = malloc(STATUS_TEXT_MAX + 1);
	size_t len;
	int type, r;

	if (!text)
		die_no_memory();
	r = gateway_start(gateway, &run, &config->keeper, err);
	if (r < 0)
		return r;
	/* Words are those of a file: what it names as sources is wiped here, too. */
	for (int lists = 0;
	     (type = status_receive(gateway->status_fd, -1, text, &len)) == STATUS_WORDS;) {
		if (!gateway_wipe_words((struct bytes){ text, len }))
			return say_of_hosts(err);
		if (++lists == 2)
			r = status_send(gateway->status_fd, STATUS_GO, "");
	}
	if (type == STATUS_FAILED)
		return err_say(err, EINVAL, "%.500s", text);
	if (type != STATUS_READY || r < 0)
		return err_say(err, EIO, "the keeper ended before it was ready");
	return 0;
}

/* The gate's own certificate, which it tells before anything else. */
static int write_certificate(const struct serve_config *config, const struct gateway *gateway,
			     struct err *err)
{
	struct result_file file = RESULT_FILE_INIT;
	char pem[8192];
	ssize_t n = recv(gateway->control_fd, pem, sizeof(pem), 0);
	int r;

	if (n <= 0)
		return err_say(err, EIO, "the gate ended before it was ready");
	if (!config->ca_out)
		return 0;
	r = result_file_open(&file, "ca-out", config->ca_out, err);
	if (r == 0)
		r = result_file_write(&file, pem, (size_t)n, err);
	result_file_close(&file);
	return r;
}

/* Until a signal asks for the end, which is true, or the keeper says something, or has ended. */
static bool wait_for_end(const struct gateway *gateway, int signal_fd, int wait_ms)
{
	struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN },
				{ .fd = gateway->status_fd, .events = POLLIN } };

	while (poll(fds, ARRAY_LEN(fds), wait_ms) < 0)
		if (errno != EINTR)
			return true;
	return fds[0].revents != 0;
}

/* Registers a gate with a shared keeper, and starts it. -ECANCELED: a signal has come first. */
static int start_shared(const struct serve_config *config, struct gateway *gateway, int listener_fd,
			int proxy_fd, int signal_fd, struct err *err)
{
	const struct gateway_run run = { .connections = config->keeper.connections,
					 .run_id = "gate",
					 .has_egress = proxy_fd >= 0 };
	_cleanup_free_ char *text = malloc(STATUS_TEXT_MAX + 1);
	int type, r;

	if (!text)
		die_no_memory();
	r = control_connect_now(config->shared, &gateway->status_fd, err);
	if (r == 0)
		r = control_send(gateway->status_fd, CONTROL_OPEN_GATE, "", 0, err);
	if (r < 0)
		return r;
	do {
		if (wait_for_end(gateway, signal_fd, -1)) {
			close_fd(&gateway->status_fd); /* it has no last words for us */
			return -ECANCELED;
		}
		type = gateway_receive(gateway, -1, text, NULL);
	} while (type == STATUS_LINK);
	if (type == STATUS_FAILED)
		return err_say(err, EACCES, "%.500s", text);
	if (type != STATUS_READY)
		return err_say(err, EIO, "the keeper ended before it was ready");
	r = gateway_start_gate(gateway, &run, err);
	if (r == 0 && proxy_fd >= 0)
		r = write_certificate(config, gateway, err);
	if (r == 0)
		r = hand_over(gateway, "L", listener_fd, err);
	if (r == 0 && proxy_fd >= 0)
		r = hand_over(gateway, "P", proxy_fd, err);
	return r;
}

/*
 * A shared keeper may be stopped and started again: the socket stays, who connects meanwhile
 * waits, and a gate is started anew when there is a keeper. What the keeper refuses is final.
 */
static int serve_shared(const struct serve_config *config, int listener_fd, int proxy_fd,
			struct err *err)
{
	_cleanup_close_ int signal_fd = -1;
	struct gateway_summary summary;
	bool has_served = false, is_over = false;
	int r = signals_open(&signal_fd, err), wait_ms = RETRY_FIRST_MS;

	while (r == 0 && !is_over) {
		struct gateway gateway = GATEWAY_INIT;

		r = start_shared(config, &gateway, listener_fd, proxy_fd, signal_fd, err);
		if (r == 0) {
			has_served = true;
			wait_ms = RETRY_FIRST_MS;
			is_over = wait_for_end(&gateway, signal_fd, -1);
		}
		gateway_stop(&gateway, &summary);
		if (r == -ECANCELED) {
			is_over = true;
			r = 0;
		}
		if (!is_over && (has_served || r == -EAGAIN) && r != -EACCES) {
			const struct gateway none = GATEWAY_INIT;

			is_over = wait_for_end(&none, signal_fd, wait_ms);
			wait_ms = wait_ms < RETRY_MOST_MS ? 2 * wait_ms : RETRY_MOST_MS;
			r = 0;
		}
	}
	return r;
}

static void remove_socket(const char *where)
{
	if (strncmp(where, "unix:", 5) == 0)
		unlink(where + 5);
}

static int serve(const struct serve_config *config, struct err *err)
{
	_cleanup_close_ int listener_fd = -1, proxy_fd = -1, signal_fd = -1;
	struct gateway gateway = GATEWAY_INIT;
	struct gateway_summary summary;
	int r = listen_on(config, "listen", config->listen, &listener_fd, err);

	if (r < 0)
		return r;
	if (config->shared) {
		if (config->proxy)
			r = listen_on(config, "proxy", config->proxy, &proxy_fd, err);
		if (r == 0)
			r = serve_shared(config, listener_fd, proxy_fd, err);
		if (config->proxy)
			remove_socket(config->proxy);
		remove_socket(config->listen);
		return r;
	}
	r = start(config, &gateway, err);
	/* Not before: until it serves, a signal simply ends it, and with it the others. */
	if (r == 0)
		r = signals_open(&signal_fd, err);
	if (r == 0)
		r = hand_over(&gateway, "L", listener_fd, err);
	close_fd(&listener_fd); /* the gate's alone: it ends with it */
	if (r == 0)
		wait_for_end(&gateway, signal_fd, -1);
	gateway_stop(&gateway, &summary);
	remove_socket(config->listen);
	if (r == 0 && !summary.is_complete)
		r = err_say(err, EIO, "the gateway ended by itself");
	if (r == 0)
		fprintf(stderr,
			"warder: gate: %" PRIu64 " requests, %" PRIu64 " refused, audit %s\n",
			summary.allowed + summary.refused, summary.refused, summary.audit);
	return r;
}

int cmd_serve(int argc, char **argv)
{
	static struct serve_config config; /* large */
	struct err err;
	int rest, r;

	keeper_config_init(&config.keeper);
	r = options_parse(&table, &config, argc, argv, &rest, &err);
	if (config.help) {
		print_help();
		keeper_config_fini(&config.keeper);
		return 0;
	}
	if (r == 0 && rest < argc)
		r = err_say(&err, EINVAL, "gate: unexpected argument '%.60s'", argv[rest]);
	if (r == 0)
		r = apply_variables(&config, &err);
	if (r == 0)
		r = check(&config, &err);
	if (r == 0)
		r = serve(&config, &err);
	if (r < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	keeper_config_fini(&config.keeper);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}
