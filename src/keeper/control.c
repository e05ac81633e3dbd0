/* SPDX-License-Identifier: MIT */
/* What comes in at the control socket. */
#include "keeper/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "base/money.h"
#include "base/words.h"
#include "config/labels.h"
#include "keeper/enrol.h"
#include "keeper/limiter.h"
#include "keeper/registration.h"
#include "keeper/report.h"
#include "sys/outbox.h"
#include "sys/pass.h"
#include "sys/rlimit.h"

#define WAITING_MAX      (64 << 20) /* of answers, for all masters together */
#define USER_WAITING_MAX (4 << 20)  /* ... and for all visitors of one user */
#define DEAF_MS          100

/* Those who have one name; what they take is not taken from others. */
struct party {
	const struct control_user *user; /* or NULL: masters, that is ourselves and root */
	size_t visitor_count;
	size_t waiting_bytes; /* in all their outboxes */
};

/* Somebody at the socket. */
struct visitor {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct loop_source source;
	struct loop_timer patience; /* set while it is nothing to us but a connection */
	struct outbox outbox;
	struct keeper *keeper;
	struct control *control; /* which may be gone once it is over */
	struct visitor *next, **at;
	struct ucred who;
	bool has_asked; /* for whatever it is */
	struct party *party;
	struct enrolment *enrolment;   /* its run is being looked at, or NULL */
	int link_fd;                   /* ... and its link, until that has a peer */
	struct refused_caller refused; /* its run was refused; `why` is what it is to hear */
	char *why;
	struct peer *peer; /* of the run that it owns, or NULL */
	struct store_meter meters[2];
	struct store_revocation revocation;
	char run_id[RUNID_MAX + 1]; /* that it asks about */
	char meter_names[2][sizeof("account:") + LABEL_ACCOUNT_MAX];
	size_t open_answers; /* of the store; it is not freed before */
	bool waits_for_end;  /* of the keeper, which is its answer */
	bool is_over;
};

struct control {
	struct loop_source source;
	struct loop_timer deaf; /* no descriptor is free: nobody is let in for a moment */
	struct keeper *keeper;
	struct control_config config;
	int listener_fd; /* owned; -1 once it is closed */
	struct visitor *visitors;
	struct party *parties; /* of masters, and of each user */
};

/* ---- visitors ---- */

static void free_visitor(struct loop_deferred *deferred)
{
	struct visitor *visitor = (struct visitor *)(void *)deferred;

	outbox_fini(&visitor->outbox);
	free(visitor->why);
	free(visitor);
}

static void give_up(struct visitor *visitor)
{
	if (!visitor->is_over || visitor->open_answers > 0)
		return;
	visitor->deferred.free = free_visitor;
	loop_defer(&visitor->keeper->loop, &visitor->deferred);
}

/* Its run ends with it. */
static void close_visitor(struct visitor *visitor, uint64_t now_ms)
{
	int fd = visitor->source.fd;

	if (visitor->is_over)
		return;
	visitor->is_over = true;
	enrol_cancel(visitor->enrolment);
	refused_forget(&visitor->refused);
	if (visitor->peer)
		peer_close(visitor->peer, "owner_gone", now_ms);
	visitor->party->waiting_bytes -= outbox_len(&visitor->outbox);
	visitor->party->visitor_count--;
	loop_cancel(&visitor->keeper->loop, &visitor->patience);
	loop_remove(&visitor->keeper->loop, &visitor->source);
	close_fd(&fd);
	close_fd(&visitor->link_fd);
	LIST_REMOVE(visitor);
	give_up(visitor);
}

/* Who has a run here, or waits for us, may be silent for as long as that takes. */
static bool is_expected(const struct visitor *visitor)
{
	return visitor->peer || visitor->enrolment || visitor->why || visitor->open_answers > 0 ||
	       visitor->waits_for_end;
}

