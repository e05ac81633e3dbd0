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
#include <sys/socket.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/handover.h"
#include "cmd/listen.h"
#include "cmd/shared_charter.h"
#include "cmd/state.h"
#include "cmd/store_open.h"
#include "keeper/admin.h"
#include "keeper/control.h"
#include "keeper/limiter.h"
#include "keeper/reconciler.h"
#include "keeper/remote.h"
#include "store/lent.h"
#include "sys/heap.h"
#include "sys/listen_fds.h"
#include "sys/notify.h"
#include "sys/process.h"
#include "sys/rlimit.h"
#include "sys/status.h"
#include "warder.h"

#define STORE_PATIENCE_MS 2000 /* for the store, at the beginning; it may as well come later */
#define REOPEN_EVERY_MS   10   /* a store that was to be handed over, and was not */
#define REOPEN_MS         5000
#define FDS               65536 /* links and connections of thousands of runs */

struct shared {
	struct keeper keeper;
	struct loop_source signals;
	struct loop_timer drain_timer, reopen_timer;
	uint64_t reopen_until_ms;
	struct control *control;
	struct remote *remote; /* or NULL */
	struct tls_service *service;
	struct admin admin;
	struct reconciler *reconciler; /* or NULL: there is no LiteLLM */
	struct notices notices;
	struct notify notify;
	struct listen_fds given; /* by the service manager, or by the keeper that was here before */
	int handover_fd, store_fd; /* of that; or -1 */
	struct lender *lender;     /* ... as long as it has runs, or NULL */
	struct handover *handover; /* to the next one, or NULL */
	bool has_lent, is_handed_over;
	char own_paths[2][STATE_PATH_MAX]; /* of sockets that are removed at the end, or "" */
	size_t own_path_count;
	bool has_place; /* what has been opened is ours to remove */
	uid_t users[SHARED_USERS_MAX];
	size_t user_count;
	char audit[STATE_PATH_MAX], control_path[STATE_PATH_MAX];
	int argc; /* of the command line, which counts at every reading */
	char **argv;
};

static void say(struct shared *shared, enum notice_event event, const char *text, uint64_t now_ms)
{
	keeper_notice(&shared->keeper, event, now_ms, &(struct notice){ .text = text });
}

/* ---- who may start runs ---- */

/* SANDBOX_ENABLED: whether anybody but ourselves may. */
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

/* ---- listening ---- */

static int open_own(const struct shared_endpoint *endpoint, int type, const char *mode, int *ret_fd,
		    struct err *err)
{
	const struct socket_config place = { .path = endpoint->path, .mode = mode };
	char address[512];

	if (endpoint->path)
		return type == SOCK_SEQPACKET ? listen_unix_packets(&place, ret_fd, err)
					      : listen_unix(&place, ret_fd, err);
	if (!endpoint->host)
		return 0;
	snprintf(address, sizeof(address), strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u",
		 endpoint->host, endpoint->port);
	return listen_tcp(address, ret_fd, err);
}

/*
 * A socket that was given to us, or one of our own; -1 where none is asked for. What the service
 * manager has opened stays there for the next one; every other is removed at the end.
 */
static int open_listener(struct shared *shared, const char *name, int type,
			 const struct shared_endpoint *endpoint, const char *mode, int *ret_fd,
			 struct err *err)
{
	int r = listen_fds_take(&shared->given, name, 0, type, ret_fd, err);
	bool is_managed = *ret_fd >= 0 && shared->handover_fd < 0;

	if (r == 0 && *ret_fd < 0)
		r = open_own(endpoint, type, mode, ret_fd, err);
	if (r == 0 && !is_managed && endpoint->path &&
	    shared->own_path_count < ARRAY_LEN(shared->own_paths))
		snprintf(shared->own_paths[shared->own_path_count++], STATE_PATH_MAX, "%s",
			 endpoint->path);
	return r;
}

static void on_drain_asked(void *owner, uint64_t now_ms);
static void end_when_alone(struct shared *shared);
static void on_hand_over(void *owner, int fd, pid_t pid, uint64_t now_ms);

