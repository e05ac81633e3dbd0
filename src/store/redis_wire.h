/* SPDX-License-Identifier: MIT */
/*
 * A connection to Redis that is made again whenever it is lost; the only place that knows
 * hiredis. Commands are answered in the order in which they were sent, each within
 * STORE_ANSWER_MS, or the connection is given up, and all that were under way are lost with it:
 * nobody knows whether they were done.
 */
#ifndef STORE_REDIS_WIRE_H
#define STORE_REDIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "event/loop.h"
#include "store/redis_url.h"

struct redis_wire;

/* What was answered; lives while on_reply runs. */
struct redisReply;

/* One that is under way; a part of whatever sent it. */
struct redis_command {
	struct redis_command *next;
	uint64_t due_ms;
	/* Once; `reply` is NULL when the command was lost. It may free the command. */
	void (*on_reply)(struct redis_command *command, const struct redisReply *reply,
			 uint64_t now_ms);
};

struct redis_wire_events {
	/* Connected, with nothing said yet. */
	void (*on_up)(void *owner, uint64_t now_ms);
	/* Not connected, or not any more; before the commands that are lost are told. */
	void (*on_down)(void *owner, const char *why, uint64_t now_ms);
};

/*
 * Dials at the loop's next turn, never from here. Where it fails it waits from 100 ms to 5 s,
 * longer each time until redis_wire_praise is called. `url` is borrowed.
 */
struct redis_wire *redis_wire_new(struct loop *loop, const struct redis_url *url,
				  const struct redis_wire_events *events, void *owner);

/* Without a further call; commands under way must have been lost (redis_wire_give_up). */
void redis_wire_free(struct redis_wire *wire);

/* While it is up. Goes out with the next redis_wire_flush. */
void redis_wire_send(struct redis_wire *wire, struct redis_command *command,
		     const struct bytes *words, size_t count, uint64_t now_ms);
void redis_wire_flush(struct redis_wire *wire, uint64_t now_ms);

/* Ends the connection because of what was answered; a new one follows after a while. */
void redis_wire_give_up(struct redis_wire *wire, const char *why, uint64_t now_ms);

/* It is of use: the next failure is the first one again. */
void redis_wire_praise(struct redis_wire *wire);

/* ---- answers ---- */

/* Its text when it is an error, else no bytes. */
struct bytes redis_reply_error(const struct redisReply *reply);

/* Of a list the member `i`, of anything else itself: as a text, "" when it is none. */
struct bytes redis_reply_text(const struct redisReply *reply, size_t i);

/* The same as a number, from digits as well; what is none is 0, what is too large UINT64_MAX. */
uint64_t redis_reply_number(const struct redisReply *reply, size_t i);

/* How many members it has. */
size_t redis_reply_count(const struct redisReply *reply);

#endif
