/* SPDX-License-Identifier: MIT */
/*
 * `warder keeper`: one keeper for many runs.
 *
 * It reads its configuration, opens its store and its log, listens, and serves until it is told
 * to end: SIGTERM lets what is under way end first, for a time; SIGHUP reads the configuration
 * again, which counts for new requests.
 */
#include "cmd/shared.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "sys/heap.h"
#include "sys/process.h"
#include "sys/rlimit.h"
#include "sys/signals.h"
#include "warder.h"

#define FDS           65536 /* links and connections of thousands of runs */
#define AFTER_DRAIN_S 15    /* for the end itself, when the time for it is over */

/* ---- money ---- */

/* Only a LiteLLM has a spend log. */
void shared_set_reconciler(struct shared *shared, const struct shared_config *config)
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

/* ---- ending ---- */

static void on_drain_over(struct loop_timer *timer, uint64_t now_ms)
{
	(void)now_ms;
	loop_end(&OWNER_OF(timer, struct shared, drain_timer)->keeper.loop);
}

static void begin_drain(struct shared *shared, uint64_t now_ms)
{
	shared->keeper.is_draining = true;
	keeper_notice(&shared->keeper, NOTICE_DRAINING, now_ms,
		      &(struct notice){ .count = NOTICE_NUMBER(shared->keeper.peer_count) });
}

/* That may take hours, so a service manager is not told that we stop: it would not wait. */
void shared_on_drain_asked(void *owner, uint64_t now_ms)
{
	struct shared *shared = owner;

	begin_drain(shared, now_ms);
	notify_status(&shared->notify, "takes no more runs, and ends with the last one");
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
	notify_stopping(&shared->notify, "waiting for runs to end");
	notify_extend(&shared->notify, (unsigned int)(drain_ms / 1000) + AFTER_DRAIN_S);
	begin_drain(shared, now_ms);
}

static void on_signal(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct shared *shared = OWNER_OF(source, struct shared, signals);
	struct signalfd_siginfo info;

	(void)ready;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		shared_reload(shared, now_ms);
	else
		on_end_asked(shared, now_ms);
}

/* ---- everything ---- */

static int open_log(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int r = state_audit_path(config->keeper.audit, shared->audit, err);

	if (r == 0)
		r = state_make_parents(config->keeper.audit, shared->audit, err);
	return r < 0 ? r : keeper_open_audit(&shared->keeper, shared->audit, err);
}

static int open_service_manager(struct shared *shared, const struct shared_config *config,
				struct err *err)
{
	int r = notify_open(&shared->notify, err);

	(void)config;
	return r < 0 ? r : listen_fds_open(&shared->given, err);
}

/* What the service manager has opened is ours: whoever had it before has ended. */
static int ask_for_place(struct shared *shared, const struct shared_config *config, struct err *err)
{
	if (!config->take_over || shared->given.count > 0)
		return 0;
	return handover_ask(shared->control_path, &shared->handover_fd, &shared->given,
			    &shared->store_fd, err);
}

static int drop_privileges(struct shared *shared, const struct shared_config *config,
			   struct err *err)
{
	const char *unknown = listen_fds_close(&shared->given);

	(void)config;
	/* What a keeper before us has listened on, and we do not, is closed. */
	if (unknown && shared->handover_fd < 0 && strcmp(unknown, "listen") == 0)
		return err_say(
			err, EINVAL,
			"the service manager has opened 'listen', and nothing says --listen, "
			"which it needs as well");
	if (unknown && shared->handover_fd < 0)
		return err_say(err, EINVAL,
			       "the service manager has opened '%.60s', which is none of control, "
			       "admin and listen",
			       unknown);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "drop the keeper's privileges");
	return 0;
}

/*
 * Until here a signal has simply ended us: there was nothing to be drained, no charter that could
 * be replaced, and whoever was there before has stayed.
 */