static int open_control(struct shared *shared, const struct shared_config *config, struct err *err)
{
	char mode[16];
	struct shared_endpoint endpoint = config->control;
	struct control_config control = {
		.listener_fd = -1,
		.users = shared->users,
		.user_count = shared->user_count,
		.audit = shared->audit,
		.on_drain = on_drain_asked,
		.on_hand_over = on_hand_over,
		.owner = shared,
	};
	int r = 0;

	snprintf(mode, sizeof(mode), "%04o", (unsigned int)config->control_mode);
	endpoint.path = shared->control_path;
	if (!config->control.path)
		r = state_make_directory(shared->control_path, err);
	if (r == 0)
		r = open_listener(shared, "control", SOCK_SEQPACKET, &endpoint, mode,
				  &control.listener_fd, err);
	return r < 0 ? r : control_new(&shared->keeper, &control, &shared->control, err);
}

/* ---- the admin endpoint ---- */

static void write_metrics(void *owner, struct buf *out)
{
	struct shared *shared = owner;
	struct metrics *metrics = &shared->keeper.metrics;

	metrics_look_at_process(metrics);
	metrics->notices_dropped = shared->notices.dropped_total;
	metrics->store_reachable = shared->keeper.store->is_reachable;
	metrics->draining = shared->keeper.is_draining;
	metrics_format(metrics, out);
}

static bool is_ready(void *owner, struct json *reasons)
{
	const struct keeper *keeper = &((struct shared *)owner)->keeper;

	if (!keeper->store->is_reachable)
		json_text(reasons, "store", keeper->store->fault);
	if (keeper->is_audit_failing)
		json_text(reasons, "audit", "the audit log cannot be written");
	if (keeper->is_draining)
		json_text(reasons, "draining", "no more runs are taken");
	return keeper->store->is_reachable && !keeper->is_audit_failing && !keeper->is_draining;
}

static int open_admin(struct shared *shared, const struct shared_config *config, struct err *err)
{
	const struct admin_source source = { shared, write_metrics, is_ready };
	int fd = -1;
	int r = open_listener(shared, "admin", SOCK_STREAM, &config->admin, "0600", &fd, err);

	if (r < 0 || fd < 0)
		return r;
	r = admin_open(&shared->admin, &shared->keeper.loop, &source, fd);
	return r < 0 ? err_set(err, -r, "watch the admin socket") : 0;
}

/* ---- other machines ---- */

static int open_service(const struct shared_config *config, struct tls_service **ret_service,
			struct err *err)
{
	struct secret *key;
	int r = secret_open(config->cert_key, &key, err);

	if (r < 0)
		return r;
	r = tls_service_new(config->cert, secret_get(key), TLS_ALPN_WARDER, ret_service, err);
	secret_free(key);
	return r;
}

static int open_remote(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int fd = -1, r;

	if (!config->listen.host)
		return 0;
	r = open_service(config, &shared->service, err);
	if (r == 0)
		r = open_listener(shared, "listen", SOCK_STREAM, &config->listen, NULL, &fd, err);
	return r < 0 ? r
		     : remote_new(&shared->keeper, fd, shared->service, shared->audit,
				  &shared->remote, err);
}

/* A certificate that was renewed; what cannot be read leaves the one before. */
static void renew_service(struct shared *shared, const struct shared_config *config,
			  uint64_t now_ms)
{
	struct tls_service *service;
	struct err err;

	if (!shared->remote || !config->cert)
		return;
	if (open_service(config, &service, &err) < 0) {
		say(shared, NOTICE_RELOAD_FAILED, err.text, now_ms);
		return;
	}
	remote_set_service(shared->remote, service);
	tls_service_free(shared->service);
	shared->service = service;
}

/* ---- money ---- */

/* Only a LiteLLM has a spend log. */
static void set_reconciler(struct shared *shared, const struct shared_config *config)
{
	uint64_t every_ms = 0;

	if (shared->is_handed_over)
		return;
	for (size_t i = 0; i < config->keeper.llm_count; i++)
		if (config->keeper.llms[i].provider->is_litellm)
			every_ms = config->reconcile_every_ms;
	if (shared->reconciler)
		reconciler_set_times(shared->reconciler, every_ms, config->reconcile_grace_ms);
	else
		shared->reconciler = reconciler_new(&shared->keeper, every_ms,
						    config->reconcile_grace_ms);
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
	struct charter *charter;
	struct err err;

	notify_reloading(&shared->notify, "reading the configuration");
	if (shared_charter_read(shared->argc, shared->argv, &charter, &err) < 0) {
		shared->keeper.metrics.reloads[METRICS_RESULT_FAILED]++;
		say(shared, NOTICE_RELOAD_FAILED, err.text, now_ms);
		notify_ready(&shared->notify, "ready, with the configuration as it was");
		return;
	}
	charter_unref(shared->keeper.charter);
	shared->keeper.charter = charter;
	renew_runs(&shared->keeper, now_ms);
	renew_service(shared, shared_charter_config(charter), now_ms);
	set_reconciler(shared, shared_charter_config(charter));
	shared->keeper.metrics.reloads[METRICS_RESULT_DONE]++;
	say(shared, NOTICE_RELOADED, NULL, now_ms);
	notify_ready(&shared->notify, "ready");
}

