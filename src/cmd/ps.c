/* SPDX-License-Identifier: MIT */
/* `warder ps`, `revoke` and `drain`: what is asked of a shared keeper. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/runid.h"
#include "cmd/cmd.h"
#include "cmd/control_client.h"
#include "cmd/run_list.h"
#include "config/options.h"
#include "keeper/control.h"
#include "sys/status.h"
#include "warder.h"

struct ps_config {
	const char *keeper;
	uint64_t json, help;
	bool is_one; /* a run was named */
};

#define KEEPER_ROW                                                                                 \
	{                                                                                          \
		"keeper", 0, OPTION_STRING, NULL, offsetof(struct ps_config, keeper), 0, 0,        \
			"unix:PATH",                                                               \
			"the keeper's control socket (default: where 'warder keeper' puts it)", "" \
	}
#define HELP_ROW                                                                                   \
	{                                                                                          \
		"help", 'h', OPTION_FLAG, NULL, offsetof(struct ps_config, help), 1, 0, NULL,      \
			"print this help", ""                                                      \
	}

static const struct option ps_rows[] = {
	KEEPER_ROW,
	{ "json", 0, OPTION_FLAG, NULL, offsetof(struct ps_config, json), 1, 0, NULL,
	  "one JSON object per run", "" },
	HELP_ROW,
};
static const struct option rows[] = { KEEPER_ROW, HELP_ROW };

struct command {
	struct option_table table;
	const char *usage;
	int least, most; /* words beside the options */
	char letter, letter_with_word;
};

static const struct command ps_command = {
	{ "ps", ps_rows, ARRAY_LEN(ps_rows) },
	"usage: warder ps [options] [RUN]\n\nLists the runs of a shared keeper, or shows one.\n",
	0,
	1,
	CONTROL_LIST,
	CONTROL_SHOW,
};
static const struct command revoke_command = {
	{ "revoke", rows, ARRAY_LEN(rows) },
	"usage: warder revoke [options] RUN\n\n"
	"Takes a run's access away, for ever: what it has under way ends, and no link or token\n"
	"of it is good any more.\n",
	1,
	1,
	0,
	CONTROL_REVOKE,
};
static const struct command drain_command = {
	{ "drain", rows, ARRAY_LEN(rows) },
	"usage: warder drain [options]\n\n"
	"Lets a shared keeper take no more runs, and waits until the last one has ended and the\n"
	"keeper with it.\n",
	0,
	0,
	CONTROL_DRAIN,
	0,
};

/* Answers until there are no more; a keeper that is drained answers by its end. */
static int read_answers(const struct command *command, const struct ps_config *config, int fd,
			struct err *err)
{
	char *text = malloc(STATUS_TEXT_MAX + 1);
	struct run_list list = { .is_json = config->json != 0, .is_one = config->is_one };
	bool is_done = false;
	size_t len;
	int type, r = 0;

	if (!text)
		die_no_memory();
	while (r == 0 && (type = status_receive(fd, -1, text, &len)) > 0) {
		if (type == STATUS_FAILED)
			r = err_say(err, EACCES, "%s: %.400s", command->table.verb, text);
		else if (type == STATUS_RUN)
			run_list_add(&list, (struct bytes){ text, len });
		else if (type == STATUS_DONE)
			is_done = true;
		if (is_done && command->letter != CONTROL_DRAIN)
			break;
	}
	free(text);
	if (r == 0 && !is_done)
		r = err_say(err, EPIPE, "%s: the keeper ended before it had answered",
			    command->table.verb);
	return r;
}

static int ask(const struct command *command, const struct ps_config *config, const char *run_id,
	       struct err *err)
{
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (run_id && !runid_is_valid(run_id))
		r = err_say(err, EINVAL, "%s: '%.80s' is no run id", command->table.verb, run_id);
	if (r == 0)
		r = control_connect(config->keeper, &fd, err);
	if (r == 0)
		r = control_send(fd, run_id ? command->letter_with_word : command->letter,
				 run_id ? run_id : "", run_id ? strlen(run_id) + 1 : 0, err);
	return r < 0 ? r : read_answers(command, config, fd, err);
}

/* Options may stand before and after the run. */
static int read_words(const struct command *command, struct ps_config *config, int argc,
		      char **argv, const char **ret_run_id, struct err *err)
{
	int rest = 0, count = 0, r = options_parse(&command->table, config, argc, argv, &rest, err);

	for (; r == 0 && rest < argc; count++) {
		int from = rest;

		*ret_run_id = argv[rest];
		r = options_parse(&command->table, config, argc - from, argv + from, &rest, err);
		rest += from;
	}
	if (r < 0 || config->help)
		return r;
	if (count > command->most)
		return err_say(err, EINVAL, "%s: unexpected argument '%.60s'", command->table.verb,
			       *ret_run_id);
	return count < command->least
		       ? err_say(err, EINVAL, "%s: which run? 'warder ps' lists them",
				 command->table.verb)
		       : 0;
}

static int run_command(const struct command *command, int argc, char **argv)
{
	struct ps_config config = { .keeper = NULL };
	const char *run_id = NULL;
	struct err err = { 0 };
	int r = read_words(command, &config, argc, argv, &run_id, &err);

	if (config.help) {
		printf("%s\n", command->usage);
		options_print_help(&command->table, stdout);
		return 0;
	}
	config.is_one = run_id != NULL;
	if (r == 0)
		r = ask(command, &config, run_id, &err);
	if (r == 0 && fflush(stdout) < 0)
		r = err_set(&err, errno, "write to standard output");
	if (r < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}

int cmd_ps(int argc, char **argv)
{
	return run_command(&ps_command, argc, argv);
}

int cmd_revoke(int argc, char **argv)
{
	return run_command(&revoke_command, argc, argv);
}

int cmd_drain(int argc, char **argv)
{
	return run_command(&drain_command, argc, argv);
}
