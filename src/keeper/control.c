/* SPDX-License-Identifier: MIT */
/* What comes in at the control socket. */
#include "keeper/control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "keeper/limiter.h"
#include "keeper/listing.h"
#include "keeper/registration.h"
#include "keeper/report.h"
#include "keeper/unread.h"
#include "sys/rlimit.h"

#define DEAF_MS 100

struct control {
	struct loop_source source;
	struct loop_timer deaf; /* no descriptor is free: nobody is let in for a moment */
	struct keeper *keeper;
	struct control_config config;
	int listener_fd; /* owned; -1 once it is closed */
	struct visitor *visitors;
	struct party *parties; /* of masters, and of each user */
};

static const struct objection {
	const char *code, *text;
} is_nobody = { "not_welcome", "this keeper is not for you" },
  has_share = { "too_many_visitors",
		"you have as many connections to this keeper as a user may have; wait until a run "
		"of yours has ended" },
  is_full = { "no_room",
	      "the keeper has no room for another connection; wait until runs have ended" };

/* ---- registering ---- */

/* A line for the operator about somebody who does not get what he wants. */
static void note_refused(struct keeper *keeper, const struct ucred *who, const char *code,
			 uint64_t now_ms)
{
	keeper_notice(keeper, NOTICE_RUN_REFUSED, now_ms,
		      &(struct notice){ .uid = NOTICE_NUMBER(who->uid), .code = code });
}

static void on_enrolled(void *owner, struct run *run, const struct err *err, uint64_t now_ms)
{
	struct visitor *visitor = owner;
	struct store *store = visitor->keeper->store;
	const struct report_sink sink = { visitor_send, visitor };
	struct err why;

	if (!run) {
		visitor_refuse(visitor, err->text);
	} else if (visitor_open_peer(visitor, run, PEER_LOCAL, &why) < 0) {
		store->ops->close_run(store, run->run_id, now_ms);
		run_free(run);
		note_refused(visitor->keeper, &visitor->who, "no_link", now_ms);
		visitor_say(visitor, STATUS_FAILED, why.text, now_ms);
	} else if (report_begin(run, &sink) < 0) {
		visitor_close(visitor, now_ms);
	}
}

/*
 * INV-RUN-IDENTITY: a user of another name gets a run of its own, and pays itself; it cannot say
 * whose budget is used.
 */
static int restrict_registration(const struct visitor *visitor, struct run_spec *spec)
{
	static char run_id[RUNID_MAX + 1];

	if (visitor_is_master(visitor))
		return 0;
	spec->account = visitor->party->user->account;
	spec->run_id = run_id;
	spec->attempt = 0;
	return runid_new(run_id);
}

/* What stands against a new link, as it was asked for; NULL when nothing does. */
static const char *find_obstacle(const struct visitor *visitor)
{
	if (visitor->peer || visitor->enrolment || visitor->why)
		return "the keeper does not understand; is it of this version?";
	return NULL;
}

static void on_register(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	static struct registration registration; /* large, and needed only in here */
	const char *obstacle = find_obstacle(visitor);
	struct err err;

	if (!obstacle && registration_parse(&registration, (char *)words.data, words.len, &err) < 0)
		obstacle = err.text;
	if (!obstacle && restrict_registration(visitor, &registration.spec) < 0)
		obstacle = "the keeper cannot get random bytes";
	if (obstacle) {
		note_refused(visitor->keeper, &visitor->who, "bad_registration", now_ms);
		visitor_say(visitor, STATUS_FAILED, obstacle, now_ms);
		return;
	}
	/* With no descriptor left it is refused as when few are. */
	registration.spec.link_fd = visitor_make_link(visitor) < 0 ? INT_MAX : visitor->link_fds[0];
	enrol_start(visitor->keeper, &registration.spec, on_enrolled, visitor, &visitor->enrolment,
		    now_ms);
}

/* A gate for agents that warder did not start: whose a request is, its token says. */
static void on_open_gate(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	const char *obstacle = find_obstacle(visitor);
	struct err err;

	(void)words;
	if (!obstacle && visitor->keeper->is_draining) {
		refused_record(visitor->keeper,
			       &(struct refused_link){ .refusal = REFUSAL_DRAINING });
		visitor_refuse(visitor, ENROL_DRAINING);
		return;
	}
	if (!obstacle && visitor->keeper->charter->token_keys.count == 0)
		obstacle = "this keeper has no key for tokens of requests; say --token-key "
			   "ID=SOURCE";
	if (!obstacle && visitor_make_link(visitor) < 0)
		obstacle = is_full.text;
	if (!obstacle && visitor_open_peer(visitor, NULL, PEER_OPEN, &err) < 0)
		obstacle = err.text;
	visitor_say(visitor, obstacle ? STATUS_FAILED : STATUS_READY, obstacle ? obstacle : "",
		    now_ms);
}