/* ---- handing over ---- */

/* What the store tells is also for whoever borrows it. */
static void on_news(struct store *store, enum store_news news, const char *about, uint64_t now_ms)
{
	struct shared *shared = store->owner;

	limiter_on_news(&shared->keeper, news, about, now_ms);
	if (shared->lender)
		lender_tell(shared->lender, news, about);
}

static void pause_listening(void *owner)
{
	control_pause(((struct shared *)owner)->control);
}

static void resume_listening(struct shared *shared)
{
	if (control_resume(shared->control) < 0)
		loop_end(&shared->keeper.loop); /* nobody would ever be heard again */
	handover_free(shared->handover);
	shared->handover = NULL;
}

/* What lives is told to a store that does not know it. */
static void use_store(struct shared *shared, struct store *store)
{
	uint64_t now_ms = clock_now_ms();

	shared->keeper.store = store;
	store->owner = shared;
	store->on_news = on_news;
	for (struct peer *peer = shared->keeper.peers; peer; peer = peer->next)
		if (peer->run && peer->run->is_enrolled)
			store_reopen_run(store, peer->run->run_id, now_ms);
	limiter_retake(&shared->keeper, now_ms);
	if (shared->lender)
		lender_set_store(shared->lender, store);
}

/* Only a store of one process has to be given up. */
static int lend_store(void *owner, int *ret_fd)
{
	struct shared *shared = owner;
	struct store *store = shared->keeper.store;
	int pair[2];

	if (!store->ops->is_of_one_process)
		return 0;
	if (!store->is_reachable)
		return -EBUSY;
	limiter_flush(&shared->keeper, clock_now_ms()); /* what was asked is answered */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	store->ops->close(store);
	use_store(shared, store_lent_new(&shared->keeper.loop, pair[0]));
	shared->has_lent = true;
	*ret_fd = pair[1];
	return 0;
}

/*
 * Nothing came of it. Whoever had the store may still be about to end, so it is tried for a while;
 * one that cannot be had again leaves nothing to serve by.
 */
static void reopen_store(struct shared *shared, uint64_t now_ms)
{
	struct store *lent = shared->keeper.store, *store;
	struct err err;

	if (store_open(shared_charter_config(shared->keeper.charter)->store, &shared->keeper.loop,
		       &store, &err) == 0) {
		shared->has_lent = false;
		use_store(shared, store);
		store_lent_return(lent, store, now_ms);
		resume_listening(shared);
	} else if (now_ms < shared->reopen_until_ms) {
		loop_set_timer(&shared->keeper.loop, &shared->reopen_timer,
			       now_ms + REOPEN_EVERY_MS);
	} else {
		say(shared, NOTICE_STORE_LOST, err.text, now_ms);
		loop_end(&shared->keeper.loop);
	}
}

static void on_reopen_due(struct loop_timer *timer, uint64_t now_ms)
{
	reopen_store(OWNER_OF(timer, struct shared, reopen_timer), now_ms);
}

static void stay(void *owner)
{
	struct shared *shared = owner;
	uint64_t now_ms = clock_now_ms();

	shared->reopen_until_ms = now_ms + REOPEN_MS;
	if (shared->has_lent)
		reopen_store(shared, now_ms);
	else
		resume_listening(shared);
}

static void leave(void *owner, pid_t successor, uint64_t now_ms)
{
	struct shared *shared = owner;

	if (shared->has_lent)
		store_lent_go(shared->keeper.store, now_ms);
	control_stop_listening(shared->control);
	remote_free(shared->remote);
	shared->remote = NULL;
	admin_close(&shared->admin);
	reconciler_free(shared->reconciler); /* that is the successor's */
	shared->reconciler = NULL;
	shared->is_handed_over = true;
	keeper_notice(&shared->keeper, NOTICE_HANDED_OVER, now_ms,
		      &(struct notice){ .count = NOTICE_NUMBER(shared->keeper.peer_count) });
	notify_main_pid(&shared->notify, successor);
	on_drain_asked(shared, now_ms);
}

