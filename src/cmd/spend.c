/* SPDX-License-Identifier: MIT */
/*
 * `warder spend`: what calls have cost, by our audit log and by LiteLLM's spend log, and where
 * the two differ.
 *
 * Everything of both logs near the time in question is compared, not only what was asked for:
 * what the one side has under another name, or just beyond an edge, is found so.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "audit/calls.h"
#include "base/clock.h"
#include "base/money.h"
#include "base/timestamp.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/spend_print.h"
#include "cmd/state.h"
#include "config/file.h"
#include "config/options.h"
#include "keeper/secret.h"
#include "keeper/spend_read.h"
#include "sys/process.h"
#include "warder.h"

#define DAY_MS    UINT64_C(86400000)
#define WHOSE_MAX (RUNID_MAX + 16)

struct spend_config {
	struct keeper_config keeper; /* first: its rows are among ours */
	const char *account, *since, *config;
	const char *run; /* RUN or RUN/ATTEMPT, or NULL */
	uint64_t json, help;
};

/* What is asked about. */
struct selection {
	char run_id[RUNID_MAX + 1]; /* or "" */
	int64_t attempt;            /* or -1 */
	char end_user[WHOSE_MAX];   /* with both: what LiteLLM is told of the run */
	const char *account;        /* or NULL */
	uint64_t since_ms;          /* 0: from the first call on */
};

struct spend {
	struct spend_config config;
	struct selection selection;
	/* Of the calls of ours that are asked about: */
	uint64_t first_ms;
	bool has_accounts;
	bool is_too_large;
	struct reconcile *reconcile;
	struct spend_faults faults;
};

static int read_keeper(void *data, const struct option *option, const char *text, struct err *err)
{
	struct spend_config *config = data;

	return keeper_config_apply(&config->keeper, option->name, text, err);
}

static const struct option rows[] = {
	{ "account", 0, OPTION_STRING, NULL, offsetof(struct spend_config, account), 0, 0, "ID",
	  "calls that this billing account pays for", "" },
	{ "since", 0, OPTION_STRING, NULL, offsetof(struct spend_config, since), 0, 0, "TIME",
	  "calls that began since then: 2026-11-15T14:50:00Z, 2026-11-15, or 1h for an hour ago",
	  "" },
	{ "llm", 0, OPTION_OWN, read_keeper, 0, 0, 0, "URL", "the LiteLLM whose log is read", "" },
	{ "llm-key", 0, OPTION_OWN, read_keeper, 0, 0, 0, "SOURCE",
	  "an administrator's key: env:NAME, file:PATH or exec:COMMAND", "" },
	{ "upstream-ca", 0, OPTION_OWN, read_keeper, 0, 0, 0, "FILE",
	  "certificates (PEM) to trust in it, beside the system's", "" },
	{ "connect-to", 0, OPTION_OWN, read_keeper, 0, 0, 0, "HOST:PORT=ADDRESS:PORT",
	  "dial this address instead of that host, which is still what is verified", "" },
	{ "audit", 0, OPTION_OWN, read_keeper, 0, 0, 0, "FILE",
	  "the audit log (default: ~/.local/state/warder/audit.jsonl)", "" },
	{ "config", 0, OPTION_STRING, NULL, offsetof(struct spend_config, config), 0, 0, "FILE",
	  "settings from a file, see warder.json(5)", "" },
	{ "json", 0, OPTION_FLAG, NULL, offsetof(struct spend_config, json), 1, 0, NULL,
	  "one JSON object instead of lines", "" },
	{ "help", 'h', OPTION_FLAG, NULL, offsetof(struct spend_config, help), 1, 0, NULL,
	  "print this help", "" },
};

static const struct option_table table = { "spend", rows, ARRAY_LEN(rows) };