/* Anybody else leaves after a while, as does who does not read what it has asked for. */
static void set_patience(struct visitor *visitor)
{
	struct loop *loop = &visitor->keeper->loop;

	if (outbox_len(&visitor->outbox) == 0 && is_expected(visitor))
		loop_cancel(loop, &visitor->patience);
	else if (!visitor->patience.place)
		loop_set_timer(loop, &visitor->patience, clock_now_ms() + CONTROL_PATIENCE_MS);
}

/*
 * After something was sent: whoever is slow to read is waited for, and not listened to meanwhile;
 * but not for ever, nor with all the memory that there is.
 */
static int watch_outbox(struct visitor *visitor, size_t len_before)
{
	struct party *party = visitor->party;
	size_t len = outbox_len(&visitor->outbox);

	party->waiting_bytes += len - len_before;
	if (party->waiting_bytes > (party->user ? USER_WAITING_MAX : WAITING_MAX))
		return -ENOBUFS;
	if (len < len_before)
		loop_cancel(&visitor->keeper->loop, &visitor->patience);
	set_patience(visitor);
	return loop_change(&visitor->keeper->loop, &visitor->source, len ? LOOP_WRITE : LOOP_READ);
}

static int send_status(void *owner, enum status_type type, struct bytes text)
{
	struct visitor *visitor = owner;
	size_t len_before = outbox_len(&visitor->outbox);
	int r = outbox_send(&visitor->outbox, visitor->source.fd, type, text);

	return r < 0 ? r : watch_outbox(visitor, len_before);
}

static void check_sent(struct visitor *visitor, int r, uint64_t now_ms)
{
	if (r < 0)
		close_visitor(visitor, now_ms);
}

static void send_waiting(struct visitor *visitor, uint64_t now_ms)
{
	size_t len_before = outbox_len(&visitor->outbox);
	int r = outbox_flush(&visitor->outbox, visitor->source.fd);
	int watched = watch_outbox(visitor, len_before); /* it counts, too */

	check_sent(visitor, r < 0 ? r : watched, now_ms);
}

static void on_impatient(struct loop_timer *timer, uint64_t now_ms)
{
	close_visitor(OWNER_OF(timer, struct visitor, patience), now_ms);
}

static void say(struct visitor *visitor, enum status_type type, const char *text, uint64_t now_ms)
{
	if (!visitor->is_over)
		check_sent(visitor, send_status(visitor, type, bytes_of(text)), now_ms);
}

static bool is_master(const struct visitor *visitor)
{
	return !visitor->party->user;
}

/* ---- registering ---- */

/* The end of a run: what a private keeper would say. */
static void on_peer_over(struct peer *peer, uint64_t now_ms)
{
	struct visitor *visitor = peer->owner;
	const struct report_sink sink = { send_status, visitor };

	visitor->peer = NULL;
	/* Who is not told knows that something is missing. */
	if (report_end(peer, visitor->control->config.audit, &sink) < 0 || !visitor->is_over)
		close_visitor(visitor, now_ms);
}

static int open_peer(struct visitor *visitor, struct run *run, enum peer_kind kind, struct err *err)
{
	struct stream link;
	int r;

	stream_init_plain(&link, take_fd(&visitor->link_fd));
	r = peer_open(visitor->keeper, &link, run, kind, &visitor->peer, err);
	if (r < 0)
		return r;
	visitor->peer->on_over = on_peer_over;
	visitor->peer->owner = visitor;
	return 0;
}

static void on_recorded(struct refused_caller *refused, uint64_t now_ms)
{
	struct visitor *visitor = OWNER_OF(refused, struct visitor, refused);
	_cleanup_free_ char *why = visitor->why;

	visitor->why = NULL;
	say(visitor, STATUS_FAILED, why, now_ms);
}

/* When it is on record. */
static void refuse(struct visitor *visitor, const char *why)
{
	close_fd(&visitor->link_fd);
	visitor->why = strdup(why);
	if (!visitor->why)
		die_no_memory();
	visitor->refused.tell = on_recorded;
	refused_tell_later(visitor->keeper, &visitor->refused);
}

