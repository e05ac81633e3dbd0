/* SPDX-License-Identifier: MIT */
/*
 * Somebody at the control socket: a connection, what waits to be read there, how long it may be
 * silent, and the run that it owns.
 */
#ifndef KEEPER_VISITOR_H
#define KEEPER_VISITOR_H

#include <sys/socket.h>

#include "config/labels.h"
#include "keeper/control.h"
#include "keeper/enrol.h"
#include "keeper/peer.h"
#include "sys/outbox.h"

/* Those who have one name; what they take is not taken from others. */
struct party {
	const struct control_user *user; /* or NULL: masters, that is ourselves and root */
	size_t visitor_count;
	size_t waiting_bytes; /* in all their outboxes */
};

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
	int link_fds[2];               /* ... and its link, until that has a peer: ours, theirs */
	bool has_link;                 /* it was sent one */
	struct refused_caller refused; /* its run was refused; `why` is what it is to hear */
	char *why;
	struct peer *peer; /* of the run that it owns, or NULL */
	const char *audit; /* where the log is, for that run's summary; borrowed */
	struct store_meter meters[2];
	struct store_revocation revocation;
	char run_id[RUNID_MAX + 1]; /* that it asks about */
	char meter_names[2][sizeof("account:") + LABEL_ACCOUNT_MAX];
	size_t open_answers; /* of the store; it is not freed before */
	bool waits_for_end;  /* of the keeper, which is its answer */
	bool is_over;
};

/* Takes the descriptor; whoever made it has it in a list of its own. NULL: it cannot be watched. */
struct visitor *visitor_new(struct keeper *keeper, struct party *party, const struct ucred *who,
			    int fd, void (*on_ready)(struct loop_source *, unsigned int, uint64_t));

/* Its run ends with it, and it leaves the list. It may be called from anywhere, and twice. */
void visitor_close(struct visitor *visitor, uint64_t now_ms);

/* Sends a packet, or keeps it until it is read: of struct report_sink. 0 or -errno. */
int visitor_send(void *owner, enum status_type type, struct bytes text) must_check;

/* The same for one who may be over, and is if it does not get it. */
void visitor_say_bytes(struct visitor *visitor, enum status_type type, struct bytes text,
		       uint64_t now_ms);
void visitor_say(struct visitor *visitor, enum status_type type, const char *text, uint64_t now_ms);

/* Sends what waits. */
void visitor_flush(struct visitor *visitor, uint64_t now_ms);

/* After it has asked for something. */
void visitor_set_patience(struct visitor *visitor);

/* An answer of the store; whether it was the last that is owed. One who is over is freed then. */
bool visitor_take_answer(struct visitor *visitor);

/* Tells why a run does not begin, once that is on record. */
void visitor_refuse(struct visitor *visitor, const char *why);

/*
 * A link for it. Both ends are made here: nobody else ever has ours, whose reads could wait for
 * whatever another holder of it does. 0 or -errno.
 */
int visitor_make_link(struct visitor *visitor) must_check;

/*
 * The link becomes a peer, with the run or, for an open gate, without; its other end is sent. The
 * run is its own then.
 */
int visitor_open_peer(struct visitor *visitor, struct run *run, enum peer_kind kind,
		      struct err *err) must_check;

static inline bool visitor_is_master(const struct visitor *visitor)
{
	return !visitor->party->user;
}

/* Others see their own. */
bool visitor_may_see(const struct visitor *visitor, const struct peer *peer);

#endif