static void print_help(FILE *out)
{
	fprintf(out, "usage: warder spend RUN[/ATTEMPT] | --account ID | --since TIME [options]\n\n"
		     "Compares what the audit log and LiteLLM's spend log have of LLM calls.\n\n");
	options_print_help(&table, out);
	fprintf(out,
		"\nExit status: 0 when both have the same, 1 when they differ or the audit log "
		"was changed,\n125 for anything else.\n");
}

/* ---- options ---- */

/* Options may stand on both sides of RUN. */
static int parse_words(struct spend_config *config, int argc, char **argv, struct err *err)
{
	int rest = 0, r = options_parse(&table, config, argc, argv, &rest, err);

	while (r == 0 && rest < argc) {
		if (config->run)
			return err_say(err, EINVAL, "spend: one RUN at a time, not also '%.60s'",
				       argv[rest]);
		argc -= rest;
		argv += rest;
		config->run = argv[0];
		r = options_parse(&table, config, argc, argv, &rest, err);
	}
	return r;
}

/* The file's settings that a keeper takes; the run's are nothing to us. */
static int apply_file(struct spend_config *config, struct config_file *file, struct err *err)
{
	const char **words;
	int r = config_file_read(config->config, file, err);

	if (r < 0)
		return r;
	words = arena_alloc(&file->arena, (file->keeper.count + 2) * sizeof(*words));
	words[0] = "spend";
	memcpy(words + 1, file->keeper.words, file->keeper.count * sizeof(*words));
	for (size_t i = 0; i < file->value_count; i++)
		secret_lend(file->values[i].name, file->values[i].text);
	return keeper_config_parse(&config->keeper, (int)file->keeper.count + 1, (char **)words,
				   err);
}

/* The command line is read again on top of what its file says. */
static int configure(struct spend_config *config, struct config_file *file, int argc, char **argv,
		     struct err *err)
{
	int r;

	keeper_config_init(&config->keeper);
	r = parse_words(config, argc, argv, err);
	if (r < 0 || config->help || !config->config)
		return r < 0 ? r : keeper_config_check(&config->keeper, err);
	keeper_config_fini(&config->keeper);
	keeper_config_init(&config->keeper);
	r = apply_file(config, file, err);
	config->run = NULL;
	if (r == 0)
		r = parse_words(config, argc, argv, err);
	return r < 0 ? r : keeper_config_check(&config->keeper, err);
}

static int read_run(const char *text, struct selection *selection, struct err *err)
{
	size_t len = strcspn(text, "/");
	uint64_t attempt;

	selection->attempt = -1;
	if (len <= RUNID_MAX)
		snprintf(selection->run_id, sizeof(selection->run_id), "%.*s", (int)len, text);
	if (!runid_is_valid(selection->run_id))
		return err_say(err, EINVAL, "spend: '%.80s' is no RUN and no RUN/ATTEMPT", text);
	if (!text[len])
		return 0;
	if (units_parse_count(text + len + 1, &attempt) < 0 || attempt > UINT32_MAX)
		return err_say(err, EINVAL, "spend: '%.80s': what follows the slash is no attempt",
			       text);
	selection->attempt = (int64_t)attempt;
	snprintf(selection->end_user, sizeof(selection->end_user), "%s/%" PRIu64, selection->run_id,
		 attempt);
	return 0;
}

static int read_since(const char *text, uint64_t *ret_ms, struct err *err)
{
	uint64_t now_ms = clock_ms(CLOCK_REALTIME), ago_ms;

	if (timestamp_parse(bytes_of(text), ret_ms) == 0)
		return 0;
	if (units_parse_duration(text, &ago_ms) < 0 || ago_ms > now_ms)
		return err_say(err, EINVAL,
			       "spend: --since: '%.60s' is no time (2026-11-15T14:50:00Z) and no "
			       "duration (1h)",
			       text);
	*ret_ms = now_ms - ago_ms;
	return 0;
}