static void on_enrolled(void *owner, struct run *run, const struct err *err, uint64_t now_ms)
{
	struct visitor *visitor = owner;
	struct store *store = visitor->keeper->store;
	const struct report_sink sink = { send_status, visitor };
	struct err why;

	if (!run) {
		refuse(visitor, err->text);
	} else if (open_peer(visitor, run, PEER_LOCAL, &why) < 0) {
		store->ops->close_run(store, run->run_id, now_ms);
		run_free(run);
		say(visitor, STATUS_FAILED, why.text, now_ms);
	} else {
		check_sent(visitor, report_begin(run, &sink), now_ms);
	}
}

/*
 * INV-RUN-IDENTITY: a user of another name gets a run of its own, and pays itself; it cannot say
 * whose budget is used.
 */
static int restrict_registration(const struct visitor *visitor, struct run_spec *spec)
{
	static char run_id[RUNID_MAX + 1];

	if (is_master(visitor))
		return 0;
	spec->account = visitor->party->user->account;
	spec->run_id = run_id;
	spec->attempt = 0;
	return runid_new(run_id);
}

static bool is_link(int fd)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof(int);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && type == SOCK_STREAM &&
	       domain == AF_UNIX && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* A line for the operator about somebody who does not get what he wants. */
static void note_refused(struct keeper *keeper, const struct ucred *who, const char *code,
			 uint64_t now_ms)
{
	keeper_notice(keeper, NOTICE_RUN_REFUSED, now_ms,
		      &(struct notice){ .uid = NOTICE_NUMBER(who->uid), .code = code });
}

/* What stands against a new link, as it was asked for; NULL when nothing does. */
static const char *find_obstacle(const struct visitor *visitor, int fd)
{
	if (visitor->peer || visitor->enrolment || visitor->why || !is_link(fd))
		return "the keeper does not understand; is it of this version?";
	return NULL;
}

static void on_register(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	static struct registration registration; /* large, and needed only in here */
	const char *obstacle = find_obstacle(visitor, *fd);
	struct err err;

	if (!obstacle && registration_parse(&registration, (char *)words.data, words.len, &err) < 0)
		obstacle = err.text;
	if (!obstacle && restrict_registration(visitor, &registration.spec) < 0)
		obstacle = "the keeper cannot get random bytes";
	if (obstacle) {
		note_refused(visitor->keeper, &visitor->who, "bad_registration", now_ms);
		say(visitor, STATUS_FAILED, obstacle, now_ms);
		return;
	}
	visitor->link_fd = registration.spec.link_fd = take_fd(fd);
	enrol_start(visitor->keeper, &registration.spec, on_enrolled, visitor, &visitor->enrolment,
		    now_ms);
}

/* A gate for agents that warder did not start: whose a request is, its token says. */
static void on_open_gate(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	const char *obstacle = find_obstacle(visitor, *fd);
	struct err err;

	(void)words;
	if (!obstacle && visitor->keeper->is_draining) {
		refused_record(visitor->keeper,
			       &(struct refused_link){ .refusal = REFUSAL_DRAINING });
		refuse(visitor, ENROL_DRAINING);
		return;
	}
	if (!obstacle && visitor->keeper->charter->token_keys.count == 0)
		obstacle = "this keeper has no key for tokens of requests; say --token-key "
			   "ID=SOURCE";
	if (!obstacle) {
		visitor->link_fd = take_fd(fd);
		if (open_peer(visitor, NULL, PEER_OPEN, &err) < 0)
			obstacle = err.text;
	}
	say(visitor, obstacle ? STATUS_FAILED : STATUS_READY, obstacle ? obstacle : "", now_ms);
}

/* ---- listing and showing ---- */

