/* SPDX-License-Identifier: MIT */
/* Links from other machines. */
#include "keeper/remote.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/list.h"
#include "keeper/door.h"
#include "keeper/enrol.h"
#include "keeper/refusal.h"
#include "keeper/report.h"

/* Somebody whom the store is asked about, or who is to hear why not. */
struct arrival {
	struct remote *remote;
	struct arrival *next, **at;
	struct enrolment *enrolment;
	struct refused_caller refused;
	struct stream stream;
	char why[ERR_TEXT_MAX]; /* it is refused */
};

struct remote {
	struct keeper *keeper;
	struct door *door;
	struct arrival *arrivals;
	const char *audit;
	int listener_fd; /* the door's */
};

/* ---- what is told over the link ---- */

static int send_notice(void *owner, enum status_type type, struct bytes text)
{
	const struct link_notice notice = { .letter = (char)type, .text = text };

	link_write_notice(peer_out(owner), &notice);
	return 0;
}

static void on_peer_over(struct peer *peer, uint64_t now_ms)
{
	const struct report_sink sink = { send_notice, peer };

	(void)now_ms;
	/* Who is not told knows that something is missing. */
	if (report_end(peer, peer->owner, &sink) < 0)
		return;
}

/* Who shows no token asks for no link: that is no decision, and no more than a line for people. */
static void on_failed(struct door *door, const struct err *err, uint64_t now_ms)
{
	const struct remote *remote = door_owner(door);

	keeper_notice(remote->keeper, NOTICE_TOKEN_REFUSED, now_ms,
		      &(struct notice){ .code = "no_token", .text = err->text });
}

/* ---- arriving ---- */

static struct arrival *arrival_new(struct remote *remote, struct stream *stream)
{
	struct arrival *arrival = calloc(1, sizeof(*arrival));

	if (!arrival)
		die_no_memory();
	arrival->remote = remote;
	arrival->stream = *stream;
	LIST_ADD(&remote->arrivals, arrival);
	return arrival;
}

static void arrival_free(struct arrival *arrival)
{
	enrol_cancel(arrival->enrolment);
	refused_forget(&arrival->refused);
	stream_close(&arrival->stream);
	LIST_REMOVE(arrival);
	free(arrival);
}

static void on_recorded(struct refused_caller *refused, uint64_t now_ms)
{
	struct arrival *arrival = OWNER_OF(refused, struct arrival, refused);

	(void)now_ms;
	door_turn_away(&arrival->stream, arrival->why);
	arrival->stream = (struct stream){ .fd = -1 };
	arrival_free(arrival);
}

static void turn_away(struct arrival *arrival, const char *why)
{
	snprintf(arrival->why, sizeof(arrival->why), "%s", why);
	arrival->refused.tell = on_recorded;
	refused_tell_later(arrival->remote->keeper, &arrival->refused);
}

static void on_enrolled(void *owner, struct run *run, const struct err *err, uint64_t now_ms)
{
	struct arrival *arrival = owner;
	struct remote *remote = arrival->remote;
	struct report_sink sink = { .send = send_notice };
	struct peer *peer;
	struct err why;

	if (!run) {
		turn_away(arrival, err->text);
		return;
	}
	if (peer_open(remote->keeper, &arrival->stream, run, PEER_REMOTE, &peer, &why) < 0) {
		remote->keeper->store->ops->close_run(remote->keeper->store, run->run_id, now_ms);
		run_free(run);
	} else {
		peer->on_over = on_peer_over;
		peer->owner = (void *)remote->audit;
		sink.owner = peer;
		if (report_begin(run, &sink) < 0)
			peer_close(peer, "gate_gone", now_ms);
	}
	arrival->stream = (struct stream){ .fd = -1 };
	arrival_free(arrival);
}

static void begin(struct remote *remote, struct stream *stream, const struct token *token,
		  const char *from, uint64_t now_ms)
{
	const struct run_spec spec = { .run_id = token->run_id,
				       .attempt = token->attempt,
				       .from = from,
				       .link_fd = stream->fd };
	struct arrival *arrival = arrival_new(remote, stream);

	enrol_start(remote->keeper, &spec, on_enrolled, arrival, &arrival->enrolment, now_ms);
}

static void refuse(struct remote *remote, struct stream *stream, const struct refused_link *link,
		   const char *why)
{
	refused_record(remote->keeper, link);
	turn_away(arrival_new(remote, stream), why);
}

static void on_token(struct door *door, struct stream *stream, struct bytes text, const char *from,
		     uint64_t now_ms)
{
	struct remote *remote = door_owner(door);
	struct keeper *keeper = remote->keeper;
	struct token token;

	switch (keyring_verify(&keeper->charter->link_keys, text, clock_ms(CLOCK_REALTIME) / 1000,
			       &token, NULL)) {
	case TOKEN_VALID:
		begin(remote, stream, &token, from, now_ms);
		break;
	case TOKEN_EXPIRED:
		keeper->metrics.tokens[METRICS_TOKEN_EXPIRED]++;
		refuse(remote, stream,
		       &(struct refused_link){ .run_id = token.run_id,
					       .attempt = token.attempt,
					       .from = from,
					       .refusal = REFUSAL_TOKEN_EXPIRED },
		       "the run token has expired");
		break;
	default:
		keeper->metrics.tokens[METRICS_TOKEN_INVALID]++;
		refuse(remote, stream,
		       &(struct refused_link){ .from = from, .refusal = REFUSAL_TOKEN_INVALID },
		       "the run token is not valid");
	}
}

/* ---- opening and closing ---- */

int remote_new(struct keeper *keeper, int listener_fd, struct tls_service *service,
	       const char *audit, struct remote **ret_remote, struct err *err)
{
	static const struct door_ops ops = { on_token, on_failed };
	struct remote *remote = calloc(1, sizeof(*remote));
	int r;

	if (!remote)
		die_no_memory();
	remote->keeper = keeper;
	remote->audit = audit;
	remote->listener_fd = listener_fd;
	r = door_open(&keeper->loop, listener_fd, service, &ops, remote, &remote->door);
	if (r < 0) {
		free(remote);
		return err_set(err, -r, "listen for other machines");
	}
	*ret_remote = remote;
	return 0;
}

int remote_listener(const struct remote *remote)
{
	return remote->listener_fd;
}

void remote_set_service(struct remote *remote, struct tls_service *service)
{
	door_set_service(remote->door, service);
}

void remote_pause(struct remote *remote)
{
	door_pause(remote->door);
}

int remote_resume(struct remote *remote)
{
	return door_resume(remote->door);
}

void remote_stop_listening(struct remote *remote)
{
	door_stop_listening(remote->door);
	remote->listener_fd = -1;
}

bool remote_is_busy(const struct remote *remote)
{
	return remote->arrivals || door_count_callers(remote->door) > 0;
}

void remote_free(struct remote *remote)
{
	if (!remote)
		return;
	while (remote->arrivals)
		arrival_free(remote->arrivals);
	door_close(remote->door);
	free(remote);
}