static int select_calls(struct spend *spend, struct err *err)
{
	const struct spend_config *config = &spend->config;
	struct selection *selection = &spend->selection;
	int r = 0;

	if (!config->run && !config->account && !config->since)
		return err_say(err, EINVAL, "spend: of what? RUN, --account ID or --since TIME");
	if (config->keeper.llm_count == 0)
		return err_say(err, EINVAL,
			       "spend: whose log? --llm URL names a LiteLLM, --llm-key SOURCE its "
			       "key");
	selection->account = config->account;
	if (config->run)
		r = read_run(config->run, selection, err);
	if (r == 0 && config->since)
		r = read_since(config->since, &selection->since_ms, err);
	return r;
}

/* ---- our side ---- */

static bool is_ours_selected(const struct selection *selection, const struct audit_call *call)
{
	if (selection->run_id[0] &&
	    (strcmp(call->run_id, selection->run_id) != 0 ||
	     (selection->attempt >= 0 && call->attempt != selection->attempt)))
		return false;
	if (selection->account && strcmp(call->account, selection->account) != 0)
		return false;
	return call->start_ms >= selection->since_ms;
}

static void on_fault(void *owner, const struct audit_fault *fault)
{
	struct spend_faults *faults = &((struct spend *)owner)->faults;

	if (faults->count < SPEND_FAULTS_MAX)
		faults->first[faults->count] = *fault;
	faults->count++;
}

/* On the first walk: when it all began. */
static void find_first(void *owner, const struct audit_call *call)
{
	struct spend *spend = owner;

	if (!is_ours_selected(&spend->selection, call))
		return;
	if (spend->first_ms == 0 || call->start_ms < spend->first_ms)
		spend->first_ms = call->start_ms;
	spend->has_accounts |= call->account[0] != '\0';
}

/* On the second: what is near enough to be compared. */
static void add_ours(void *owner, const struct audit_call *call)
{
	struct spend *spend = owner;
	int (*add)(struct reconcile *, const struct reconcile_call *) = reconcile_add_ours;
	char whose[WHOSE_MAX];
	struct reconcile_call made = {
		.id = call->call_id,
		.other_id = "",
		.whose = whose,
		.end_user = call->is_decided   ? ""
			    : call->account[0] ? call->account
					       : whose,
		.model = call->model,
		.time_ms = call->start_ms,
		.status = call->status,
		.is_inside = is_ours_selected(&spend->selection, call),
	};

	if (call->start_ms + DAY_MS < spend->first_ms)
		return;
	snprintf(whose, sizeof(whose), "%.*s/%" PRIu32, RUNID_MAX, call->run_id, call->attempt);
	made.has_cost = call->cost[0] && money_parse(bytes_of(call->cost), &made.cost) == 0;
	if (call->is_decided)
		add = reconcile_add_decided;
	if (add(spend->reconcile, &made) < 0)
		spend->is_too_large = true;
}

static int read_audit(struct spend *spend, struct err *err)
{
	const struct audit_call_visitor first = { on_fault, find_first, spend };
	const struct audit_call_visitor second = { NULL, add_ours, spend };
	struct audit_summary summary;
	char path[STATE_PATH_MAX];
	_cleanup_file_ FILE *file = NULL;
	int r = state_audit_path(spend->config.keeper.audit, path, err);

	if (r < 0)
		return r;
	file = fopen(path, "re");
	if (!file)
		return err_set(err, errno, "open the audit log '%.200s'", path);
	r = audit_read_calls(file, &first, &summary);
	if (spend->selection.since_ms > 0)
		spend->first_ms = spend->selection.since_ms;
	rewind(file);
	if (r == 0)
		r = audit_read_calls(file, &second, &summary);
	return r < 0 ? err_set(err, -r, "read the audit log '%.200s'", path) : 0;
}

/* ---- their side ---- */

static bool is_theirs_selected(const struct selection *selection, const struct spend_row *row)
{
	if (selection->run_id[0] && !spend_row_is_of(row, selection->run_id, selection->attempt))
		return false;
	if (selection->account && strcmp(row->end_user, selection->account) != 0)
		return false;
	return row->start_ms == 0 || row->start_ms >= selection->since_ms;
}

