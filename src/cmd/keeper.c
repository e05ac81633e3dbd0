/* SPDX-License-Identifier: MIT */
/*
 * The keeper as a process: descriptor 3 is where it reports, descriptor 4 the link.
 *
 * It is a program of its own from its first instruction: neither the gate nor the sandbox
 * was forked from a process that had read a secret (INV-SECRETS-HOST-ONLY).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/result_file.h"
#include "cmd/state.h"
#include "config/file.h"
#include "keeper/limiter.h"
#include "keeper/report.h"
#include "sys/heap.h"
#include "sys/process.h"
#include "sys/rlimit.h"
#include "sys/status.h"
#include "warder.h"

#define STATUS_FD 3
#define LINK_FD   4
#define OTHER_FDS 320 /* beside one connection per exchange: those that wait, and our own */

/* Nothing is opened or written before the run has looked at what its file says. */
static int wait_for_go(struct err *err)
{
	_cleanup_free_ char *text = malloc(STATUS_TEXT_MAX + 1);

	if (!text || status_receive(STATUS_FD, -1, text, NULL) != STATUS_GO)
		return err_say(err, ECANCELED, "the run was not started");
	return 0;
}

/* The text of a variable in place of a file; the variable is not needed any more. */
static int read_variable(const char *name, struct config_file *file, struct err *err)
{
	char *value = getenv(name);
	int r;

	if (!value)
		return err_say(err, ENOENT, "%.60s is not set", name);
	r = config_file_parse(name, bytes_of(value), file, err);
	explicit_bzero(value, strlen(value));
	unsetenv(name);
	return r;
}

/* What a configuration file says: for us, and for the run, which is told. */
static int apply_file(struct config_file *file, struct keeper_config *config, struct err *err)
{
	const char **words = arena_alloc(&file->arena, (file->keeper.count + 2) * sizeof(*words));
	int r;

	words[0] = "keeper";
	memcpy(words + 1, file->keeper.words, file->keeper.count * sizeof(*words));
	r = keeper_config_parse(config, (int)file->keeper.count + 1, (char **)words, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < file->value_count; i++)
		secret_lend(file->values[i].name, file->values[i].text);
	r = status_send_words(STATUS_FD, file->run.words, file->run.count);
	if (r == 0)
		r = status_send_words(STATUS_FD, file->keeper.words, file->keeper.count);
	if (r < 0)
		return err_set(err, -r, "tell the run what its configuration says");
	return wait_for_go(err);
}

/* `keeper [--config FILE | --config-variable NAME] OPTION…`: the command line counts over it. */
static int configure(int argc, char **argv, struct config_file *file, struct keeper_config *config,
		     struct err *err)
{
	bool has_file = argc > 2 && strcmp(argv[1], "--config") == 0;
	bool has_variable = argc > 2 && strcmp(argv[1], "--config-variable") == 0;
	int r = 0;

	if (has_file)
		r = config_file_read(argv[2], file, err);
	if (has_variable)
		r = read_variable(argv[2], file, err);
	if (r == 0 && (has_file || has_variable)) {
		r = config_file_expect(file, argv[2], CONFIG_FOR_RUN, err);
		if (r == 0)
			r = apply_file(file, config, err);
		argc -= 2;
		argv += 2;
	}
	if (r == 0)
		r = keeper_config_parse(config, argc, argv, err);
	return r < 0 ? r : keeper_config_check(config, err);
}

/* Everything has been opened that needed rights to be. */
static int settle(const struct keeper_config *config, struct err *err)
{
	rlimit_raise(RLIMIT_NOFILE, config->connections + OTHER_FDS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "drop the keeper's privileges");
	return 0;
}

static int send_packet(void *owner, enum status_type type, struct bytes text)
{
	(void)owner;
	return status_send_bytes(STATUS_FD, type, text);
}

/* Whoever started us. */
static const struct report_sink starter = { send_packet, NULL };

/* A draft that cannot be written is a run not started. */
static int open_draft(const char *path, struct result_file *draft, struct err *err)
{
	int r = result_file_open(draft, "learn", path, err);

	return r < 0 ? r : result_file_check_mark(draft, LEARN_MARK, err);
}

static int write_draft(const struct peer *peer, struct result_file *draft, struct err *err)
{
	char count[24];
	struct buf text;
	int r;

	buf_init(&text, LEARN_TEXT_MAX);
	learn_write(peer->learn, peer->run ? peer->run->run_id : NULL, &text);
	r = result_file_write(draft, text.data, text.len, err);
	buf_fini(&text);
	if (r < 0)
		return r;
	snprintf(count, sizeof(count), "%zu", learn_count(peer->learn));
	return status_send(STATUS_FD, STATUS_LEARNED, count);
}

/* What a private keeper has beside its parts. */
struct private_keeper {
	struct keeper keeper;
	struct loop_source owner;  /* whoever started us */
	struct result_file draft;  /* of --learn */
	char path[STATE_PATH_MAX]; /* of the audit log */
	int result;                /* of having served the run */
	struct err *err;
};

/*
 * Whoever started us is gone, and a gate that has been taken over must not go on without it. It
 * never says anything: what can be read is its end.
 */
static void on_owner_gone(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	(void)ready;
	(void)now_ms;
	loop_end(&OWNER_OF(source, struct private_keeper, owner)->keeper.loop);
}

