/* SPDX-License-Identifier: MIT */
/*
 * An exchange: one request and its reply, between a gate and an upstream.
 *
 *   HOLD ──▶ RESERVE ──▶ DECIDED ──▶ DIAL ──▶ RELAY ──▶ (gone)
 *     │         │           │         │        │
 *     └─────────┴───────────┴─────────┴────────┴─ refused, failed or given up ──▶ (gone)
 *
 * Bodies move within credit on both sides: what the upstream has not taken is not granted to
 * the gate again, and no more is read from the upstream than the gate has granted. So what an
 * exchange can hold is limited by two numbers, LINK_CREDIT_FIRST and KEEPER_INPUT_SIZE.
 */
#ifndef KEEPER_EXCHANGE_H
#define KEEPER_EXCHANGE_H

#include "keeper/attribution.h"
#include "keeper/cost.h"
#include "keeper/grpc.h"
#include "keeper/json_edit.h"
#include "keeper/peer.h"
#include "keeper/recode.h"
#include "keeper/refusal.h"
#include "keeper/substitute.h"
#include "keeper/websocket.h"

/* A body up to this size is read whole before it is sent, where it must be looked into. */
#define EXCHANGE_HOLD_MAX LINK_CREDIT_FIRST

#define EXCHANGE_CALL_ID_MAX 80

enum exchange_state {
	EXCHANGE_HOLD,    /* its body decides, or its edited length must be known */
	EXCHANGE_RESERVE, /* the store is asked when its run began, and whether there is room */
	EXCHANGE_DECIDED, /* its record is to be written at the end of the turn */
	EXCHANGE_DIAL,    /* a connection is being made */
	EXCHANGE_RELAY,   /* request and reply are under way */
	EXCHANGE_OVER,    /* freed at the end of the turn */
};

/* What is needed only while the request's body comes in. */
struct exchange_body {
	struct json_edit edit;
	bool is_by_model; /* its model has chosen the upstream */
	bool is_edited;   /* members are removed; else it is only read for its model */
	char *open;       /* HOLD: the payload of OPEN, until the head can be written */
	size_t open_len;
	struct buf held; /* HOLD: the body, edited */
};

struct exchange {
	struct loop_deferred deferred; /* first: freed at the end of a turn */
	struct peer *peer;
	struct run *run;     /* whose it is; NULL until that is known */
	struct terms *terms; /* ... and the terms that it was judged by, a use of them */
	uint32_t id;
	enum exchange_state state;
	struct exchange *next_decided, *next_dirty;
	struct upstream *upstream; /* once there is a route */
	struct origin *origin;     /* RELAY */
	struct h2_stream *stream;  /* ... of an origin with HTTP/2, until it is closed */
	struct connect *connect;   /* DIAL */
	struct tls_handshake *handshake;
	struct loop_timer timer; /* of the upstream's silence */
	struct exchange_body *body;
	struct buf
		request; /* bytes for the upstream: before RELAY the head, then the body as it is */
	size_t request_start;
	size_t head_len;    /* of the head in there, while it may be needed again */
	struct buf coded;   /* of the reply's body: what has come and waits for credit */
	struct buf trailer; /* ... and what follows it, as lines */
	struct scrub scrub;
	const struct scrub_set *scrubs; /* what is taken out of the reply, or NULL */
	struct substitute *substitute;  /* of the request's body, or NULL */
	enum syntax syntax;             /* ... how it is written */
	struct recode *recode;          /* ... how it is encoded, or NULL */
	struct decoder *decoder;        /* of the reply's body, or NULL */
	struct grpc grpc;               /* ... of messages with a prefix */
	struct cost cost;
	uint32_t credit;                /* bytes of the reply that the gate takes */
	uint32_t kept_credit;           /* ... and takes, too, while its limits have no room */
	uint32_t granted;               /* bytes of the request that the gate may send */
	uint32_t owed;                  /* ... that it has sent, and that are to be granted again */
	int status;                     /* of the reply; 0: none yet */
	uint64_t body_left;             /* of a request whose length was declared */
	struct store_reservation *hold; /* what it has of its limits, or NULL */
	char *method_path;              /* RESERVE: for the record; a NUL between them */
	uint64_t retry_s;               /* for a refusal: when it might be allowed; or 0 */
	struct budget_host *account; /* of the host that it goes to, or NULL: nothing is counted */
	unsigned int interim_count, restart_count;
	uint64_t bound;              /* mask of the secrets that may go where it goes */
	struct websocket *websocket; /* it is to become that, or has; or NULL */
	uint64_t start_ms, first_byte_ms, last_ms; /* last_ms: when something moved */
	uint64_t sent_bytes, received_bytes;
	char *label;      /* method and path, with -v only */
	const char *rule; /* that decided, of the policy; or NULL */
	char *place;      /* host:port as it was asked for, owned; NULL: the LLM */
	const char *hint; /* for a refusal, or NULL */
	bool has_length, is_grpc;
	bool has_decoded;                   /* there is more in the decoder than was taken */
	bool was_sent;                      /* the upstream may have seen of it */
	bool is_events;                     /* the reply is a stream of events */
	char tail[2];                       /* ... and how what was passed on of it ends */
	bool is_cut;                        /* by us, while it was under way */
	bool is_dirty, is_head, is_chunked; /* ... of the request as it goes out */
	bool is_request_over, is_reply_begun;
	bool is_tunnel;         /* bytes that nobody looks into */
	bool is_reply_over;     /* of a tunnel: the host has said all */
	bool is_reply_complete; /* ... and what is not passed on yet waits for credit */
	bool has_write_failed;  /* the upstream is gone, whatever reading it says */
	bool may_reuse;         /* the connection, by the reply's head */
	bool finds_cost;        /* the reply is to be searched for one */
	char model[JSON_EDIT_MODEL_MAX + 1];
	char call_id[EXCHANGE_CALL_ID_MAX + 1];
};