static int add_theirs(void *owner, const struct spend_row *row, struct err *err)
{
	struct spend *spend = owner;
	char run_id[RUNID_MAX + 1], whose[WHOSE_MAX];
	uint32_t attempt;
	struct reconcile_call made = {
		.id = row->call_id,
		.other_id = row->request_id,
		.whose = row->end_user,
		.end_user = row->end_user,
		.model = row->model,
		.time_ms = row->start_ms,
		.has_cost = true,
		.cost = row->cost,
		.is_inside = is_theirs_selected(&spend->selection, row),
	};

	if (spend_row_run(row, run_id, &attempt)) {
		snprintf(whose, sizeof(whose), "%s/%" PRIu32, run_id, attempt);
		made.whose = whose;
	}
	if (reconcile_add_theirs(spend->reconcile, &made) < 0)
		return err_say(err, E2BIG, "the spend log has too many calls since then");
	return 0;
}

/* A LiteLLM that can look for one end user need not tell of others; or NULL. */
static const char *find_end_user(const struct spend *spend)
{
	const struct selection *selection = &spend->selection;

	if (selection->account)
		return selection->account;
	/* A run's calls are recorded under its own name unless an account pays. */
	return selection->end_user[0] && !spend->has_accounts ? selection->end_user : NULL;
}

static int read_spend_log(struct spend *spend, struct err *err)
{
	uint64_t from_ms = spend->first_ms > DAY_MS ? spend->first_ms - DAY_MS : 0;
	struct spend_reading reading = {
		.since_s = from_ms / 1000,
		.until_s = (clock_ms(CLOCK_REALTIME) + DAY_MS) / 1000,
		.end_user = find_end_user(spend),
		.on_row = add_theirs,
		.owner = spend,
	};

	return spend_read(&spend->config.keeper, &reading, err);
}

/* ---- the verb ---- */

static int compare(struct spend *spend, struct err *err)
{
	const struct reconcile_result *result;
	int r = read_audit(spend, err);

	if (r == 0)
		r = read_spend_log(spend, err);
	if (r < 0)
		return r;
	if (spend->is_too_large)
		return err_say(
			err, E2BIG,
			"the audit log has more than %d calls since then; --since narrows it",
			RECONCILE_CALLS_MAX);
	result = reconcile_compare(spend->reconcile);
	if (spend->config.json)
		spend_print_json(result, &spend->faults);
	else
		spend_print_text(result, &spend->faults);
	if (fflush(stdout) < 0 || ferror(stdout))
		return err_set(err, EIO, "write to standard output");
	return result->differences + spend->faults.count > 0;
}

/* 0, 1 when there are differences, or -errno. */
static int run(struct spend *spend, int argc, char **argv, struct err *err)
{
	struct config_file file = { .run = { NULL, 0 } };
	int r = configure(&spend->config, &file, argc, argv, err);

	if (spend->config.help)
		print_help(stdout);
	else if (r == 0 && (r = select_calls(spend, err)) == 0) {
		spend->reconcile = reconcile_new();
		r = compare(spend, err);
		reconcile_free(spend->reconcile);
	}
	secret_forget_sources();
	keeper_config_fini(&spend->config.keeper);
	config_file_fini(&file);
	return spend->config.help ? 0 : r;
}

int cmd_spend(int argc, char **argv)
{
	static struct spend spend; /* large */
	struct err err = { 0 };
	int r;

	if (argc < 2) {
		print_help(stderr);
		return WARDER_EXIT_FAILED;
	}
	if (process_hide() < 0) /* it holds an administrator's key */
		return WARDER_EXIT_FAILED;
	signal(SIGPIPE, SIG_IGN);
	r = run(&spend, argc, argv, &err);
	if (r >= 0)
		return r;
	fprintf(stderr, "warder: %s\n", err.text);
	return WARDER_EXIT_FAILED;
}