static void on_hand_over(void *owner, int fd, pid_t pid, uint64_t now_ms)
{
	static const struct handover_ops ops = { pause_listening, stay, leave, lend_store };
	struct shared *shared = owner;
	struct handover_part parts[HANDOVER_PARTS_MAX];
	size_t count = 0;
	int r;

	(void)now_ms;
	if (shared->handover || shared->has_lent || shared->keeper.is_draining) {
		r = status_send(fd, STATUS_FAILED, "it is being stopped, or replaced, already");
		(void)r;
		close_fd(&fd);
		return;
	}
	parts[count++] = (struct handover_part){ "control", control_listener(shared->control) };
	if (shared->admin.listener_fd >= 0 && shared->admin.loop)
		parts[count++] = (struct handover_part){ "admin", shared->admin.listener_fd };
	if (shared->remote)
		parts[count++] = (struct handover_part){ "listen",
							 remote_listener(shared->remote) };
	shared->handover = handover_begin(&shared->keeper.loop, fd, pid, parts, count, &ops,
					  shared);
}

/* ---- ending ---- */

static void on_drain_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	loop_end(&OWNER_OF(timer, struct shared, drain_timer)->keeper.loop);
}

static void end_when_alone(struct shared *shared)
{
	const struct keeper *keeper = &shared->keeper;

	if (keeper->is_draining && keeper->peer_count == 0 && !keeper->is_lending)
		loop_end(&shared->keeper.loop);
}

static void on_drain_asked(void *owner, uint64_t now_ms)
{
	struct shared *shared = owner;

	shared->keeper.is_draining = true;
	keeper_notice(&shared->keeper, NOTICE_DRAINING, now_ms,
		      &(struct notice){ .count = NOTICE_NUMBER(shared->keeper.peer_count) });
	notify_stopping(&shared->notify, "waiting for runs to end");
	end_when_alone(shared);
}

/* The second time it means at once. */
static void on_end_asked(struct shared *shared, uint64_t now_ms)
{
	uint64_t drain_ms = shared_charter_config(shared->keeper.charter)->drain_ms;

	if (shared->drain_timer.place || drain_ms == 0) {
		loop_end(&shared->keeper.loop);
		return;
	}
	loop_set_timer(&shared->keeper.loop, &shared->drain_timer, now_ms + drain_ms);
	on_drain_asked(shared, now_ms);
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
	r = loop_add(&shared->keeper.loop, &shared->signals, fd, LOOP_READ);
	return r < 0 ? err_set(err, -r, "watch for signals") : 0;
}

/* ---- everything ---- */

static int open_log(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = state_audit_path(config->keeper.audit, shared->audit, err);

	if (r == 0)
		r = state_make_parents(config->keeper.audit, shared->audit, err);
	return r < 0 ? r : keeper_open_audit(&shared->keeper, shared->audit, err);
}

/* The first run need not be refused because a connection takes a moment. */
static void await_store(struct loop *loop, const struct store *store)
{
	uint64_t end_ms = clock_now_ms() + STORE_PATIENCE_MS;
	int r = 0;

	while (r == 0 && !store->is_reachable && clock_now_ms() < end_ms)
		r = loop_turn(loop, 10);
}

static void on_lender_over(void *owner)
{
	struct shared *shared = owner;

	shared->lender = NULL;
	shared->keeper.is_lending = false;
	end_when_alone(shared);
}

static int open_store(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = store_open(config->store, &shared->keeper.loop, &shared->keeper.store, err);

	if (r < 0)
		return r;
	await_store(&shared->keeper.loop, shared->keeper.store);
	use_store(shared, shared->keeper.store);
	/* The one before us counts by it as long as it has runs. */
	if (shared->store_fd >= 0)
		shared->lender = lender_new(shared->keeper.store, take_fd(&shared->store_fd));
	shared->keeper.is_lending = shared->lender != NULL;
	if (shared->lender)
		lender_set_on_over(shared->lender, on_lender_over, shared);
	return 0;
}

static int find_control(struct shared *shared, const struct shared_config *config, struct err *err)
{
	if (!config->control.path)
		return state_control_path(shared->control_path, err);
	snprintf(shared->control_path, sizeof(shared->control_path), "%s", config->control.path);
	return 0;
}

static int open_service_manager(struct shared *shared, const struct shared_config *config,
				struct err *err)
{
	int r = notify_open(&shared->notify, err);

