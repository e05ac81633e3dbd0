/* SPDX-License-Identifier: MIT */
/*
 * The HTTP/1 reader: bytes in, events out; no input or output of its own, no policy.
 *
 * It holds what it must and no more: the head while it is incomplete, a few numbers in a
 * body. A body is never collected: its bytes come out as views of what came in. What is
 * large, the parsed head, is the caller's, who needs it only until the next call and so
 * one for all connections.
 */
#ifndef HTTP_H1_READ_H
#define HTTP_H1_READ_H

#include "base/buf.h"
#include "http/head.h"

enum h1_state {
	H1_STATE_HEAD,       /* collecting the head */
	H1_STATE_BODY,       /* `left` bytes of a body with a length */
	H1_STATE_BODY_CLOSE, /* a body up to the end of the connection */
	H1_STATE_CHUNK_LINE, /* collecting the line with a chunk's size */
	H1_STATE_CHUNK_DATA, /* `left` bytes of a chunk */
	H1_STATE_CHUNK_END,  /* the CRLF after a chunk */
	H1_STATE_TRAILER,    /* collecting the trailer */
	H1_STATE_OVER,       /* the message is complete */
	H1_STATE_FAULT,      /* nothing more is read */
};

enum h1_event {
	H1_NEEDS_MORE, /* everything was taken in */
	H1_HEAD,       /* the head is there */
	H1_DATA,       /* the next piece of the body */
	H1_END,        /* the message is complete; the head's fields are its trailer now */
	H1_BROKEN,     /* reader->fault says why */
};

/* What an event brings. Its views last until the next call, or until the input is gone. */
struct h1_result {
	struct bytes data;
	struct http_head head;
};

struct h1_reader {
	enum h1_state state;
	bool is_reply;
	bool answers_head; /* a reply to HEAD has no body, whatever it says */
	bool has_skipped;  /* the one empty line that may precede a request */
	bool is_text_used; /* by the views of the last event */
	bool is_extension; /* in a chunk's size line: behind the size */
	bool has_cr;       /* in a chunk's size line: at its end */
	enum http_fault fault;
	struct buf text; /* of a head or trailer that is incomplete */
	size_t line_len; /* of the current line while collecting, to find its end */
	uint64_t left;
};

void h1_reader_init(struct h1_reader *reader, bool is_reply);
void h1_reader_fini(struct h1_reader *reader);

/* Forgets a message that is over, for the next one on the connection. */
void h1_reader_next(struct h1_reader *reader);

/* Takes from the front of *input what the next event needs. */
enum h1_event h1_read(struct h1_reader *reader, struct bytes *input, struct h1_result *result);

/*
 * The connection has ended: H1_END when that ends the message, H1_BROKEN when it is cut
 * short, H1_NEEDS_MORE when there is no message.
 */
enum h1_event h1_read_end(struct h1_reader *reader);

#endif
