/* SPDX-License-Identifier: MIT */
/*
 * Callers: a handshake, then the bytes of one message and not one more. From here on they may be
 * anybody's.
 */
#include "keeper/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/die.h"
#include "link/link.h"
#include "net/alive.h"

#define ACCEPTS_PER_TURN 64
#define DEAF_MS          100
#define FROM_MAX         (INET6_ADDRSTRLEN + 10)
#define MESSAGE_MAX      (LINK_HEADER_LEN + 6 + LINK_TOKEN_MAX)

struct caller {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct caller *next, *before;  /* by age */
	struct door *door;
	struct tls_caller *handshake; /* NULL once it is done */
	struct stream stream;         /* ... and then this is there */
	struct loop_source source;
	struct loop_timer deadline;
	struct link_reader reader;
	char from[FROM_MAX];
};

struct door {
	struct loop_deferred deferred; /* first, as of callers */
	struct loop *loop;
	struct loop_source source;
	int listener_fd;        /* owned; -1 once it is closed */
	struct loop_timer deaf; /* no descriptor is free: nobody is let in for a moment */
	struct tls_service *service;
	const struct door_ops *ops;
	void *owner;
	struct caller *oldest, *newest;
	size_t caller_count;
	uint64_t patience_ms;
	struct door_counts counts;
};

/* ---- callers come and go ---- */

static void free_caller(struct loop_deferred *deferred)
{
	struct caller *caller = (struct caller *)(void *)deferred;

	free(caller);
}

static void add_caller(struct door *door, struct caller *caller)
{
	caller->before = door->newest;
	if (door->newest)
		door->newest->next = caller;
	else
		door->oldest = caller;
	door->newest = caller;
	door->caller_count++;
	door->counts.callers++;
}

/* Out of the door, whichever way; the stream is somebody else's, or closed. */
static void leave(struct caller *caller)
{
	struct door *door = caller->door;

	*(caller->before ? &caller->before->next : &door->oldest) = caller->next;
	*(caller->next ? &caller->next->before : &door->newest) = caller->before;
	door->caller_count--;
	loop_remove(door->loop, &caller->source);
	loop_cancel(door->loop, &caller->deadline);
	if (caller->handshake)
		tls_caller_cancel(caller->handshake);
	stream_close(&caller->stream);
	link_reader_fini(&caller->reader);
	loop_defer(door->loop, &caller->deferred);
}

static void send_away(struct caller *caller, int code, const char *why, uint64_t now_ms)
{
	struct door *door = caller->door;
	struct err err;

	err_say(&err, code, "a link from %s: %.300s", caller->from, why);
	leave(caller);
	door->counts.failed++;
	if (door->ops->on_failed)
		door->ops->on_failed(door, &err, now_ms);
}

static void on_deadline(struct loop_timer *timer, uint64_t now_ms)
{
	send_away(OWNER_OF(timer, struct caller, deadline), ETIMEDOUT, "it showed no token in time",
		  now_ms);
}

/* ---- the token ---- */

static void on_token(struct caller *caller, struct bytes payload, uint64_t now_ms)
{
	struct door *door = caller->door;
	struct stream stream = caller->stream;
	char token[LINK_TOKEN_MAX + 1], from[FROM_MAX];
	struct bytes text;
	int r = link_parse_token(payload, &text);

	loop_remove(door->loop, &caller->source);
	if (r == -EPROTONOSUPPORT)
		door_turn_away(&caller->stream,
			       "the keeper speaks another version of the link; both machines need "
			       "the same warder");
	if (r < 0) {
		send_away(caller, -r,
			  r == -EPROTO ? "what it showed is no token"
				       : "it speaks another version of the link",
			  now_ms);
		return;
	}
	memcpy(token, text.data, text.len);
	memcpy(from, caller->from, sizeof(from));
	caller->stream = (struct stream){ .fd = -1 };
	leave(caller);
	door->counts.shown++;
	door->ops->on_token(door, &stream, (struct bytes){ token, text.len }, from, now_ms);
	explicit_bzero(token, sizeof(token));
}

