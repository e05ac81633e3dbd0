/* SPDX-License-Identifier: MIT */
/*
 * The connection to Redis.
 *
 *   wait --> dial --> up --> (closed, an error, no answer in time) --> wait
 *
 * Names are looked up and dialled by net/, since hiredis would block for it, and what is sent is
 * sent here, since hiredis would raise SIGPIPE and leave passwords in memory. hiredis writes
 * commands into memory and reads answers.
 */
#include "store/redis_wire.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/die.h"
#include "net/connect.h"
#include "store/store.h"

#define WAIT_FIRST_MS 100
#define WAIT_MOST_MS  5000
#define WORDS_MAX     512
#define WHY_MAX       200
#define OUT_MAX       (64 << 20)
#define NO_LOOP       "the event loop does not take the connection to Redis"

struct redis_wire {
	struct loop *loop;
	const struct redis_url *url;
	const struct redis_wire_events *events;
	void *owner;
	struct net *net;
	struct connect *connect; /* while it is dialled */
	redisContext *context;   /* while it is up */
	struct loop_source source;
	struct loop_timer dial;   /* while it waits */
	struct loop_timer answer; /* about when the first command is due */
	uint64_t wait_ms;
	struct redis_command *first, **end; /* under way */
	struct buf out;                     /* what is still to be sent */
	bool is_cut;                        /* not all of it could be kept */
	struct loop_deferred deferred;
};

/* ---- the end of a connection ---- */

/* What was sent may have been a password. */
static void drop_sent(struct redis_wire *wire, size_t len)
{
	if (len == 0)
		return;
	explicit_bzero(wire->out.data, len);
	buf_keep(&wire->out, (struct bytes){ wire->out.data + len, wire->out.len - len });
}

static void close_connection(struct redis_wire *wire)
{
	if (wire->connect)
		connect_cancel(wire->connect);
	wire->connect = NULL;
	loop_cancel(wire->loop, &wire->answer);
	loop_remove(wire->loop, &wire->source);
	if (wire->context)
		redisFree(wire->context); /* and its descriptor */
	wire->context = NULL;
	drop_sent(wire, wire->out.len);
	wire->is_cut = false;
}

static void lose_commands(struct redis_command *command, uint64_t now_ms)
{
	while (command) {
		struct redis_command *next = command->next;

		command->on_reply(command, NULL, now_ms);
		command = next;
	}
}

void redis_wire_give_up(struct redis_wire *wire, const char *why, uint64_t now_ms)
{
	struct redis_command *lost = wire->first;

	wire->first = NULL;
	wire->end = &wire->first;
	close_connection(wire);
	loop_set_timer(wire->loop, &wire->dial, now_ms + wire->wait_ms);
	wire->wait_ms = wire->wait_ms * 2 < WAIT_MOST_MS ? wire->wait_ms * 2 : WAIT_MOST_MS;
	wire->events->on_down(wire->owner, why, now_ms);
	lose_commands(lost, now_ms);
}

void redis_wire_praise(struct redis_wire *wire)
{
	wire->wait_ms = WAIT_FIRST_MS;
}

static void fail(struct redis_wire *wire, const char *what, const char *why, uint64_t now_ms)
{
	char text[WHY_MAX];

	snprintf(text, sizeof(text), "%s: %s", what, why);
	redis_wire_give_up(wire, text, now_ms);
}

static void on_answer_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct redis_wire *wire = OWNER_OF(timer, struct redis_wire, answer);
	char text[WHY_MAX];

	if (!wire->first)
		return;
	if (wire->first->due_ms > now_ms) {
		loop_set_timer(wire->loop, timer, wire->first->due_ms);
		return;
	}
	snprintf(text, sizeof(text), "Redis did not answer within %d ms", STORE_ANSWER_MS);
	redis_wire_give_up(wire, text, now_ms);
}

/* ---- commands and answers ---- */

void redis_wire_send(struct redis_wire *wire, struct redis_command *command,
		     const struct bytes *words, size_t count, uint64_t now_ms)
{
	const char *data[WORDS_MAX];
	size_t lens[WORDS_MAX];
	char *text = NULL;
	int len;

	assert(wire->context && count <= WORDS_MAX);
	for (size_t i = 0; i < count; i++) {
		data[i] = words[i].data;
		lens[i] = words[i].len;
	}
	len = redisFormatCommandArgv(&text, (int)count, data, lens);
	if (len < 0)
		die_no_memory();
	if (buf_add(&wire->out, text, (size_t)len) < (size_t)len)
		wire->is_cut = true;
	explicit_bzero(text, (size_t)len);
	redisFreeCommand(text);
	command->next = NULL;
	command->due_ms = now_ms + STORE_ANSWER_MS;
	*wire->end = command;
	wire->end = &command->next;
	if (!wire->answer.place)
		loop_set_timer(wire->loop, &wire->answer, command->due_ms);
}

void redis_wire_flush(struct redis_wire *wire, uint64_t now_ms)
{
	unsigned int interest = LOOP_READ;

	if (wire->is_cut) {
		redis_wire_give_up(wire, "there is more to tell Redis than it listens to", now_ms);
		return;
	}
	while (wire->context && wire->out.len > 0) {
		ssize_t n = send(wire->source.fd, wire->out.data, wire->out.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			interest |= LOOP_WRITE;
			break;
		}
		if (n < 0) {
			fail(wire, "write to Redis", strerror(errno), now_ms);
			return;
		}
		drop_sent(wire, (size_t)n);
	}
	if (wire->context && loop_change(wire->loop, &wire->source, interest) < 0)
		redis_wire_give_up(wire, NO_LOOP, now_ms);
}