/* ---- revoking and draining ---- */

static void on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	struct visitor *visitor = OWNER_OF(revocation, struct visitor, revocation);

	visitor_take_answer(visitor);
	if (revocation->verdict == STORE_GRANTED) {
		keeper_notice(visitor->keeper, NOTICE_RUN_REVOKED, now_ms,
			      &(struct notice){ .run_id = visitor->run_id,
						.uid = NOTICE_NUMBER(visitor->who.uid) });
		/* The store has news of runs with a link; a token's run may have none. */
		limiter_on_news(visitor->keeper, STORE_NEWS_REVOKED, visitor->run_id, now_ms);
		visitor_say(visitor, STATUS_DONE, "", now_ms);
		return;
	}
	visitor_say(visitor, STATUS_FAILED,
		    "the keeper's store cannot be reached; nothing is revoked", now_ms);
}

static void on_revoke(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	struct store *store = visitor->keeper->store;

	if (!listing_read_run_id(visitor, words) ||
	    (!visitor_is_master(visitor) && !listing_find(visitor, visitor->run_id))) {
		visitor_say(visitor, STATUS_FAILED, "that is no run", now_ms);
		return;
	}
	visitor->open_answers = 1;
	visitor->revocation = (struct store_revocation){ .run_id = visitor->run_id,
							 .on_done = on_revoked };
	store->ops->revoke(store, &visitor->revocation, now_ms);
}

static void on_drain(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	const struct control_config *config = &visitor->control->config;

	(void)words;
	visitor->waits_for_end = true;
	visitor_say(visitor, STATUS_DONE, "", now_ms);
	config->on_drain(config->owner, now_ms);
}

/* The connection is not a visitor's any more. */
static void on_hand_over(struct visitor *visitor, struct bytes words, uint64_t now_ms)
{
	const struct control_config *config = &visitor->control->config;
	pid_t pid = visitor->who.pid;
	int taken = fcntl(visitor->source.fd, F_DUPFD_CLOEXEC, 3);

	(void)words;
	visitor_close(visitor, now_ms);
	if (taken >= 0)
		config->on_hand_over(config->owner, taken, pid, now_ms);
}

/* ---- packets ---- */

static const struct {
	enum control_request letter;
	bool is_for_masters; /* ourselves, or root */
	void (*handle)(struct visitor *visitor, struct bytes words, uint64_t now_ms);
} requests[] = {
	{ CONTROL_REGISTER, false, on_register },  { CONTROL_LIST, false, listing_list },
	{ CONTROL_SHOW, false, listing_show },     { CONTROL_REVOKE, false, on_revoke },
	{ CONTROL_OPEN_GATE, true, on_open_gate }, { CONTROL_DRAIN, true, on_drain },
	{ CONTROL_HAND_OVER, true, on_hand_over },
};

static void handle(struct visitor *visitor, struct bytes packet, uint64_t now_ms)
{
	char letter = packet.data[0];

	visitor->has_asked = true;
	bytes_take(&packet, 1);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		if ((char)requests[i].letter != letter)
			continue;
		if (requests[i].is_for_masters && !visitor_is_master(visitor))
			break;
		requests[i].handle(visitor, packet, now_ms);
		return;
	}
	visitor_say(visitor, STATUS_FAILED, "that is not for you to ask of this keeper", now_ms);
}

static void on_visitor_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	static char data[CONTROL_PACKET_MAX];
	struct visitor *visitor = OWNER_OF(source, struct visitor, source);
	ssize_t n;

	(void)ready;
	if (outbox_len(&visitor->outbox) > 0) {
		visitor_flush(visitor, now_ms);
		return;
	}
	/* Descriptors that come along, where they can, are left to the kernel. */
	n = recv(source->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);
	/* A reset is told once, of who has left unread what we said; last words follow it. */
	if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
		return;
	if (n <= 0 || (size_t)n > sizeof(data)) {
		visitor_close(visitor, now_ms);
		return;
	}
	loop_cancel(&visitor->keeper->loop, &visitor->patience);
	handle(visitor, (struct bytes){ data, (size_t)n }, now_ms);
	if (!visitor->is_over)
		visitor_set_patience(visitor);
}

static void on_deaf_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct control *control = OWNER_OF(timer, struct control, deaf);

	if (loop_change(&control->keeper->loop, &control->source, LOOP_READ) < 0)
		loop_set_timer(&control->keeper->loop, timer, now_ms + DEAF_MS);
}

/* It would be told of whoever waits turn after turn. */
static void be_deaf(struct control *control, uint64_t now_ms)
{
	if (loop_change(&control->keeper->loop, &control->source, 0) == 0)
		loop_set_timer(&control->keeper->loop, &control->deaf, now_ms + DEAF_MS);
}