/* How much is missing of the message: what comes after it is not ours. */
static size_t missing_len(const struct link_reader *reader)
{
	return reader->header_len < LINK_HEADER_LEN ? LINK_HEADER_LEN - reader->header_len
						    : reader->left;
}

static void read_token(struct caller *caller, uint64_t now_ms)
{
	char data[MESSAGE_MAX];

	for (;;) {
		struct bytes input = { data, 0 }, payload;
		ssize_t n = stream_read(&caller->stream, data, missing_len(&caller->reader));
		enum link_event event;

		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			send_away(caller, n < 0 ? (int)-n : EPIPE,
				  "it closed the connection before it showed a token", now_ms);
			return;
		}
		input.len = (size_t)n;
		event = link_read(&caller->reader, &input, &payload);
		/* The table says how long it may be before any of it is read. */
		if (event == LINK_BROKEN || (caller->reader.header_len == LINK_HEADER_LEN &&
					     caller->reader.type != LINK_TOKEN)) {
			send_away(caller, EPROTO, "it did not begin with a token", now_ms);
			return;
		}
		if (event == LINK_MESSAGE || event == LINK_PIECE) {
			if (caller->reader.type == LINK_TOKEN)
				on_token(caller, payload, now_ms);
			else
				send_away(caller, EPROTO, "it did not begin with a token", now_ms);
			explicit_bzero(data, sizeof(data));
			return;
		}
	}
	if (loop_change(caller->door->loop, &caller->source,
			stream_interest(&caller->stream, true, false)) < 0)
		send_away(caller, EIO, "it cannot be watched", now_ms);
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	(void)ready;
	read_token(OWNER_OF(source, struct caller, source), now_ms);
}

static void on_handshake(void *owner, struct stream *stream, const struct err *err, uint64_t now_ms)
{
	struct caller *caller = owner;
	struct loop *loop = caller->door->loop;

	caller->handshake = NULL;
	if (err) {
		send_away(caller, err->code, err->text, now_ms);
		return;
	}
	caller->stream = *stream;
	loop_set_timer(loop, &caller->deadline, now_ms + caller->door->patience_ms);
	if (loop_add(loop, &caller->source, stream->fd, LOOP_READ) < 0)
		send_away(caller, EIO, "it cannot be watched", now_ms);
	else
		read_token(caller, now_ms); /* it may have come with the handshake */
}

/* ---- the listener ---- */

static void format_from(const struct sockaddr_storage *address, char *ret_from)
{
	const struct sockaddr_in6 *v6 = (const void *)address;
	const struct sockaddr_in *v4 = (const void *)address;
	char text[INET6_ADDRSTRLEN] = "";

	if (address->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
		snprintf(ret_from, FROM_MAX, "[%s]:%u", text, ntohs(v6->sin6_port));
	} else if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
		snprintf(ret_from, FROM_MAX, "%s:%u", text, ntohs(v4->sin_port));
	} else {
		snprintf(ret_from, FROM_MAX, "somewhere");
	}
}

static void welcome(struct door *door, int fd, const struct sockaddr_storage *address,
		    uint64_t now_ms)
{
	struct caller *caller;

	/* A test may use another kind of socket, which has none of these. */
	if (alive_watch(fd) < 0 && address->ss_family != AF_UNIX) {
		close(fd);
		return; /* gone already */
	}
	if (door->caller_count == DOOR_CALLERS_MAX)
		send_away(door->oldest, EBUSY, "there are too many at once, and it was slow",
			  now_ms);
	if (door->source.fd < 0) { /* whoever heard of it has closed the door */
		close(fd);
		return;
	}
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		die_no_memory();
	*caller = (struct caller){
		.deferred.free = free_caller,
		.door = door,
		.stream.fd = -1,
		.source = { .fd = -1, .on_ready = on_ready },
		.deadline.on_due = on_deadline,
	};
	link_reader_init(&caller->reader, LINK_SIDE_GATE);
	format_from(address, caller->from);
	add_caller(door, caller);
	caller->handshake = tls_service_accept(door->service, door->loop, fd, door->patience_ms,
					       now_ms, on_handshake, caller);
}

