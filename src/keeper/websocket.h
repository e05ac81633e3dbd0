/* SPDX-License-Identifier: MIT */
/*
 * WebSocket between an agent and a host: frames are read on either side and written anew towards
 * the other. Placeholders in the text messages of the agent become secrets, where they may; what
 * the host sends is searched for secrets, message by message.
 *
 * Only whole frames are written, so that one of our own can be put in at any time: a refusal is a
 * close frame that says why.
 */
#ifndef KEEPER_WEBSOCKET_H
#define KEEPER_WEBSOCKET_H

#include "http/ws.h"
#include "keeper/scrub.h"
#include "keeper/substitute.h"
#include "tls/ws_key.h"

/* What the frames of a piece may need beyond what came in; see websocket_read_origin. */
#define WEBSOCKET_RESERVE 4096
#define WEBSOCKET_PIECE   16384

struct websocket {
	struct ws_reader from_agent, from_origin;
	struct ws_writer to_agent, to_origin;
	const struct substitute_set *substitutes;
	uint64_t bound;               /* the secrets that may go there */
	struct substitute substitute; /* of the agent's message under way */
	bool has_syntax;              /* ... of which something has been seen */
	const struct scrub_set *scrubs;
	struct scrub scrub;  /* of the host's */
	struct buf gathered; /* the payload of the frame to be written; empty between calls */
	char key[WS_KEY_TEXT_LEN + 1];
};

struct websocket *websocket_new(const struct substitute_set *substitutes, uint64_t bound,
				const struct scrub_set *scrubs);
void websocket_free(struct websocket *websocket);

/* Whether the reply to our key is the one that belongs to it. */
bool websocket_is_accepted(const struct websocket *websocket, struct bytes accept);

/*
 * Frames of the agent for the host. 0, -EPROTO (no frames), -EPERM (a placeholder that may not be
 * there) or -E2BIG (`out` has no room).
 */
int websocket_read_agent(struct websocket *websocket, struct bytes data,
			 struct buf *out) must_check;

/*
 * Frames of the host for the agent: of WEBSOCKET_PIECE bytes at most, and what was held back, no
 * more comes out than went in, but for WEBSOCKET_RESERVE. 0, -EPROTO or -E2BIG.
 */
int websocket_read_origin(struct websocket *websocket, struct bytes data,
			  struct buf *out) must_check;

/* A frame of our own that ends it, for the agent. */
void websocket_write_close(enum ws_code code, struct buf *out);

#endif
