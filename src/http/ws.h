/* SPDX-License-Identifier: MIT */
/*
 * The frames of WebSocket (RFC 6455), read and written: bytes in, events out; no input or output
 * of its own, no policy. No extension is ever agreed on, so a frame says what it means.
 *
 * A payload is never collected: it comes out as it comes in, and goes out in frames of its own
 * making, because what stands between may change its length. Only control frames, which are
 * small, come out whole; they may come between the pieces of a message.
 *
 * Whether a text message is UTF-8 is left to the one who gets it: nothing here depends on it.
 */
#ifndef HTTP_WS_H
#define HTTP_WS_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/bytes.h"

#define WS_KEY_LEN     4
#define WS_HEAD_MAX    14 /* with the longest length, and a key */
#define WS_CONTROL_MAX 125
#define WS_PIECE_MAX   16384 /* of a payload that is masked; others are views of the input */

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

/* Codes of close frames (RFC 6455 7.4.1), those that are said here. */
enum ws_code {
	WS_CODE_NORMAL = 1000,
	WS_CODE_GOING_AWAY = 1001,
	WS_CODE_PROTOCOL = 1002,
	WS_CODE_NONE = 1005, /* a close frame without one; it is never sent */
	WS_CODE_BAD_DATA = 1007,
	WS_CODE_POLICY = 1008,
	WS_CODE_TOO_BIG = 1009,
	WS_CODE_INTERNAL = 1011,
};

enum ws_fault {
	WS_FAULT_NONE,
#define WS_FAULT(name, close, code, text, rule) WS_FAULT_##name,
#include "http/ws_fault.def"
#undef WS_FAULT
};

struct ws_fault_info {
	enum ws_code close;
	const char *code; /* for programs */
	const char *text; /* for people */
	const char *rule;
};

/* Of any fault but WS_FAULT_NONE. */
const struct ws_fault_info *ws_fault_info(enum ws_fault fault);

/* ---- reading ---- */

enum ws_state {
	WS_STATE_HEAD,    /* collecting a frame's head, or before one */
	WS_STATE_DATA,    /* `left` bytes of a message's payload */
	WS_STATE_CONTROL, /* collecting `left` more bytes of a control frame */
	WS_STATE_FAULT,   /* nothing more is read */
};

enum ws_event {
	WS_NEEDS_MORE, /* everything was taken in */
	WS_FRAME,      /* a frame of a message begins */
	WS_DATA,       /* the next piece of its payload; never empty */
	WS_CONTROL,    /* a ping, pong or close */
	WS_BROKEN,     /* reader->fault says why */
};

/*
 * What an event brings. Its view lasts until the next call, or until the input is gone, so one
 * result serves all connections.
 */
struct ws_result {
	enum ws_opcode opcode; /* WS_TEXT or WS_BINARY: of the message; or that of WS_CONTROL */
	bool is_first;         /* WS_FRAME: the message begins */
	bool is_fin;           /* WS_FRAME: no other frame of it follows */
	bool is_end;           /* WS_FRAME, WS_DATA: nothing more of it follows; said once */
	uint64_t length;       /* WS_FRAME: of this frame's payload */
	struct bytes data;     /* WS_DATA, WS_CONTROL: payload, unmasked */
	enum ws_code code;     /* WS_CONTROL with WS_CLOSE: any that is valid, or WS_CODE_NONE */
	char space[WS_PIECE_MAX];
};

struct ws_reader {
	enum ws_state state;
	bool is_client;         /* it reads what a client sends */
	bool is_in_message;     /* a frame that is not the last one has begun */
	bool is_fin;            /* of this frame */
	bool has_closed;        /* a close frame was read */
	enum ws_opcode opcode;  /* of this frame */
	enum ws_opcode message; /* of the message that it belongs to */
	enum ws_fault fault;
	size_t head_len, head_size;
	unsigned char head[WS_HEAD_MAX];
	unsigned char key[WS_KEY_LEN];
	uint64_t length, left; /* of this frame's payload */
	char control[WS_CONTROL_MAX];
};

/* Nothing is ever allocated for it. */
void ws_reader_init(struct ws_reader *reader, bool is_client);

/*
 * Takes from the front of *input what the next event needs, which is never nothing: to be called
 * as long as there is input. After a close frame pings and pongs may still follow.
 */
enum ws_event ws_read(struct ws_reader *reader, struct bytes *input, struct ws_result *result);

/* A close frame was read, and no other frame has begun: the connection may end. */
bool ws_reader_is_over(const struct ws_reader *reader);

/* ---- writing ---- */

/*
 * The head of a frame into `text`, of WS_HEAD_MAX bytes; returns its length. A client gives a key
 * that nobody could guess, a new one for each frame (RFC 6455 5.3); a server gives NULL.
 */
size_t ws_format_head(char *text, enum ws_opcode opcode, bool is_fin, const unsigned char *key,
		      uint64_t length);

/* Masks, or unmasks, what is `offset` bytes behind a frame's head. `to` may be where it is. */
void ws_mask(char *to, struct bytes from, const unsigned char *key, uint64_t offset);

/* A whole frame. -E2BIG when `out` has no room for it: then nothing of it was written. */
int ws_write_frame(struct buf *out, enum ws_opcode opcode, bool is_fin, const unsigned char *key,
		   struct bytes payload) must_check;

/* Any code but WS_CODE_NONE goes into the frame. As ws_write_frame. */
int ws_write_close(struct buf *out, enum ws_code code, const unsigned char *key) must_check;

/* A message that is written as it comes; zero before the first one. */
struct ws_writer {
	bool is_in_message;
};

/*
 * The next frame of a message, or its last one, which may be empty; nothing when there is nothing
 * to say. Control frames may be written in between. As ws_write_frame.
 */
int ws_write_piece(struct ws_writer *writer, struct buf *out, enum ws_opcode opcode, bool is_end,
		   const unsigned char *key, struct bytes payload) must_check;

#endif
