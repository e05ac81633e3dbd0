/* SPDX-License-Identifier: MIT */
/*
 * HTTP/2 by nghttp2, for both sides: bytes in, events out; no input or output of its own, no
 * policy. nghttp2 does frames, HPACK, windows and the order of messages; what a head may say
 * is decided here, in the words of head.h, so that whoever reads HTTP/1 reads this too.
 *
 * How to drive it
 *
 *	h2_read()	with what was received: on_head, on_data, on_end and on_fault come out of it
 *	h2_pending()	what is to be written, after anything else was called, until there is no
 *			more: on_writable and on_close come out of it
 *	h2_sent()	with how much of that was written
 *	h2_is_over()	and nothing pending: the connection is to be closed
 *
 * While h2_is_full(), nothing is to be read: the peer does not take what it is sent, and every
 * frame of it may need an answer. When the connection is lost, h2_free() says so to each stream.
 *
 * A stream is announced by on_head or on_fault, or made by h2_request(), and from then on is the
 * owner's to name until on_close has returned; on_close comes exactly once. Calls for a stream
 * that is over do nothing. In a callback every call may be made but h2_read, h2_pending and
 * h2_free.
 *
 * A body goes out as far as the peer's windows and H2_OUT_MAX allow: h2_send_data() says how much
 * it has taken, and on_writable when it may take more. Within h2_read it takes nothing, because
 * nghttp2 does not write while it reads, so on_writable follows with the next h2_pending().
 *
 * A body comes in as views of the input. The owner gives back what it has taken by h2_consume();
 * it holds at most the window that was given to h2_new for each stream. One that does not move
 * does not hold up the others.
 */
#ifndef HTTP_H2_H
#define HTTP_H2_H

#include "http/head.h"

/* Error codes (RFC 9113 7), as h2_reset takes and on_close gives them. */
enum h2_code {
	H2_NO_ERROR = 0,
	H2_PROTOCOL_ERROR = 1,
	H2_INTERNAL_ERROR = 2,
	H2_REFUSED_STREAM = 7, /* it was not processed: the request may be made again */
	H2_CANCEL = 8,
	H2_CONNECT_ERROR = 10,
	H2_ENHANCE_YOUR_CALM = 11,
	H2_HTTP_1_1_REQUIRED = 13,
};

struct h2;

struct h2_stream {
	struct h2 *h2;
	void *exchange; /* the owner's */
	int32_t id;

	/* from here on the codec's */
	struct h2_stream *previous, *next, *next_due;
	struct bytes data;   /* in h2_send_data: what is not taken yet */
	struct bytes chunk;  /* the part of it that is in the frame being made */
	uint64_t discarded;  /* bytes of a request that came after its reply */
	size_t unconsumed;   /* bytes that the owner was given and has not given back */
	bool is_announced;   /* the owner knows it */
	bool has_head;       /* the peer's final one has been seen */
	bool is_faulty;      /* nothing more of the peer's message is passed on */
	bool is_peer_over;   /* its message is complete */
	bool is_reply_begun; /* a final head was sent */
	bool is_ending;      /* the end follows what is in `data` */
	bool is_own_over;    /* the end was taken */
	bool is_blocked;     /* the owner waits for on_writable */
	bool is_reset;       /* by the owner */
	bool is_due;         /* in the list of those that are to be told something */
	bool is_closed;      /* for nghttp2; on_close is due */
	enum h2_code code;
};

