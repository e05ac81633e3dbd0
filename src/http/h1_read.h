/* SPDX-License-Identifier: MIT */
/*
 * The HTTP/1 reader: bytes in, events out; no input or output of its own, no policy.
 *
 * The head is collected until it is whole, because views of it live as long as the
 * exchange. A body is never collected: its bytes come out as views of what came in.
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
	H1_HEAD,       /* reader->head is there */
	H1_DATA,       /* *ret_data is the next piece of the body */
	H1_END,        /* the message is complete; reader->trailer, too */
	H1_BROKEN,     /* reader->fault says why */
};

struct h1_reader {
	enum h1_state state;
	bool is_reply;
	bool has_skipped;    /* the one empty line that may precede a request */
	struct bytes method; /* of the request, for a reply */
	struct buf text;     /* what is being collected, and then the head's own bytes */
	struct buf trailer_text;
	size_t line_len; /* of the current line while collecting, to find its end */
	struct http_head head;
	struct http_head trailer; /* fields only */
	uint64_t left;
	enum http_fault fault;
};

void h1_reader_init(struct h1_reader *reader, bool is_reply);
void h1_reader_fini(struct h1_reader *reader);

/* Forgets a message that is over, for the next one on the connection. */
void h1_reader_next(struct h1_reader *reader);

/* Takes from the front of *input what the next event needs. */
enum h1_event h1_read(struct h1_reader *reader, struct bytes *input, struct bytes *ret_data);

/*
 * The connection has ended: H1_END when that ends the message, H1_BROKEN when it is cut
 * short, H1_NEEDS_MORE when there is no message.
 */
enum h1_event h1_read_end(struct h1_reader *reader);

#endif
