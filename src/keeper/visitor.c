/* SPDX-License-Identifier: MIT */
/* Visitors of the control socket. */
#include "keeper/visitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "keeper/report.h"
#include "keeper/unread.h"
#include "sys/pass.h"

#define WAITING_MAX      (64 << 20) /* of answers, for all masters together */
#define USER_WAITING_MAX (4 << 20)  /* ... and for all visitors of one user */

/* ---- leaving ---- */

static void free_visitor(struct loop_deferred *deferred)
{
	struct visitor *visitor = (struct visitor *)(void *)deferred;

	outbox_fini(&visitor->outbox);
	free(visitor->why);
	free(visitor);
}

static void free_if_over(struct visitor *visitor)
{
	if (!visitor->is_over || visitor->open_answers > 0)
		return;
	visitor->deferred.free = free_visitor;
	loop_defer(&visitor->keeper->loop, &visitor->deferred);
}

bool visitor_take_answer(struct visitor *visitor)
{
	visitor->open_answers--;
	free_if_over(visitor);
	return visitor->open_answers == 0;
}

static void drop_link(struct visitor *visitor)
{
	close_fd(&visitor->link_fds[0]);
	close_fd(&visitor->link_fds[1]);
}

void visitor_close(struct visitor *visitor, uint64_t now_ms)
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
	if (visitor->has_link && !visitor_is_master(visitor))
		unread_keep(visitor->keeper, visitor->who.uid, take_fd(&fd));
	close_fd(&fd);
	drop_link(visitor);
	LIST_REMOVE(visitor);
	free_if_over(visitor);
}

/* ---- what it is told ---- */

/* Who has a run here, or waits for us, may be silent for as long as that takes. */
static bool is_expected(const struct visitor *visitor)
{
	return visitor->peer || visitor->enrolment || visitor->why || visitor->open_answers > 0 ||
	       visitor->waits_for_end;
}

/* Anybody else leaves after a while, as does who does not read what it has asked for. */
void visitor_set_patience(struct visitor *visitor)
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
	visitor_set_patience(visitor);
	return loop_change(&visitor->keeper->loop, &visitor->source, len ? LOOP_WRITE : LOOP_READ);
}

int visitor_send(void *owner, enum status_type type, struct bytes text)
{
	struct visitor *visitor = owner;
	size_t len_before = outbox_len(&visitor->outbox);
	int r = outbox_send(&visitor->outbox, visitor->source.fd, type, text);

	return r < 0 ? r : watch_outbox(visitor, len_before);
}

static void check_sent(struct visitor *visitor, int r, uint64_t now_ms)
{
	if (r < 0)
		visitor_close(visitor, now_ms);
}

void visitor_flush(struct visitor *visitor, uint64_t now_ms)
{
	size_t len_before = outbox_len(&visitor->outbox);
	int r = outbox_flush(&visitor->outbox, visitor->source.fd);
	int watched = watch_outbox(visitor, len_before); /* it counts, too */

	check_sent(visitor, r < 0 ? r : watched, now_ms);
}

void visitor_say_bytes(struct visitor *visitor, enum status_type type, struct bytes text,
		       uint64_t now_ms)
{
	if (!visitor->is_over)
		check_sent(visitor, visitor_send(visitor, type, text), now_ms);
}

void visitor_say(struct visitor *visitor, enum status_type type, const char *text, uint64_t now_ms)
{
	visitor_say_bytes(visitor, type, bytes_of(text), now_ms);
}

/* ---- its run ---- */

/* The end of a run: what a private keeper would say. */
static void on_peer_over(struct peer *peer, uint64_t now_ms)
{
	struct visitor *visitor = peer->owner;
	const struct report_sink sink = { visitor_send, visitor };

	visitor->peer = NULL;
	/* Who is not told knows that something is missing. */
	if (report_end(peer, visitor->audit, &sink) < 0 || !visitor->is_over)
		visitor_close(visitor, now_ms);
}

int visitor_make_link(struct visitor *visitor)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, visitor->link_fds) < 0)
		return -errno;
	pass_refuse(visitor->link_fds[0]);
	return fcntl(visitor->link_fds[0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* By itself and not through the outbox: whoever has just come has not let much lie unread. */
static int send_link(struct visitor *visitor, struct err *err)
{
	const char letter = STATUS_LINK;
	int r = outbox_len(&visitor->outbox) > 0
			? -EAGAIN
			: pass_send(visitor->source.fd, &letter, 1, visitor->link_fds[1]);

	if (r < 0) {
		drop_link(visitor);
		return err_set(err, -r, "send the link");
	}
	close_fd(&visitor->link_fds[1]);
	visitor->has_link = true;
	return 0;
}

int visitor_open_peer(struct visitor *visitor, struct run *run, enum peer_kind kind,
		      struct err *err)
{
	struct stream link;
	int r = send_link(visitor, err);

	if (r < 0)
		return r;
	stream_init_plain(&link, take_fd(&visitor->link_fds[0]));
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
	visitor_say(visitor, STATUS_FAILED, why, now_ms);
}

void visitor_refuse(struct visitor *visitor, const char *why)
{
	drop_link(visitor);
	visitor->why = strdup(why);
	if (!visitor->why)
		die_no_memory();
	visitor->refused.tell = on_recorded;
	refused_tell_later(visitor->keeper, &visitor->refused);
}

/* Others see their own. */
bool visitor_may_see(const struct visitor *visitor, const struct peer *peer)
{
	const struct visitor *owner = peer->on_over == on_peer_over ? peer->owner : NULL;

	return visitor_is_master(visitor) || (owner && owner->who.uid == visitor->who.uid);
}

/* ---- coming ---- */

static void on_impatient(struct loop_timer *timer, uint64_t now_ms)
{
	visitor_close(OWNER_OF(timer, struct visitor, patience), now_ms);
}

struct visitor *visitor_new(struct keeper *keeper, struct party *party, const struct ucred *who,
			    int fd, void (*on_ready)(struct loop_source *, unsigned int, uint64_t))
{
	struct visitor *visitor = calloc(1, sizeof(*visitor));

	if (!visitor)
		die_no_memory();
	visitor->keeper = keeper;
	visitor->party = party;
	visitor->who = *who;
	visitor->link_fds[0] = visitor->link_fds[1] = -1;
	visitor->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	visitor->patience.on_due = on_impatient;
	outbox_init(&visitor->outbox);
	if (loop_add(&keeper->loop, &visitor->source, fd, LOOP_READ) < 0) {
		close_fd(&fd);
		free(visitor);
		return NULL;
	}
	party->visitor_count++;
	visitor_set_patience(visitor);
	return visitor;
}