/* The last words; without them whoever started us knows that something is missing. */
static void on_peer_over(struct peer *peer, uint64_t now_ms)
{
	struct private_keeper *own = peer->owner;
	struct err unwritten;

	(void)now_ms;
	own->result = keeper_write_records(&own->keeper, own->err);
	if (own->result == 0 && peer->learn && write_draft(peer, &own->draft, &unwritten) < 0)
		fprintf(stderr, "warder: %s\n", unwritten.text);
	/* Nobody is left to be told, nor to be told why not. */
	if (own->result == 0 && report_end(peer, own->path, &starter) < 0)
		own->result = -ECANCELED;
	loop_end(&own->keeper.loop);
}

/* The one run; none where every request names its own. */
static int make_run(const struct keeper_config *config, struct charter *charter,
		    struct run **ret_run, struct err *err)
{
	const struct run_spec spec = { .run_id = config->run_id,
				       .attempt = (uint32_t)config->attempt };
	struct run *run;
	int r = 0;

	if (!config->run_id)
		return 0;
	run = run_new(charter, &spec, err);
	if (!run)
		return -EINVAL;
	run_set_begun(run, clock_ms(CLOCK_REALTIME), clock_now_ms());
	*ret_run = run;
	if (charter->vault.count > 0)
		r = report_placeholders(run, &starter);
	return r < 0 ? err_set(err, -r, "tell the run its placeholders") : 0;
}

/* Limits of one run are counted in memory: they end with it. */
static bool has_limits(const struct keeper_config *config)
{
	return limits_are_any(&config->run_limits) || config->account_limit_count > 0 ||
	       config->host_limit_count > 0;
}

static void on_news(struct store *store, enum store_news news, const char *about, uint64_t now_ms)
{
	limiter_on_news(store->owner, news, about, now_ms);
}

static void open_store(struct keeper *keeper, const struct keeper_config *config)
{
	if (!has_limits(config))
		return;
	keeper->store = store_local_new(&keeper->loop, NULL);
	keeper->store->owner = keeper;
	keeper->store->on_news = on_news;
}

/* Everything that can fail before the agent is there. */
static int open_all(struct private_keeper *own, const struct keeper_config *config,
		    struct charter *charter, struct err *err)
{
	struct run *run = NULL;
	struct stream link;
	struct peer *peer = NULL;
	int r = keeper_open(&own->keeper, charter, err);

	stream_init_plain(&link, LINK_FD);
	if (r == 0) {
		open_store(&own->keeper, config);
		r = make_run(config, charter, &run, err);
	}
	if (r == 0 && config->learn)
		r = open_draft(config->learn, &own->draft, err);
	if (r == 0)
		r = state_make_parents(config->audit, own->path, err);
	if (r == 0)
		r = keeper_open_audit(&own->keeper, own->path, err);
	if (r == 0)
		r = settle(config, err);
	if (r == 0)
		r = peer_open(&own->keeper, &link, run,
			      charter->token_keys.count > 0 ? PEER_OPEN : PEER_LOCAL, &peer, err);
	if (!peer) {
		run_free(run);
		return r;
	}
	peer->on_over = on_peer_over;
	peer->owner = own;
	peer->learn = config->learn ? learn_new() : NULL;
	own->owner = (struct loop_source){ .fd = -1, .on_ready = on_owner_gone };
	r = loop_add(&own->keeper.loop, &own->owner, STATUS_FD, LOOP_READ);
	return r < 0 ? err_set(err, -r, "watch the run") : 0;
}

static int serve(struct private_keeper *own, const struct keeper_config *config, struct err *err)
{
	struct charter *charter = NULL;
	int r = state_audit_path(config->audit, own->path, err);

	own->err = err;
	if (r == 0)
		r = charter_new(config, &charter, err);
	secret_forget_sources();
	if (!charter)
		return r;
	r = open_all(own, config, charter, err);
	charter_unref(charter);
	if (r == 0) {
		r = status_send(STATUS_FD, STATUS_READY, "");
		if (r == 0)
			r = keeper_serve(&own->keeper);
		if (r < 0)
			err_set(err, -r, "serve the run");
		else
			r = own->result;
	}
	result_file_close(&own->draft);
	keeper_close(&own->keeper);
	return r;
}

int cmd_keeper(int argc, char **argv)
{
	static struct private_keeper own = { .draft = RESULT_FILE_INIT }; /* large */
	struct keeper_config config;
	struct config_file file = { .run = { NULL, 0 } };
	static struct err err; /* as long as the keeper, which tells by it */
	int r;

	if (fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(LINK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(LINK_FD, F_SETFL, O_NONBLOCK) < 0) {
		fprintf(stderr, "warder-gateway: the keeper is started by warder, not by hand\n");
		return WARDER_EXIT_FAILED;
	}
	if (process_hide() < 0)
		return WARDER_EXIT_FAILED;
	signal(SIGPIPE, SIG_IGN);
	heap_settle();
	keeper_config_init(&config);
	r = configure(argc, argv, &file, &config, &err);
	if (r == 0)
		r = serve(&own, &config, &err);
	/* Who did not let it go on has said why. */
	if (r < 0 && r != -ECANCELED && status_send(STATUS_FD, STATUS_FAILED, err.text) < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	keeper_config_fini(&config);
	config_file_fini(&file);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}