/* Hands over the answers that are complete; false when the connection is gone. */
static bool tell_answers(struct redis_wire *wire, uint64_t now_ms)
{
	for (;;) {
		struct redis_command *command = wire->first;
		void *reply = NULL;

		if (redisGetReplyFromReader(wire->context, &reply) != REDIS_OK) {
			fail(wire, "what Redis answers", wire->context->errstr, now_ms);
			return false;
		}
		if (!reply)
			return true;
		if (command) {
			wire->first = command->next;
			if (!wire->first)
				wire->end = &wire->first;
			command->on_reply(command, reply, now_ms);
		} else {
			redis_wire_give_up(wire, "Redis says what it was not asked for", now_ms);
		}
		freeReplyObject(reply);
		if (!wire->context)
			return false;
	}
}

static void on_ready(struct loop_source *source, unsigned int ready, uint64_t now_ms)
{
	struct redis_wire *wire = OWNER_OF(source, struct redis_wire, source);

	if (ready & LOOP_READ) {
		if (redisBufferRead(wire->context) != REDIS_OK) {
			fail(wire, "read from Redis", wire->context->errstr, now_ms);
			return;
		}
		if (!tell_answers(wire, now_ms))
			return;
	}
	redis_wire_flush(wire, now_ms);
}

/* ---- dialling ---- */

static void begin(struct redis_wire *wire, int fd, uint64_t now_ms)
{
	wire->context = redisConnectFd(fd);
	if (!wire->context)
		die_no_memory();
	wire->context->flags &= ~REDIS_BLOCK; /* as the descriptor is */
	wire->source = (struct loop_source){ .fd = -1, .on_ready = on_ready };
	if (loop_add(wire->loop, &wire->source, fd, LOOP_READ) < 0) {
		redis_wire_give_up(wire, NO_LOOP, now_ms);
		return;
	}
	wire->events->on_up(wire->owner, now_ms);
	redis_wire_flush(wire, now_ms);
}

static void on_connected(void *owner, int fd, const struct err *err, uint64_t now_ms)
{
	struct redis_wire *wire = owner;

	wire->connect = NULL;
	if (fd < 0)
		redis_wire_give_up(wire, err->text, now_ms);
	else
		begin(wire, fd, now_ms);
}

/* The answer comes at once: unix sockets have a queue, and no way to wait for it. */
static void dial_path(struct redis_wire *wire, uint64_t now_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", wire->url->path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail(wire, wire->url->path, strerror(errno), now_ms);
	else
		begin(wire, take_fd(&fd), now_ms);
}

static void on_dial_due(struct loop_timer *timer, uint64_t now_ms)
{
	struct redis_wire *wire = OWNER_OF(timer, struct redis_wire, dial);

	if (wire->url->path[0])
		dial_path(wire, now_ms);
	else
		wire->connect = connect_start(wire->net, wire->url->host, wire->url->port,
					      STORE_ANSWER_MS, now_ms, on_connected, wire);
}

struct redis_wire *redis_wire_new(struct loop *loop, const struct redis_url *url,
				  const struct redis_wire_events *events, void *owner)
{
	struct redis_wire *wire = calloc(1, sizeof(*wire));

	if (!wire)
		die_no_memory();
	*wire = (struct redis_wire){
		.loop = loop,
		.url = url,
		.events = events,
		.owner = owner,
		.net = net_new(loop),
		.source.fd = -1,
		.dial.on_due = on_dial_due,
		.answer.on_due = on_answer_due,
		.wait_ms = WAIT_FIRST_MS,
		.end = &wire->first,
	};
	buf_init(&wire->out, OUT_MAX);
	loop_set_timer(loop, &wire->dial, 0);
	return wire;
}

static void free_wire(struct loop_deferred *deferred)
{
	free(OWNER_OF(deferred, struct redis_wire, deferred));
}

void redis_wire_free(struct redis_wire *wire)
{
	assert(!wire->first);
	close_connection(wire);
	loop_cancel(wire->loop, &wire->dial);
	net_free(wire->net);
	buf_fini(&wire->out);
	/* It may be an answer that led here. */
	wire->deferred.free = free_wire;
	loop_defer(wire->loop, &wire->deferred);
}

/* ---- what was answered ---- */

struct bytes redis_reply_error(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ? (struct bytes){ reply->str, (size_t)reply->len }
						: (struct bytes){ 0 };
}

static const struct redisReply *member(const struct redisReply *reply, size_t i)
{
	if (reply->type != REDIS_REPLY_ARRAY)
		return i == 0 ? reply : NULL;
	return i < reply->elements ? reply->element[i] : NULL;
}

struct bytes redis_reply_text(const struct redisReply *reply, size_t i)
{
	const struct redisReply *found = member(reply, i);

	if (!found || (found->type != REDIS_REPLY_STRING && found->type != REDIS_REPLY_STATUS))
		return BYTES("");
	return (struct bytes){ found->str, (size_t)found->len };
}

uint64_t redis_reply_number(const struct redisReply *reply, size_t i)
{
	const struct redisReply *found = member(reply, i);
	struct bytes text = redis_reply_text(reply, i);
	uint64_t number = 0;

	if (found && found->type == REDIS_REPLY_INTEGER)
		return found->integer > 0 ? (uint64_t)found->integer : 0;
	for (size_t j = 0; j < text.len; j++) {
		if (text.data[j] < '0' || text.data[j] > '9')
			return 0;
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text.data[j] - '0'), &number))
			return UINT64_MAX;
	}
	return number;
}

size_t redis_reply_count(const struct redisReply *reply)
{
	return reply->type == REDIS_REPLY_ARRAY ? reply->elements : 1;
}