static void add_run(struct buf *words, const struct peer *peer)
{
	const struct run *run = peer->run;

	if (run) {
		words_add_pair(words, "runId", run->run_id);
		words_add_pair_number(words, "attempt", run->attempt);
		if (run->account)
			words_add_pair(words, "account", run->account);
		words_add_pair(words, "state", run->is_revoked ? "revoked" : "running");
	} else {
		words_add_pair(words, "state", "open");
	}
	words_add_pair(words, "link", peer_kind_name(peer->kind));
	words_add_pair_number(words, "ageMs", clock_now_ms() - peer->begun_ms);
	words_add_pair_number(words, "exchanges", peer_count_exchanges(peer));
	words_add_pair_number(words, "allowed", peer->allowed);
	words_add_pair_number(words, "refused", peer->refused);
}

/* Others see their own. */
static bool may_see(const struct visitor *visitor, const struct peer *peer)
{
	const struct visitor *owner = peer->on_over == on_peer_over ? peer->owner : NULL;

	return is_master(visitor) || (owner && owner->who.uid == visitor->who.uid);
}

static void say_run(struct visitor *visitor, struct buf *words, uint64_t now_ms)
{
	if (!visitor->is_over)
		check_sent(
			visitor,
			send_status(visitor, STATUS_RUN, (struct bytes){ words->data, words->len }),
			now_ms);
	buf_fini(words);
}

static void on_list(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	const struct peer *peer = visitor->keeper->peers;

	(void)words;
	(void)fd;
	for (; peer && !visitor->is_over; peer = peer->next) {
		struct buf answer;

		if (!may_see(visitor, peer))
			continue;
		buf_init(&answer, CONTROL_PACKET_MAX);
		add_run(&answer, peer);
		say_run(visitor, &answer, now_ms);
	}
	say(visitor, STATUS_DONE, "", now_ms);
}

static const struct peer *find_peer(const struct visitor *visitor, const char *run_id)
{
	const struct peer *peer = visitor->keeper->peers;

	while (peer && (!peer->run || strcmp(peer->run->run_id, run_id) != 0))
		peer = peer->next;
	return peer && may_see(visitor, peer) ? peer : NULL;
}

/* "run.spent=…", "account.bytes=…" and so on. */
static void add_meter(struct buf *words, const struct store_meter *meter)
{
	int len = (int)strcspn(meter->meter, ":");
	char money[MONEY_TEXT_MAX], name[64];

	money_format(meter->spent, money);
	snprintf(name, sizeof(name), "%.*s.spent", len, meter->meter);
	words_add_pair(words, name, money);
	money_format(meter->reserved, money);
	snprintf(name, sizeof(name), "%.*s.reserved", len, meter->meter);
	words_add_pair(words, name, money);
	snprintf(name, sizeof(name), "%.*s.bytes", len, meter->meter);
	words_add_pair_number(words, name, meter->bytes);
	snprintf(name, sizeof(name), "%.*s.concurrent", len, meter->meter);
	words_add_pair_number(words, name, meter->concurrent);
}

static void on_meter(struct store_meter *meter, uint64_t now_ms)
{
	struct visitor *visitor = meter->owner;
	const struct peer *peer;
	struct buf words;

	if (--visitor->open_answers > 0)
		return;
	give_up(visitor);
	if (visitor->is_over)
		return;
	peer = find_peer(visitor, visitor->run_id);
	buf_init(&words, CONTROL_PACKET_MAX);
	if (peer)
		add_run(&words, peer);
	else
		words_add_pair(&words, "runId", visitor->run_id);
	for (size_t i = 0; i < ARRAY_LEN(visitor->meters); i++)
		if (visitor->meters[i].meter && visitor->meters[i].verdict == STORE_GRANTED)
			add_meter(&words, &visitor->meters[i]);
	say_run(visitor, &words, now_ms);
	say(visitor, STATUS_DONE, "", now_ms);
}