/* NULL: nobody whom we know. */
static struct party *find_party(const struct control *control, uid_t uid)
{
	if (uid == geteuid() || uid == 0)
		return &control->parties[0];
	for (size_t i = 1; i <= control->config.user_count; i++)
		if (control->parties[i].user->uid == uid)
			return &control->parties[i];
	return NULL;
}

/*
 * Why somebody is not let in; NULL when nothing stands against it. Masters find a descriptor as
 * long as there is one. The kernel gives out the lowest that is free: those below are in use.
 */
static const struct objection *find_objection(const struct keeper *keeper,
					      const struct party *party, int fd)
{
	uint64_t most = rlimit_get(RLIMIT_NOFILE);

	if (!party)
		return &is_nobody;
	if (!party->user)
		return NULL;
	if (party->visitor_count + unread_count(keeper, party->user->uid) >=
	    most / CONTROL_USER_SHARE)
		return &has_share;
	return (uint64_t)fd >= most - most / 4 ? &is_full : NULL;
}

static void on_knock(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct control *control = OWNER_OF(source, struct control, source);
	struct ucred who;
	socklen_t len = sizeof(who);
	_cleanup_close_ int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct party *party;
	struct visitor *visitor;
	const struct objection *objection;

	(void)ready;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
		be_deaf(control, now_ms);
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return;
	party = find_party(control, who.uid);
	objection = find_objection(control->keeper, party, fd);
	if (objection) {
		note_refused(control->keeper, &who, objection->code, now_ms);
		if (status_send(fd, STATUS_FAILED, objection->text) < 0)
			return;
		return;
	}
	visitor = visitor_new(control->keeper, party, &who, take_fd(&fd), on_visitor_ready);
	if (!visitor)
		return;
	visitor->control = control;
	visitor->audit = control->config.audit;
	LIST_ADD(&control->visitors, visitor);
}

/* ---- opening and closing ---- */

static struct party *make_parties(const struct control_user *users, size_t user_count)
{
	struct party *parties = calloc(user_count + 1, sizeof(struct party));

	if (!parties)
		die_no_memory();
	for (size_t i = 0; i < user_count; i++)
		parties[i + 1].user = &users[i];
	return parties;
}

int control_new(struct keeper *keeper, const struct control_config *config,
		struct control **ret_control, struct err *err)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		die_no_memory();
	control->parties = make_parties(config->users, config->user_count);
	control->keeper = keeper;
	control->config = *config;
	control->listener_fd = config->listener_fd;
	control->source = (struct loop_source){ .fd = -1, .on_ready = on_knock };
	control->deaf.on_due = on_deaf_over;
	r = loop_add(&keeper->loop, &control->source, config->listener_fd, LOOP_READ);
	if (r < 0) {
		free(control->parties);
		free(control);
		return err_set(err, -r, "watch the control socket");
	}
	*ret_control = control;
	return 0;
}

void control_set_users(struct control *control, const struct control_user *users, size_t user_count,
		       uint64_t now_ms)
{
	struct party *before = control->parties;

	control->parties = make_parties(users, user_count);
	control->config.users = users;
	control->config.user_count = user_count;
	for (struct visitor *visitor = control->visitors, *next; visitor; visitor = next) {
		struct party *party = find_party(control, visitor->who.uid);

		next = visitor->next;
		if (party) {
			visitor->party = party;
			party->visitor_count++;
			party->waiting_bytes += outbox_len(&visitor->outbox);
			continue;
		}
		if (visitor->peer)
			peer_close(visitor->peer, "user_removed", now_ms);
		visitor_close(visitor, now_ms);
	}
	free(before);
}

int control_listener(const struct control *control)
{
	return control->listener_fd;
}

void control_pause(struct control *control)
{
	loop_cancel(&control->keeper->loop, &control->deaf);
	loop_remove(&control->keeper->loop, &control->source);
}

int control_resume(struct control *control)
{
	return loop_add(&control->keeper->loop, &control->source, control->listener_fd, LOOP_READ);
}

void control_stop_listening(struct control *control)
{
	loop_cancel(&control->keeper->loop, &control->deaf);
	control_pause(control);
	close_fd(&control->listener_fd);
}

bool control_is_busy(const struct control *control)
{
	const struct visitor *visitor = control->visitors;

	while (visitor && visitor->has_asked && !visitor->enrolment)
		visitor = visitor->next;
	return visitor != NULL;
}

void control_free(struct control *control)
{
	if (!control)
		return;
	while (control->visitors)
		visitor_close(control->visitors, clock_now_ms());
	unread_drop(control->keeper);
	control_stop_listening(control);
	free(control->parties);
	free(control);
}
