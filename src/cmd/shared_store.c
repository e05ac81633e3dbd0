/* SPDX-License-Identifier: MIT */
/* The store of a shared keeper: opened, and handed over to whoever takes its place. */
#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "cmd/shared.h"
#include "cmd/store_open.h"
#include "keeper/limiter.h"
#include "keeper/peer.h"
#include "keeper/run_time.h"
#include "sys/status.h"

#define STORE_PATIENCE_MS 2000 /* for the store, at the beginning; it may as well come later */
#define REOPEN_EVERY_MS   10   /* a store that was to be handed over, and was not */
#define REOPEN_MS         5000
#define ARRIVING_EVERY_MS 20 /* for whoever was on the way in when we were replaced */
#define ARRIVING_MS       10000

/* ---- handing over ---- */

/* What the store tells is also for whoever borrows it. */
static void on_news(struct store *store, enum store_news news, const char *about, uint64_t now_ms)
{
	struct shared *shared = store->owner;

	limiter_on_news(&shared->keeper, news, about, now_ms);
	if (shared->lender)
		lender_tell(shared->lender, news, about);
}

/* Whoever comes now waits, for us or for the successor. */
static void pause_listening(void *owner)
{
	struct shared *shared = owner;

	control_pause(shared->control);
	if (shared->remote)
		remote_pause(shared->remote);
}

static void resume_listening(struct shared *shared)
{
	if (control_resume(shared->control) < 0 ||
	    (shared->remote && remote_resume(shared->remote) < 0))
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
	run_time_tell(&shared->keeper, now_ms);
	limiter_retake(&shared->keeper, now_ms);
	if (shared->lender)
		lender_set_store(shared->lender, store);
}

/* Only a store of one process has to be given up. */
static int lend_store(void *owner, int *ret_fd, struct err *err)
{
	struct shared *shared = owner;
	struct store *store = shared->keeper.store;
	int pair[2];

	if (!store->ops->is_of_one_process)
		return 0;
	if (!store->is_reachable)
		return err_say(err, EBUSY,
			       "its store cannot be reached, so it cannot be handed over; try "
			       "again when it is back");
	limiter_flush(&shared->keeper, clock_now_ms()); /* what was asked is answered */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_set(err, errno, "create a socket");
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

	if (store_open(shared->standing->store, STORE_ANY, &shared->keeper.loop, &store, &err) ==
	    0) {
		shared->has_lent = false;
		use_store(shared, store);
		store_lent_return(lent, store, now_ms);
		resume_listening(shared);
	} else if (now_ms < shared->reopen_until_ms) {
		loop_set_timer(&shared->keeper.loop, &shared->reopen_timer,
			       now_ms + REOPEN_EVERY_MS);
	} else {
		shared_say(shared, NOTICE_STORE_LOST, err.text, now_ms);
		loop_end(&shared->keeper.loop);
	}
}

void shared_on_reopen_due(struct loop_timer *timer, uint64_t now_ms)
{
	reopen_store(OWNER_OF(timer, struct shared, reopen_timer), now_ms);
}

static void stay(void *owner, const char *why, uint64_t now_ms)
{
	struct shared *shared = owner;

	shared_say(shared, NOTICE_HANDOVER_FAILED, why, now_ms);
	shared->reopen_until_ms = now_ms + REOPEN_MS;
	if (shared->has_lent)
		reopen_store(shared, now_ms);
	else
		resume_listening(shared);
}

/* A gate for many runs has no end of its own; sent away, it finds the successor by itself. */
void shared_on_gates_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct shared *shared = OWNER_OF(timer, struct shared, gates_timer);

	for (struct peer *peer = shared->keeper.peers, *next; peer; peer = next) {
		next = peer->next;
		if (peer->kind == PEER_OPEN)
			peer_close(peer, "handed_over", now_ms);
	}
}

/*
 * Whoever was at the door, or at the control socket, before the successor was cannot be sent
 * there: it is not refused here either, if it is not slow.
 */
