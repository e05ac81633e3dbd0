/* SPDX-License-Identifier: MIT */
/*
 * `warder keeper`: one keeper for many runs.
 *
 * It reads its configuration, opens its store and its log, listens, and serves until it is told
 * to end: SIGTERM lets what is under way end first, for a time; SIGHUP reads the configuration
 * again, which counts for new requests.
 */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/die.h"
#include "cmd/cmd.h"
#include "cmd/listen.h"
#include "cmd/state.h"
#include "cmd/store_open.h"
#include "config/shared_config.h"
#include "keeper/control.h"
#include "keeper/limiter.h"
#include "sys/heap.h"
#include "sys/process.h"
#include "sys/rlimit.h"
#include "warder.h"

#define FDS 65536 /* links and connections of a thousand runs */

/* A configuration as it was read; a charter lives by it, and frees it. */
struct reading {
	struct shared_config config; /* first */
	struct config_file file;
};

struct shared {
	struct keeper keeper;
	struct loop_source signals;
	struct loop_timer drain_timer;
	struct control *control;
	uid_t users[SHARED_USERS_MAX];
	size_t user_count;
	char audit[STATE_PATH_MAX];
	char control_path[STATE_PATH_MAX];
	int argc; /* of the command line, which counts at every reading */
	char **argv;
};

/* ---- reading the configuration ---- */

static void reading_free(struct reading *reading)
{
	shared_config_fini(&reading->config);
	config_file_fini(&reading->file);
	free(reading);
}

static void on_charter_free(struct charter *charter)
{
	reading_free((struct reading *)(void *)charter->config);
}

static const struct shared_config *config_of(const struct charter *charter)
{
	return &((const struct reading *)(const void *)charter->config)->config;
}

static int add_token_keys(struct charter *charter, struct err *err)
{
	const struct shared_config *config = config_of(charter);
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->token_key_count; i++)
		r = charter_add_token_key(charter, config->token_keys[i].id,
					  config->token_keys[i].source, err);
	return r;
}

/* What a file has of secrets is the charter's alone from here on. */
static int make_charter(struct reading *reading, struct charter **ret_charter, struct err *err)
{
	struct charter *charter;
	int r;

	for (size_t i = 0; i < reading->file.value_count; i++)
		secret_lend(reading->file.values[i].name, reading->file.values[i].text);
	r = charter_new(&reading->config.keeper, &charter, err);
	secret_forget_lent();
	if (r < 0) {
		reading_free(reading);
		return r;
	}
	charter->on_free = on_charter_free;
	r = add_token_keys(charter, err);
	if (r < 0)
		charter_unref(charter);
	else
		*ret_charter = charter;
	return r;
}

static struct reading *read_config(int argc, char **argv, struct err *err)
{
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		die_no_memory();
	if (shared_config_read(&reading->config, &reading->file, argc, argv, err) == 0)
		return reading;
	reading_free(reading);
	return NULL;
}

/* ---- reloading ---- */

/* Every run has new terms for what it asks from now on. */
static void renew_runs(struct keeper *keeper, uint64_t now_ms)
{
	struct err err;

	for (struct peer *peer = keeper->peers, *next; peer; peer = next) {
		next = peer->next;
		if (peer_renew(peer, keeper->charter, now_ms, &err) < 0)
			peer_close(peer, "reload_failed", now_ms);
	}
}

static void reload(struct shared *shared, uint64_t now_ms)
{
	struct reading *reading;
	struct charter *charter = NULL;
	struct err err;

	reading = read_config(shared->argc, shared->argv, &err);
	if (!reading || make_charter(reading, &charter, &err) < 0) {
		fprintf(stderr, "warder: keeper: the configuration stays as it was: %s\n",
			err.text);
		return;
	}
	charter_unref(shared->keeper.charter);
	shared->keeper.charter = charter;
	renew_runs(&shared->keeper, now_ms);
	fprintf(stderr, "warder: keeper: the configuration was read again\n");
}

/* ---- ending ---- */

static void on_drain_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	loop_end(&OWNER_OF(timer, struct shared, drain_timer)->keeper.loop);
}

static void drain(void *owner, uint64_t now_ms)
{
	struct shared *shared = owner;

	(void)now_ms;
	shared->keeper.is_draining = true;
	if (shared->keeper.peer_count == 0)
		loop_end(&shared->keeper.loop);
}

/* The second time it means at once. */
static void on_end_asked(struct shared *shared, uint64_t now_ms)
{
	uint64_t drain_ms = config_of(shared->keeper.charter)->drain_ms;

	if (shared->drain_timer.place || drain_ms == 0) {
		loop_end(&shared->keeper.loop);
		return;
	}
	loop_set_timer(&shared->keeper.loop, &shared->drain_timer, now_ms + drain_ms);
	drain(shared, now_ms);
}

static void on_signal(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct shared *shared = OWNER_OF(source, struct shared, signals);
	struct signalfd_siginfo info;

	(void)ready;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		reload(shared, now_ms);
	else
		on_end_asked(shared, now_ms);
}