static void on_deaf_over(struct loop_timer *timer, uint64_t now_ms)
{
	struct door *door = OWNER_OF(timer, struct door, deaf);

	if (loop_change(door->loop, &door->source, LOOP_READ) < 0)
		loop_set_timer(door->loop, timer, now_ms + DEAF_MS);
}

static void on_listener(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct door *door = OWNER_OF(source, struct door, source);

	(void)ready;
	/* A callback may close the door. */
	for (int i = 0; i < ACCEPTS_PER_TURN && source->fd >= 0; i++) {
		struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
		socklen_t len = sizeof(address);
		int fd = accept4(source->fd, (struct sockaddr *)&address, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(door, fd, &address, now_ms);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			/* It would be told of them turn after turn. */
			if (loop_change(door->loop, source, 0) == 0)
				loop_set_timer(door->loop, &door->deaf, now_ms + DEAF_MS);
		}
		return;
	}
}

/* ---- the door itself ---- */

static void free_door(struct loop_deferred *deferred)
{
	struct door *door = (struct door *)(void *)deferred;

	free(door);
}

int door_open(struct loop *loop, int listener_fd, struct tls_service *service,
	      const struct door_ops *ops, void *owner, struct door **ret_door)
{
	struct door *door = calloc(1, sizeof(*door));
	int r;

	if (!door)
		die_no_memory();
	*door = (struct door){
		.loop = loop,
		.source = { .fd = -1, .on_ready = on_listener },
		.listener_fd = listener_fd,
		.deaf.on_due = on_deaf_over,
		.deferred.free = free_door,
		.patience_ms = DOOR_PATIENCE_MS,
		.service = service,
		.ops = ops,
		.owner = owner,
	};
	r = loop_add(loop, &door->source, listener_fd, LOOP_READ);
	if (r < 0) {
		close(listener_fd);
		free(door);
		return r;
	}
	*ret_door = door;
	return 0;
}

void door_pause(struct door *door)
{
	loop_cancel(door->loop, &door->deaf);
	loop_remove(door->loop, &door->source);
}

int door_resume(struct door *door)
{
	return loop_add(door->loop, &door->source, door->listener_fd, LOOP_READ);
}

void door_stop_listening(struct door *door)
{
	door_pause(door);
	close_fd(&door->listener_fd);
}

size_t door_count_callers(const struct door *door)
{
	return door->caller_count;
}

void door_close(struct door *door)
{
	while (door->oldest)
		leave(door->oldest);
	door_stop_listening(door);
	loop_defer(door->loop, &door->deferred);
}

void door_set_patience(struct door *door, uint64_t patience_ms)
{
	door->patience_ms = patience_ms;
}

void door_set_service(struct door *door, struct tls_service *service)
{
	door->service = service;
}

void *door_owner(const struct door *door)
{
	return door->owner;
}

const struct door_counts *door_counts(const struct door *door)
{
	return &door->counts;
}

void door_turn_away(struct stream *stream, const char *why)
{
	struct link_notice notice = { '!', bytes_cut(bytes_of(why), ERR_TEXT_MAX) };
	struct buf out;
	ssize_t n;

	buf_init(&out, LINK_HEAD_MAX);
	link_write_notice(&out, &notice);
	/* Nothing was sent before: there is room for it, or nobody who would read it. */
	n = stream_write(stream, out.data, out.len);
	(void)n;
	stream_close(stream);
	buf_fini(&out);
}