/* ---- request.c: what the gate sends ---- */

/* A request begins. -EPROTO when the message is no request. */
int exchange_open(struct peer *peer, uint32_t id, struct bytes payload, uint64_t now_ms) must_check;
/* -EPROTO when more comes than was granted or declared, or less. */
int exchange_on_data(struct exchange *exchange, struct bytes data, uint64_t now_ms) must_check;
int exchange_on_end(struct exchange *exchange, uint64_t now_ms) must_check;

/* ---- reply.c: what the upstream sends ---- */

/* WebSocket ends because of us: a frame says so. */
void exchange_close_websocket(struct exchange *exchange, enum refusal refusal);

/* A tunnel is connected: the gate is told so. */
void exchange_begin_tunnel(struct exchange *exchange, uint64_t now_ms);

/*
 * What the wire brings. Data that finds no credit waits in `coded`, and exchange_on_reply_room
 * goes on with it. The trailer may be NULL. Any of them may end the exchange.
 */
void exchange_on_reply_head(struct exchange *exchange, const struct http_head *head,
			    uint64_t now_ms);
void exchange_on_reply_data(struct exchange *exchange, struct bytes data, uint64_t now_ms);
void exchange_on_reply_end(struct exchange *exchange, const struct http_head *trailer,
			   uint64_t now_ms);
void exchange_on_reply_room(struct exchange *exchange, uint64_t now_ms);

/* How much of what a tunnel has brought the gate takes now. */
size_t exchange_may_take(const struct exchange *exchange, size_t len);

/* Whether something of the reply waits for credit. */
static inline bool exchange_holds_reply(const struct exchange *exchange)
{
	return exchange->coded.len > 0 || exchange->has_decoded;
}

/* The gate takes so much more: what had to wait goes on. */
void exchange_on_credit(struct exchange *exchange, uint32_t credit, uint64_t now_ms);

/* ---- exchange.c ---- */

/*
 * It may go on as far as rules are concerned: what it may use is asked for. Its record is added
 * then, and it goes on when that is written.
 */
void exchange_allow(struct exchange *exchange, struct bytes method, struct bytes path,
		    uint64_t now_ms);

/* The store has said when its run began, or why not; it is asked for the rest. */
void exchange_on_time(struct exchange *exchange, enum store_verdict verdict, uint64_t now_ms);

/* The store has answered. */
void exchange_on_reserved(struct exchange *exchange, uint64_t now_ms);

/* It has answered how much more there is: what had to wait for it goes on. */
void exchange_on_room(struct exchange *exchange, uint64_t now_ms);

/* Its limits have no more for it: it is cut off, with what the store has said. */
void exchange_run_out(struct exchange *exchange, const struct store_reservation *asked,
		      uint64_t now_ms);

/* What was allowed is not any more: it ends where it is, and says why as far as it can. */
void exchange_cut(struct exchange *exchange, enum refusal refusal, uint64_t now_ms);

/* It is refused before anything has gone out; `method` and `path` for the record. */
void exchange_refuse(struct exchange *exchange, enum refusal refusal, struct bytes method,
		     struct bytes path, uint64_t now_ms);

/* The records are written: dials, or uses a connection that waits. */
void exchange_start(struct exchange *exchange, uint64_t now_ms);

/* The records could not be written. */
void exchange_give_up(struct exchange *exchange, uint64_t now_ms);

/* The upstream has failed: an error for the agent, or the end of its connection. */
void exchange_fail(struct exchange *exchange, enum refusal refusal, const char *detail,
		   uint64_t now_ms);

/* The reply is complete. */
void exchange_finish(struct exchange *exchange, uint64_t now_ms);

/* The gate has given it up, or is gone. */
void exchange_cancel(struct exchange *exchange, const char *why, uint64_t now_ms);

/* The upstream has not even looked at it: it is made again, on another connection. */
void exchange_restart(struct exchange *exchange, uint64_t now_ms);

/* There is something to send to the upstream, at the end of the turn. */
void exchange_mark_dirty(struct exchange *exchange);
void exchange_flush(struct exchange *exchange, uint64_t now_ms);

/* What is in `request` has been sent: it held the key. */
void exchange_wipe_request(struct exchange *exchange);

/* The upstream has taken everything: the gate may send as much more. */
void exchange_grant(struct exchange *exchange);

#endif