static bool read_run_id(struct visitor *visitor, struct bytes words)
{
	if (visitor->open_answers > 0 || words.len < 2 || words.len > sizeof(visitor->run_id) ||
	    memchr(words.data, '\0', words.len) != words.data + words.len - 1)
		return false;
	memcpy(visitor->run_id, words.data, words.len);
	return runid_is_valid(visitor->run_id);
}

static void on_show(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	struct store *store = visitor->keeper->store;
	const struct peer *peer;
	size_t count = 1;

	(void)fd;
	if (!read_run_id(visitor, words)) {
		say(visitor, STATUS_FAILED, "that is no run", now_ms);
		return;
	}
	peer = find_peer(visitor, visitor->run_id);
	if (!peer && !is_master(visitor)) {
		say(visitor, STATUS_FAILED, "there is no such run", now_ms);
		return;
	}
	snprintf(visitor->meter_names[0], sizeof(visitor->meter_names[0]), "run:%s",
		 visitor->run_id);
	if (peer && peer->run->account)
		snprintf(visitor->meter_names[count++], sizeof(visitor->meter_names[0]),
			 "account:%s", peer->run->account);
	visitor->open_answers = count;
	for (size_t i = 0; i < ARRAY_LEN(visitor->meters); i++)
		visitor->meters[i] = (struct store_meter){ .on_done = on_meter, .owner = visitor };
	for (size_t i = 0; i < count; i++) {
		visitor->meters[i].meter = visitor->meter_names[i];
		store->ops->read_meter(store, &visitor->meters[i], now_ms);
	}
}

/* ---- revoking and draining ---- */

static void on_revoked(struct store_revocation *revocation, uint64_t now_ms)
{
	struct visitor *visitor = OWNER_OF(revocation, struct visitor, revocation);

	visitor->open_answers--;
	give_up(visitor);
	if (revocation->verdict == STORE_GRANTED) {
		keeper_notice(visitor->keeper, NOTICE_RUN_REVOKED, now_ms,
			      &(struct notice){ .run_id = visitor->run_id,
						.uid = NOTICE_NUMBER(visitor->who.uid) });
		/* The store has news of runs with a link; a token's run may have none. */
		limiter_on_news(visitor->keeper, STORE_NEWS_REVOKED, visitor->run_id, now_ms);
		say(visitor, STATUS_DONE, "", now_ms);
		return;
	}
	say(visitor, STATUS_FAILED, "the keeper's store cannot be reached; nothing is revoked",
	    now_ms);
}

static void on_revoke(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	struct store *store = visitor->keeper->store;

	(void)fd;
	if (!read_run_id(visitor, words) ||
	    (!is_master(visitor) && !find_peer(visitor, visitor->run_id))) {
		say(visitor, STATUS_FAILED, "that is no run", now_ms);
		return;
	}
	visitor->open_answers = 1;
	visitor->revocation = (struct store_revocation){ .run_id = visitor->run_id,
							 .on_done = on_revoked };
	store->ops->revoke(store, &visitor->revocation, now_ms);
}

static void on_drain(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	const struct control_config *config = &visitor->control->config;

	(void)words;
	(void)fd;
	visitor->waits_for_end = true;
	say(visitor, STATUS_DONE, "", now_ms);
	config->on_drain(config->owner, now_ms);
}

/* The connection is not a visitor's any more. */
static void on_hand_over(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms)
{
	const struct control_config *config = &visitor->control->config;
	pid_t pid = visitor->who.pid;
	int taken = fcntl(visitor->source.fd, F_DUPFD_CLOEXEC, 3);

	(void)words;
	(void)fd;
	close_visitor(visitor, now_ms);
	if (taken >= 0)
		config->on_hand_over(config->owner, taken, pid, now_ms);
}

/* ---- packets ---- */