void shared_on_arriving_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct shared *shared = OWNER_OF(timer, struct shared, arriving_timer);
	bool is_busy = control_is_busy(shared->control) ||
		       (shared->remote && remote_is_busy(shared->remote));

	if (is_busy && now_ms < shared->arriving_until_ms) {
		loop_set_timer(&shared->keeper.loop, timer, now_ms + ARRIVING_EVERY_MS);
		return;
	}
	remote_free(shared->remote);
	shared->remote = NULL;
	if (!shared->keeper.is_draining)
		shared_on_drain_asked(shared, now_ms);
}

static void leave(void *owner, pid_t successor, uint64_t now_ms)
{
	struct shared *shared = owner;

	if (shared->has_lent)
		store_lent_go(shared->keeper.store, now_ms);
	control_stop_listening(shared->control);
	if (shared->remote)
		remote_stop_listening(shared->remote);
	admin_close(&shared->admin);
	reconciler_free(shared->reconciler); /* that is the successor's */
	shared->reconciler = NULL;
	shared->is_handed_over = shared->keeper.is_replaced = true;
	shared_leave_sockets(shared);
	keeper_notice(&shared->keeper, NOTICE_HANDED_OVER, now_ms,
		      &(struct notice){ .count = NOTICE_NUMBER(shared->keeper.peer_count) });
	notify_main_pid(&shared->notify, successor);
	loop_set_timer(&shared->keeper.loop, &shared->gates_timer,
		       now_ms + shared_charter_config(shared->keeper.charter)->drain_ms);
	shared->arriving_until_ms = now_ms + ARRIVING_MS;
	shared_on_arriving_due(&shared->arriving_timer, now_ms);
}

static struct handover_part make_part(const struct shared *shared, const char *name, int fd)
{
	return (struct handover_part){ name, fd, listen_fds_is_managed(&shared->given, name) };
}

void shared_on_hand_over(void *owner, int fd, pid_t pid, uint64_t now_ms)
{
	static const struct handover_ops ops = { pause_listening, stay, leave, lend_store };
	struct shared *shared = owner;
	struct handover_part parts[HANDOVER_PARTS_MAX];
	size_t count = 0;
	int r;

	if (shared->handover || shared->has_lent || shared->is_handed_over ||
	    shared->keeper.is_draining) {
		r = status_send(fd, STATUS_FAILED, "it is being stopped, or replaced, already");
		(void)r;
		close_fd(&fd);
		return;
	}
	parts[count++] = make_part(shared, "control", control_listener(shared->control));
	if (shared->admin.listener_fd >= 0 && shared->admin.loop)
		parts[count++] = make_part(shared, "admin", shared->admin.listener_fd);
	if (shared->remote)
		parts[count++] = make_part(shared, "listen", remote_listener(shared->remote));
	shared->handover = handover_begin(&shared->keeper.loop, fd, pid, parts, count, &ops, shared,
					  now_ms);
}

/* ---- opening ---- */

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
}

int shared_open_far_store(struct shared *shared, const struct shared_config *config,
			  struct err *err)
{
	struct keeper *keeper = &shared->keeper;
	int r = store_open(config->store, STORE_SHARED, &keeper->loop, &keeper->store, err);

	if (r == 0 && keeper->store)
		await_store(&keeper->loop, keeper->store);
	return r;
}

int shared_open_store(struct shared *shared, const struct shared_config *config, struct err *err)
{
	struct keeper *keeper = &shared->keeper;
	int r = keeper->store
			? 0
			: store_open(config->store, STORE_OWN, &keeper->loop, &keeper->store, err);

	if (r < 0)
		return r;
	use_store(shared, keeper->store);
	/* The one before us counts by it as long as it has runs. */
	if (shared->store_fd >= 0)
		shared->lender = lender_new(keeper->store, take_fd(&shared->store_fd));
	keeper->is_lending = shared->lender != NULL;
	if (shared->lender)
		lender_set_on_over(shared->lender, on_lender_over, shared);
	return 0;
}
