/* SPDX-License-Identifier: MIT */
/*
 * The door of a keeper that other machines reach: a listener, TLS, and the token that each caller
 * has to show first. Who may come in with which token is not decided here; until then a caller
 * costs a descriptor and a handshake, for a few seconds, and there is a place for so many of them.
 * When all are taken, the one that has been at it for longest goes: whoever is honest is through in
 * a moment.
 */
#ifndef KEEPER_DOOR_H
#define KEEPER_DOOR_H

#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/err.h"
#include "event/loop.h"
#include "net/stream.h"
#include "tls/service.h"

#define DOOR_CALLERS_MAX 256
#define DOOR_PATIENCE_MS 5000 /* for the handshake, and then again for the token */

struct door;

struct door_ops {
	/*
	 * Somebody has shown a token, whose text has the form of a line of at most LINK_TOKEN_MAX
	 * bytes and lives until this returns. The stream is the callee's to copy; what comes on it
	 * is what follows the token. `from` is "ADDRESS:PORT".
	 */
	void (*on_token)(struct door *door, struct stream *stream, struct bytes token,
			 const char *from, uint64_t now_ms);
	/* Somebody did not come so far: why, for the log. `err` names the address. May be NULL. */
	void (*on_failed)(struct door *door, const struct err *err, uint64_t now_ms);
};

struct door_counts {
	uint64_t callers; /* ever */
	uint64_t shown;   /* tokens */
	uint64_t failed;  /* and those who did not show one */
};

/*
 * Takes a listening socket that does not block. The service is borrowed until the door is closed or
 * has another. 0 or -errno, and then the descriptor is closed.
 */
int door_open(struct loop *loop, int listener_fd, struct tls_service *service,
	      const struct door_ops *ops, void *owner, struct door **ret_door) must_check;

/*
 * Whoever is still at the door is sent away; on_failed is not called for them. May be called in a
 * callback; the memory goes at the end of the turn.
 */
void door_close(struct door *door);

/*
 * Nobody new is let in for a while, or for good, which closes the listener; whoever is at the door
 * already is not disturbed.
 */
void door_pause(struct door *door);
int door_resume(struct door *door) must_check;
void door_stop_listening(struct door *door);

/* How many are at the door. */
size_t door_count_callers(const struct door *door);

/* Callers from now on see another certificate; those who are at it are not disturbed. */
void door_set_service(struct door *door, struct tls_service *service);

/* Instead of DOOR_PATIENCE_MS: for tests. */
void door_set_patience(struct door *door, uint64_t patience_ms);

void *door_owner(const struct door *door);
const struct door_counts *door_counts(const struct door *door);

/* Tells a caller why its token does not open anything, and closes. */
void door_turn_away(struct stream *stream, const char *why);

#endif