	if (r < 0 || !config->take_over)
		return r < 0 ? r : listen_fds_open(&shared->given, err);
	return handover_ask(shared->control_path, &shared->handover_fd, &shared->given,
			    &shared->store_fd, err);
}

static int drop_privileges(struct shared *shared, const struct shared_config *config,
			   struct err *err)
{
	const char *unknown = listen_fds_close(&shared->given);

	(void)config;
	/* What a keeper before us has listened on, and we do not, is closed. */
	if (unknown && shared->handover_fd < 0)
		return err_say(err, EINVAL,
			       "the service manager has opened '%.60s', which is none of control, "
			       "admin and listen",
			       unknown);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "drop the keeper's privileges");
	return 0;
}

/* From here on whoever was there before takes no more runs. */
static int take_place(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = shared->handover_fd < 0 ? 0 : handover_finish(shared->handover_fd, err);

	(void)config;
	shared->has_place = r == 0;
	return r;
}

/* In this order: nobody can ask for what is not there yet. */
static int (*const stages[])(struct shared *, const struct shared_config *, struct err *) = {
	find_users, open_log,    find_control, open_service_manager, open_store,
	open_admin, open_remote, open_control, drop_privileges,      take_place,
};

/* Not those of a keeper that was to be replaced and stays, or of the one that has replaced us. */
static void remove_sockets(const struct shared *shared)
{
	if (shared->is_handed_over || (shared->handover_fd >= 0 && !shared->has_place))
		return;
	for (size_t i = 0; i < shared->own_path_count; i++)
		unlink(shared->own_paths[i]);
}

static void close_all(struct shared *shared)
{
	int fd = shared->signals.fd;

	remove_sockets(shared);
	handover_free(shared->handover);
	close_fd(&shared->store_fd);
	lender_free(shared->lender);
	reconciler_free(shared->reconciler);
	control_free(shared->control);
	remote_free(shared->remote);
	admin_close(&shared->admin);
	if (shared->service)
		tls_service_free(shared->service);
	listen_fds_close(&shared->given);
	loop_cancel(&shared->keeper.loop, &shared->drain_timer);
	loop_cancel(&shared->keeper.loop, &shared->reopen_timer);
	loop_remove(&shared->keeper.loop, &shared->signals);
	close_fd(&fd);
	keeper_close(&shared->keeper);
	close_fd(&shared->handover_fd); /* whoever stays may have the store again */
	notice_close(&shared->notices);
	notify_close(&shared->notify);
}

static int serve(struct shared *shared, struct charter *charter, struct err *err)
{
	const struct shared_config *config = shared_charter_config(charter);
	int r = keeper_open(&shared->keeper, charter, err);

	charter_unref(charter);
	notice_open(&shared->notices, STDERR_FILENO,
		    strcmp(config->log, "json") == 0 ? NOTICE_JSON : NOTICE_TEXT);
	shared->keeper.notices = &shared->notices;
	if (r == 0)
		r = watch_signals(shared, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(stages); i++)
		r = stages[i](shared, config, err);
	if (r == 0) {
		set_reconciler(shared, config);
		say(shared, NOTICE_READY, shared->control_path, clock_now_ms());
		notify_ready(&shared->notify, "ready");
		r = keeper_serve(&shared->keeper);
		if (r < 0)
			err_set(err, -r, "serve");
		say(shared, NOTICE_STOPPED, NULL, clock_now_ms());
	}
	close_all(shared);
	return r;
}

int cmd_shared_keeper(int argc, char **argv)
{
	static struct shared shared = {
		/* large */
		.signals = { .fd = -1, .on_ready = on_signal },
		.drain_timer = { .on_due = on_drain_over },
		.reopen_timer = { .on_due = on_reopen_due },
		.notify = { .fd = -1 },
		.handover_fd = -1,
		.store_fd = -1,
	};
	struct charter *charter;
	struct err err = { 0 };
	int r;

	shared.argc = argc;
	shared.argv = argv;
	if (process_hide() < 0)
		return WARDER_EXIT_FAILED;
	heap_settle();
	rlimit_raise(RLIMIT_NOFILE, FDS);
	r = shared_charter_read(argc, argv, &charter, &err);
	if (r == 0 && !charter) {
		shared_config_print_help(stdout);
		return 0;
	}
	if (r == 0)
		r = serve(&shared, charter, &err);
	if (r < 0)
		fprintf(stderr, "warder: %s\n", err.text);
	return r < 0 ? WARDER_EXIT_FAILED : 0;
}