static int watch_signals(struct shared *shared, struct err *err)
{
	sigset_t set;
	int fd, r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_set(err, errno, "watch for signals");
	shared->signals = (struct loop_source){ .fd = -1, .on_ready = on_signal };
	r = loop_add(&shared->keeper.loop, &shared->signals, fd, LOOP_READ);
	return r < 0 ? err_set(err, -r, "watch for signals") : 0;
}

/* ---- opening ---- */

/* SANDBOX_ENABLED: whether anybody but ourselves may start runs. */
static bool is_enabled(void)
{
	const char *value = getenv("SANDBOX_ENABLED");

	return value && (strcmp(value, "1") == 0 || strcmp(value, "true") == 0);
}

static int find_user(const char *name, uid_t *ret_uid, struct err *err)
{
	const struct passwd *user = getpwnam(name);
	char *end;
	unsigned long uid;

	if (user) {
		*ret_uid = user->pw_uid;
		return 0;
	}
	errno = 0;
	uid = strtoul(name, &end, 10);
	if (*end || errno || name[0] < '0' || name[0] > '9' || uid >= UINT32_MAX)
		return err_say(err, ENOENT, "--control-user: there is no user '%.60s'", name);
	*ret_uid = (uid_t)uid;
	return 0;
}

static int find_users(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = 0;

	if ((config->control_user_count > 0 || config->listen.host) && !is_enabled())
		return err_say(err, EPERM,
			       "%s would let others start runs, and that is off: "
			       "SANDBOX_ENABLED=1 in the environment turns it on",
			       config->listen.host ? "--listen" : "--control-user");
	for (; r == 0 && shared->user_count < config->control_user_count; shared->user_count++)
		r = find_user(config->control_users[shared->user_count],
			      &shared->users[shared->user_count], err);
	return r;
}

static int open_control(struct shared *shared, const struct shared_config *config, struct err *err)
{
	char mode[16];
	struct socket_config place = { .path = config->control.path, .mode = mode };
	struct control_config control = {
		.users = shared->users,
		.user_count = shared->user_count,
		.audit = shared->audit,
		.on_drain = drain,
		.owner = shared,
	};
	int r = 0;

	snprintf(mode, sizeof(mode), "%04o", (unsigned int)config->control_mode);
	if (!place.path) {
		r = state_control_path(shared->control_path, err);
		place.path = shared->control_path;
	} else {
		snprintf(shared->control_path, sizeof(shared->control_path), "%s", place.path);
	}
	if (r == 0)
		r = listen_unix_packets(&place, &control.listener_fd, err);
	return r < 0 ? r : control_new(&shared->keeper, &control, &shared->control, err);
}

static int open_store(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = store_open(config->store, &shared->keeper.loop, &shared->keeper.store, err);

	if (r < 0)
		return r;
	shared->keeper.store->owner = &shared->keeper;
	shared->keeper.store->on_news = limiter_on_news;
	return 0;
}

static int open_all(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = find_users(shared, config, err);

	if (r == 0)
		r = state_audit_path(config->keeper.audit, shared->audit, err);
	if (r == 0)
		r = state_make_parents(config->keeper.audit, shared->audit, err);
	if (r == 0)
		r = keeper_open_audit(&shared->keeper, shared->audit, err);
	if (r == 0)
		r = open_store(shared, config, err);
	if (r == 0)
		r = watch_signals(shared, err);
	if (r == 0)
		r = open_control(shared, config, err);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = err_set(err, errno, "drop the keeper's privileges");
	return r;
}

static void close_all(struct shared *shared)
{
	int fd = shared->signals.fd;

	if (shared->control)
		unlink(shared->control_path);
	control_free(shared->control);
	loop_cancel(&shared->keeper.loop, &shared->drain_timer);
	loop_remove(&shared->keeper.loop, &shared->signals);
	close_fd(&fd);
	keeper_close(&shared->keeper);
}

static int serve(struct shared *shared, struct reading *reading, struct err *err)
{
	const struct shared_config *config = &reading->config;
	struct charter *charter;
	int r = make_charter(reading, &charter, err);

	if (r < 0)
		return r;
	shared->drain_timer.on_due = on_drain_over;
	r = keeper_open(&shared->keeper, charter, err);
	charter_unref(charter);
	if (r == 0)
		r = open_all(shared, config, err);
	if (r == 0) {
		fprintf(stderr, "warder: keeper: ready at unix:%s\n", shared->control_path);
		r = keeper_serve(&shared->keeper);
		if (r < 0)
			err_set(err, -r, "serve");
	}
	close_all(shared);
	return r;
}

int cmd_shared_keeper(int argc, char **argv)
{
	static struct shared shared; /* large */
	struct reading *reading;
	struct err err = { 0 };
	int r = -EINVAL;

	shared.argc = argc;
	shared.argv = argv;
	if (process_hide() < 0)
		return WARDER_EXIT_FAILED;
	heap_settle();
	rlimit_raise(RLIMIT_NOFILE, FDS);
	reading = read_config(argc, argv, &err);
	if (reading && reading->config.help) {
		shared_config_print_help(stdout);
		reading_free(reading);
		return 0;
	}
	if (reading)
		r = serve(&shared, reading, &err);
	if (r < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}