static const struct {
	enum control_request letter;
	bool is_for_masters; /* ourselves, or root */
	void (*handle)(struct visitor *visitor, struct bytes words, int *fd, uint64_t now_ms);
} requests[] = {
	{ CONTROL_REGISTER, false, on_register },  { CONTROL_LIST, false, on_list },
	{ CONTROL_SHOW, false, on_show },          { CONTROL_REVOKE, false, on_revoke },
	{ CONTROL_OPEN_GATE, true, on_open_gate }, { CONTROL_DRAIN, true, on_drain },
	{ CONTROL_HAND_OVER, true, on_hand_over },
};

static void handle(struct visitor *visitor, struct bytes packet, int *fd, uint64_t now_ms)
{
	char letter = packet.data[0];

	visitor->has_asked = true;
	bytes_take(&packet, 1);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		if ((char)requests[i].letter != letter)
			continue;
		if (requests[i].is_for_masters && !is_master(visitor))
			break;
		requests[i].handle(visitor, packet, fd, now_ms);
		return;
	}
	say(visitor, STATUS_FAILED, "that is not for you to ask of this keeper", now_ms);
}

static void on_visitor_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	static char data[CONTROL_PACKET_MAX];
	struct visitor *visitor = OWNER_OF(source, struct visitor, source);
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)ready;
	if (outbox_len(&visitor->outbox) > 0) {
		send_waiting(visitor, now_ms);
		return;
	}
	n = pass_receive(source->fd, data, sizeof(data), &fd);
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		close_visitor(visitor, now_ms);
		return;
	}
	loop_cancel(&visitor->keeper->loop, &visitor->patience);
	handle(visitor, (struct bytes){ data, (size_t)n }, &fd, now_ms);
	if (!visitor->is_over)
		set_patience(visitor);
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

static const struct objection {
	const char *code, *text;
} is_nobody = { "not_welcome", "this keeper is not for you" },
  has_share = { "too_many_visitors",
		"you have as many connections to this keeper as a user may have; wait until a run "
		"of yours has ended" },
  is_full = { "no_room",
	      "the keeper has no room for another connection; wait until runs have ended" };

/*
 * Why somebody is not let in; NULL when nothing stands against it. Masters find a descriptor as
 * long as there is one. The kernel gives out the lowest that is free: those below are in use.
 */
static const struct objection *find_objection(const struct party *party, int fd)
{
	uint64_t most = rlimit_get(RLIMIT_NOFILE);

	if (!party)
		return &is_nobody;
	if (!party->user)
		return NULL;
	if (party->visitor_count >= most / CONTROL_USER_SHARE)
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
	objection = find_objection(party, fd);
	if (objection) {
		note_refused(control->keeper, &who, objection->code, now_ms);
		if (status_send(fd, STATUS_FAILED, objection->text) < 0)
			return;
		return;
	}
	visitor = calloc(1, sizeof(*visitor));
	if (!visitor)
		die_no_memory();
	visitor->keeper = control->keeper;
	visitor->control = control;
	visitor->who = who;
	visitor->party = party;
	visitor->link_fd = -1;
	visitor->source = (struct loop_source){ .fd = -1, .on_ready = on_visitor_ready };
	visitor->patience.on_due = on_impatient;
	outbox_init(&visitor->outbox);
	if (loop_add(&control->keeper->loop, &visitor->source, fd, LOOP_READ) < 0) {
		free(visitor);
		return;
	}
	take_fd(&fd);
	LIST_ADD(&control->visitors, visitor);
	party->visitor_count++;
	set_patience(visitor);
}

/* ---- opening and closing ---- */

int control_new(struct keeper *keeper, const struct control_config *config,
		struct control **ret_control, struct err *err)
{
	struct control *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		die_no_memory();
	control->parties = calloc(config->user_count + 1, sizeof(struct party));
	if (!control->parties)
		die_no_memory();
	for (size_t i = 0; i < config->user_count; i++)
		control->parties[i + 1].user = &config->users[i];
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
		close_visitor(control->visitors, clock_now_ms());
	control_stop_listening(control);
	free(control->parties);
	free(control);
}
