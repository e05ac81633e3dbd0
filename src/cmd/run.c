/* SPDX-License-Identifier: MIT */
/* `warder run`: the command line around warder_run_once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cmd/cmd.h"
#include "cmd/result_file.h"
#include "cmd/run_gateway.h"
#include "config/settings.h"
#include "sys/fd.h"
#include "warder.h"

void cmd_run_help(FILE *out)
{
	fprintf(out, "usage: warder run [options] [--] COMMAND [ARG...]\n\n"
		     "Runs COMMAND in a sandbox with no network, no secrets and hard limits.\n\n");
	run_config_print_help(out);
	fprintf(out, "\nExit status: the command's own; 124 deadline, 137 killed for memory,\n"
		     "125 warder itself failed, 126 cannot execute, 127 not found.\n");
}

/* The signals that are for the agent reach it through a descriptor. */
static int open_signals(void)
{
	static const int passed_on[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
					 SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static enum warder_stdio choose_stdio(const struct run_config *config)
{
	if (config->json)
		return WARDER_STDIO_CAPTURE;
	if (config->tty == TTY_ALWAYS ||
	    (config->tty == TTY_AUTO && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return WARDER_STDIO_TTY;
	return WARDER_STDIO_PASS;
}

static struct warder_spec make_spec(const struct run_config *config)
{
	return (struct warder_spec){
		.run_id = config->run_id,
		.attempt = (uint32_t)config->attempt,
		.workspace = config->workspace,
		.argv = config->argv,
		.env = config->env,
		.mounts = config->mounts,
		.mount_count = config->mount_count,
		.limits = {
			.timeout_ms = config->timeout_ms,
			.grace_ms = config->grace_ms,
			.memory_bytes = config->memory_bytes,
			.pids = config->pids,
			.cpu_milli = config->cpu_milli,
			.files = config->files,
			.tmpfs_bytes = config->tmpfs_bytes,
			.output_bytes = config->output_bytes,
		},
		.cgroup = config->cgroup,
		.stdio = choose_stdio(config),
		.stdin_fd = STDIN_FILENO,
		.signal_fd = -1,
		.gate_fd = -1,
		.ready_fd = -1,
	};
}

static void print_requests(const struct gateway_summary *requests)
{
	if (requests->is_complete)
		fprintf(stderr, ", %" PRIu64 " request%s, %" PRIu64 " refused, audit %s",
			requests->allowed + requests->refused,
			requests->allowed + requests->refused == 1 ? "" : "s", requests->refused,
			requests->audit);
	else
		fprintf(stderr, ", the gateway ended before the run did");
}

static void print_summary(const struct run_config *config, const struct warder_result *result,
			  const struct gateway_summary *requests)
{
	if (result->message[0])
		fprintf(stderr, "warder: %s\n", result->message);
	if (config->quiet || result->exit_code == WARDER_EXIT_FAILED)
		return;
	fprintf(stderr, "warder: run %s: exit %d, %" PRIu64 ".%03" PRIu64 " s", result->run_id,
		result->exit_code, result->duration_ms / 1000, result->duration_ms % 1000);
	if (config->verbose && result->memory_peak_bytes)
		fprintf(stderr, ", %" PRIu64 " KiB at most", result->memory_peak_bytes / 1024);
	if (config->verbose)
		fprintf(stderr, ", cgroup %s", result->cgroup);
	if (requests)
		print_requests(requests);
	fprintf(stderr, "\n");
	for (size_t i = 0; requests && i < requests->refused_host_count; i++)
		fprintf(stderr, "warder: refused: %s; allow it with --allow-net %s\n",
			requests->refused_hosts[i], requests->refused_hosts[i]);
	if (requests && config->learn && requests->is_complete)
		fprintf(stderr, "warder: draft: %" PRIu64 " rule%s for what was refused, in %s\n",
			requests->learned, requests->learned == 1 ? "" : "s", config->learn);
}

/* Gives the result to whoever asked for it; 0 or -errno. */
static int deliver(const struct run_config *config, struct result_file *file,
		   const struct warder_result *result, struct err *err)
{
	_cleanup_free_ char *json = NULL;
	size_t len;
	int r = 0;

	if (!config->json && !config->result)
		return 0;
	json = warder_result_json(result, &len);
	if (config->json) {
		r = fd_write_all(STDOUT_FILENO, json, len);
		if (r < 0)
			err_set(err, -r, "write the result to standard output");
	}
	if (config->result) {
		int written = result_file_write(file, json, len, r < 0 ? NULL : err);

		r = r < 0 ? r : written;
	}
	return r;
}

static int fail(const struct run_config *config, struct result_file *file, const struct err *err)
{
	struct warder_result result = {
		.attempt = (uint32_t)config->attempt,
		.exit_code = WARDER_EXIT_FAILED,
		.error = WARDER_ERROR_CONTAINER_FAILED,
	};
	struct err ignored;

	if (config->run_id)
		snprintf(result.run_id, sizeof(result.run_id), "%s", config->run_id);
	memcpy(result.message, err->text, sizeof(result.message));
	fprintf(stderr, "warder: %s\n", err->text);
	if (deliver(config, file, &result, &ignored) < 0)
		return WARDER_EXIT_FAILED;
	return WARDER_EXIT_FAILED;
}

static int check(const struct run_config *config, struct err *err)
{
	if (config->json && config->tty == TTY_ALWAYS)
		return err_say(err, EINVAL,
			       "--json and --tty exclude each other: a terminal has "
			       "no separate stdout and stderr to report");
	if (!config->llm_socket.path && (config->llm_socket.mode || config->llm_socket.owner))
		return err_say(err, EINVAL,
			       "--llm-socket-mode and --llm-socket-owner belong to --llm-socket");
	if (config->keeper_address && config->config_variable)
		return err_say(err, EINVAL,
			       RUN_CONFIG_VARIABLE " is set, and with --keeper the keeper decides; "
						   "unset one of them");
	if (run_gateway_check(config, err) < 0)
		return -EINVAL;
	return keeper_config_check(&config->keeper, err);
}

static int run(struct run_config *config, struct result_file *file, struct run_gateway *gateway)
{
	bool has_gateway = run_config_has_gateway(config);
	struct warder_spec spec = make_spec(config);
	struct gateway_summary requests;
	struct warder_result result;
	struct err err;
	int status;

	if (has_gateway)
		run_gateway_apply(gateway, config, &spec);
	spec.signal_fd = open_signals();
	if (warder_run_once(&spec, &result) < 0 && result.run_id[0] == '\0' && spec.run_id)
		snprintf(result.run_id, sizeof(result.run_id), "%s", spec.run_id);
	status = result.exit_code;
	if (has_gateway)
		run_gateway_stop(gateway, &requests);
	print_summary(config, &result, has_gateway ? &requests : NULL);
	if (deliver(config, file, &result, &err) < 0) {
		fprintf(stderr, "warder: %s\n", err.text);
		status = WARDER_EXIT_FAILED;
	}
	warder_result_clear(&result);
	return status;
}

/* A variable stands for a file that was not named. */
static void find_variable(struct run_config *config)
{
	const char *value = getenv(RUN_CONFIG_VARIABLE);

	if (!config->config && value && *value)
		config->config_variable = RUN_CONFIG_VARIABLE;
}

static int run_main(int argc, char **argv, bool covers_config)
{
	struct result_file file = RESULT_FILE_INIT;
	struct run_gateway gateway = RUN_GATEWAY_INIT;
	struct gateway_summary ignored;
	struct run_config config;
	struct err err;
	int status, r = run_config_parse(&config, argc, argv, &err);

	if (config.help) {
		cmd_run_help(stdout);
		run_config_fini(&config);
		return 0;
	}
	find_variable(&config);
	config.covers_config = covers_config;
	if (r == 0)
		r = check(&config, &err);
	/* Before anything starts: a result that cannot be written is a run not started. */
	if (r == 0 && config.result)
		r = result_file_open(&file, "result", config.result, &err);
	if (r == 0 && run_config_has_gateway(&config))
		r = run_gateway_start(&gateway, &config, argc, argv, &err);
	status = r < 0 ? fail(&config, &file, &err) : run(&config, &file, &gateway);
	run_gateway_stop(&gateway, &ignored);
	result_file_close(&file);
	run_config_fini(&config);
	run_gateway_free(&gateway);
	return status;
}

int cmd_run(int argc, char **argv)
{
	return run_main(argc, argv, false);
}

int cmd_secrets_proxy_run(int argc, char **argv)
{
	return run_main(argc, argv, true);
}