static int watch_signals(struct shared *shared, const struct shared_config *config, struct err *err)
{
	int fd, r = signals_open(&fd, err);

	(void)config;
	if (r < 0)
		return r;
	r = loop_add(&shared->keeper.loop, &shared->signals, fd, LOOP_READ);
	return r < 0 ? err_set(err, -r, "watch for signals") : 0;
}

/*
 * From here on whoever was there before takes no more runs. What both have in common, the control
 * socket's permissions, changes at the last moment, and is as it was if that was too late.
 */
static int take_place(struct shared *shared, const struct shared_config *config, struct err *err)
{
	const char *path = shared->control_path;
	bool has_mode = !listen_fds_is_managed(&shared->given, "control");
	struct stat st;
	int r;

	if (shared->handover_fd < 0) {
		shared->has_place = true;
		return 0;
	}
	if (has_mode && (stat(path, &st) < 0 || chmod(path, (mode_t)config->control_mode) < 0))
		return err_set(err, errno, "set the permissions of '%.100s'", path);
	r = handover_finish(shared->handover_fd, err);
	if (r < 0 && has_mode && chmod(path, st.st_mode & 07777) < 0)
		return r; /* there is nothing more to be done about it */
	shared->has_place = r == 0;
	return r;
}

/*
 * In this order: nobody can ask for what is not there yet. What may take its time is there before
 * somebody is asked for its place, who from then on lets nobody in until that is taken.
 */
static int (*const stages[])(struct shared *, const struct shared_config *, struct err *) = {
	shared_find_users,
	shared_find_control,
	open_service_manager,
	open_log,
	shared_open_service, /* a key may be a command's to tell */
	shared_open_far_store,
	ask_for_place,
	shared_open_store,
	shared_open_admin,
	shared_open_remote,
	shared_open_control,
	drop_privileges,
	watch_signals,
	take_place,
};

static void close_all(struct shared *shared)
{
	int fd = shared->signals.fd;

	shared_charter_cancel(shared->reading);
	shared_remove_sockets(shared);
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
	loop_cancel(&shared->keeper.loop, &shared->reload_timer);
	loop_cancel(&shared->keeper.loop, &shared->drain_timer);
	loop_cancel(&shared->keeper.loop, &shared->reopen_timer);
	loop_cancel(&shared->keeper.loop, &shared->gates_timer);
	loop_cancel(&shared->keeper.loop, &shared->arriving_timer);
	loop_remove(&shared->keeper.loop, &shared->signals);
	close_fd(&fd);
	keeper_close(&shared->keeper);
	close_fd(&shared->handover_fd); /* whoever stays may have the store again */
	shared_charter_drop(shared->standing);
	notice_close(&shared->notices);
	notify_close(&shared->notify);
}

static int serve(struct shared *shared, struct charter *charter, struct err *err)
{
	const struct shared_config *config = shared_charter_config(charter);
	int r = keeper_open(&shared->keeper, charter, err);

	shared->standing = shared_charter_keep(charter);
	charter_unref(charter);
	signals_ignore_pipe();
	notice_open(&shared->notices, STDERR_FILENO,
		    strcmp(config->log, "json") == 0 ? NOTICE_JSON : NOTICE_TEXT);
	shared->keeper.notices = &shared->notices;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(stages); i++)
		r = stages[i](shared, config, err);
	if (r == 0) {
		shared_set_reconciler(shared, config);
		shared_say_served(shared, NOTICE_READY, shared->control_path, clock_now_ms());
		notify_ready(&shared->notify, "ready");
		r = keeper_serve(&shared->keeper);
		if (r < 0)
			err_set(err, -r, "serve");
		shared_say(shared, NOTICE_STOPPED, NULL, clock_now_ms());
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
		.reload_timer = { .on_due = shared_on_reload_due },
		.reopen_timer = { .on_due = shared_on_reopen_due },
		.gates_timer = { .on_due = shared_on_gates_due },
		.arriving_timer = { .on_due = shared_on_arriving_due },
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