struct h2_callbacks {
	/*
	 * A request, or a reply; 1xx ones may precede it. framing is LENGTH, NONE when the
	 * message ends here, else CHUNKED: up to on_end. The head lasts until it returns.
	 * Pieces of a cookie are joined; no field is named by a pseudo field.
	 */
	void (*on_head)(void *owner, struct h2_stream *stream, const struct http_head *head,
			bool is_end);
	void (*on_data)(void *owner, struct h2_stream *stream, struct bytes data);
	/* Not after on_head with is_end. The trailer has no fields when there was none. */
	void (*on_end)(void *owner, struct h2_stream *stream, const struct http_head *trailer);
	/*
	 * The peer's message cannot be passed on; nothing more of it comes. A request can still
	 * be answered by h2_send_reply, unless what is wrong with it is FAULT_MESSAGE; a reply
	 * was reset. The head is as far as it is known.
	 */
	void (*on_fault)(void *owner, struct h2_stream *stream, enum http_fault fault,
			 const struct http_head *head);
	/* h2_send_data takes more, after it has taken less than it was given. */
	void (*on_writable)(void *owner, struct h2_stream *stream);
	/*
	 * It is over, or was ended by either side. A message that is incomplete by then stays
	 * so, also with H2_NO_ERROR.
	 */
	void (*on_close)(void *owner, struct h2_stream *stream, enum h2_code code);
};

struct h2_options {
	bool is_server;
	bool has_extended_connect; /* a server's: RFC 8441 is offered; head->protocol names it */
	uint32_t window;           /* of a stream: what the owner may have to hold; 0: H2_WINDOW */
};

/* A head that is to be sent. Hop-by-hop fields, host and content-length among its fields are
 * passed over; framing is never copied. */
struct h2_message {
	/* of a request */
	struct bytes method;
	struct bytes scheme;
	struct bytes host;
	struct bytes path;     /* with query; empty for CONNECT without a protocol */
	struct bytes protocol; /* of extended CONNECT, or empty */
	/* of a reply */
	int status;
	/* of both */
	bool has_length; /* a content-length is sent */
	uint64_t length;
	size_t field_count;
	const struct http_field *fields;
};

struct h2 *h2_new(const struct h2_options *options, const struct h2_callbacks *callbacks,
		  void *owner);

/* Calls on_close for each stream that is not over. NULL is fine. */
void h2_free(struct h2 *h2);

/*
 * Takes everything in. 0, or -EPROTO when the peer broke the rules of the connection or -EDQUOT
 * when it asked for too much: what is pending may be written, then the connection is to end.
 */
int h2_read(struct h2 *h2, struct bytes input, uint64_t now_ms) must_check;

/* What is to be written; lasts until the next call for this connection. */
struct bytes h2_pending(struct h2 *h2);
void h2_sent(struct h2 *h2, size_t len);

/* So much is pending that nothing is to be read before some of it is written. */
bool h2_is_full(const struct h2 *h2);

/* Nothing more will be read: it was shut down by either side, and the last stream is over. */
bool h2_is_over(const struct h2 *h2);

/* No new streams; those that are there go on. */
void h2_shutdown(struct h2 *h2);

/* Whether a client may open a stream now: the peer goes on, and has room for it. */
bool h2_may_request(const struct h2 *h2);
size_t h2_stream_count(const struct h2 *h2);

/*
 * Sends the head of a request; NULL when it cannot be sent any more, or is larger than the
 * limits. The peer may still refuse it: on_close with H2_REFUSED_STREAM.
 */
struct h2_stream *h2_request(struct h2 *h2, const struct h2_message *message, void *exchange,
			     bool is_end);

/*
 * Sends the head of a reply, 1xx or final. -EMSGSIZE when it is larger than the limits, and
 * nothing was sent. After the end of a reply nothing more of its request is passed on.
 */
int h2_send_reply(struct h2_stream *stream, const struct h2_message *message,
		  bool is_end) must_check;

/*
 * How much of the body was taken. When that is everything, the end is as well, if it is the
 * end; when it is not, on_writable or on_close follows.
 */
size_t h2_send_data(struct h2_stream *stream, struct bytes data, bool is_end) must_check;

/* The end, with a trailer. -EMSGSIZE when it is larger than the limits: then it has none. */
int h2_send_trailer(struct h2_stream *stream, const struct http_field *fields, size_t field_count);

/* Ends a stream in disorder; on_close follows. */
void h2_reset(struct h2_stream *stream, enum h2_code code);

/* `len` bytes that on_data brought are taken: the peer may send as many more. */
void h2_consume(struct h2_stream *stream, size_t len);

#endif
