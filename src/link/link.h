/* SPDX-License-Identifier: MIT */
/*
 * The link between gate and keeper: one stream, one table of message types.
 *
 * One link is one run. The keeper begins: who the run is, where the gate does not look into a
 * connection, and which names there are; the gate listens to nobody before the last of these.
 * Every other message belongs to an exchange, whose number the gate chooses and uses once. Bodies
 * flow within a credit that the receiver grants, so that neither side ever has to hold more than it
 * offered. The keeper trusts nothing in here: whatever it decodes has been checked for form again,
 * because the gate that sent it may no longer be ours.
 *
 * To a keeper on another machine the link goes through a carrier, which begins with the run's
 * token, passes on what the gate and the keeper say to each other as it is, and takes out what the
 * keeper has to say to whoever started the run. None of these messages belongs to an exchange.
 *
 * Layout: type (1), zero (3), exchange (4), payload length (4), payload; little-endian.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "http/head.h"

#define LINK_HEADER_LEN  12
#define LINK_HEAD_MAX    (HTTP_HEAD_MAX + HTTP_TARGET_MAX + 4096)
#define LINK_DATA_MAX    32768
#define LINK_REFUSED_MAX 4096
#define LINK_TUNNELS_MAX 128
#define LINK_NAMES_MAX   64 /* in one message */
#define LINK_TOKEN_MAX   255
#define LINK_VERSION     1 /* of all of this, said by whoever opens a remote link */
/* What each side may send of a body before it is granted more; no grant makes it more than that. */
#define LINK_CREDIT_FIRST 65536

/* Exchanges at once. No two under way may have the same number modulo this. */
#define LINK_EXCHANGES_MAX 16384

enum link_type {
	LINK_NONE,
#define LINK_TYPE(name, from_gate, from_keeper, least, most) LINK_##name,
#include "link/link.def"
#undef LINK_TYPE
};

enum link_side {
	LINK_SIDE_GATE,
	LINK_SIDE_KEEPER,
};

/* ---- reading ---- */

enum link_event {
	LINK_NEEDS_MORE,
	LINK_MESSAGE, /* a whole message: type, exchange, payload */
	/* A piece of DATA, as it arrives: exchange, payload. A carrier has all messages so. */
	LINK_PIECE,
	LINK_BROKEN, /* what came is no message; the link is over */
};

struct link_reader {
	enum link_side from; /* whose messages these are */
	unsigned char header[LINK_HEADER_LEN];
	size_t header_len;
	struct buf payload; /* of everything but DATA */
	enum link_type type;
	uint32_t exchange;
	uint32_t left; /* of the payload */
	bool is_broken;
	/*
	 * What belongs to gate and keeper comes in pieces, headers included, to be copied as it is;
	 * only the messages of the remote link itself are read. Every header is checked all the
	 * same.
	 */
	bool is_carrier;
};

void link_reader_init(struct link_reader *reader, enum link_side from);
void link_reader_fini(struct link_reader *reader);

/* Whether the last byte that was read was the last of a message, or none was. */
static inline bool link_reader_is_between(const struct link_reader *reader)
{
	return reader->header_len == 0 && !reader->is_broken;
}

/* Takes from the front of *input what the next event needs; *ret_payload lives until then. */
enum link_event link_read(struct link_reader *reader, struct bytes *input,
			  struct bytes *ret_payload);

/* ---- what is in OPEN, REPLY and END ---- */

/* What a request is for. */
enum link_kind {
	LINK_KIND_LLM,       /* the LLM endpoint: `host` means nothing */
	LINK_KIND_EGRESS,    /* the host in `host` */
	LINK_KIND_WEBSOCKET, /* the same, to become WebSocket: then bytes to and from it */
	LINK_KIND_TUNNEL,    /* no request at all: bytes to and from that host */
};

struct link_open {
	struct bytes method, host, path; /* host: the authority, as sent */
	uint8_t kind;
	uint8_t is_tls;
	uint8_t minor;
	uint8_t framing; /* enum http_framing: NONE, LENGTH or CHUNKED */
	uint64_t length;
	struct http_field fields[HTTP_FIELDS_MAX];
	size_t field_count;
};

struct link_reply {
	int status;
	uint8_t framing;
	uint64_t length;
	struct bytes reason;
	struct http_field fields[HTTP_FIELDS_MAX];
	size_t field_count;
};

struct link_end {
	struct http_field fields[HTTP_FIELDS_MAX];
	size_t field_count;
};

/*
 * A request or a connection that never became an exchange; the rest as far as it is known.
 * host is an authority with its port.
 */
struct link_refused {
	struct bytes code, method, host, path;
};

/* Hosts of rules: a pattern, and whether anything on it may be allowed. */
struct link_names {
	uint8_t is_deny; /* what is not known does not resolve */
	uint8_t is_last; /* of these messages */
	struct {
		struct bytes pattern;
		uint8_t is_known;
	} names[LINK_NAMES_MAX];
	size_t count;
};

/* What a keeper tells whoever started the run: a packet of sys/status.h. */
struct link_notice {
	char letter;
	struct bytes text;
};

/*
 * Each appends one whole message. Where there is no room for it the buffer is full from then on,
 * and must not be sent: how much another side has to be told at once may be the other side's doing.
 */
void link_write_hello(struct buf *out, struct bytes run_id, uint32_t attempt);
void link_write_tunnels(struct buf *out, const struct bytes *tunnels, size_t count);
void link_write_names(struct buf *out, const struct link_names *names);
void link_write_open(struct buf *out, uint32_t exchange, const struct link_open *open);
void link_write_reply(struct buf *out, uint32_t exchange, const struct link_reply *reply);
void link_write_data(struct buf *out, uint32_t exchange, struct bytes data);
void link_write_end(struct buf *out, uint32_t exchange, const struct link_end *end);
void link_write_credit(struct buf *out, uint32_t exchange, uint32_t credit);
void link_write_abort(struct buf *out, uint32_t exchange);
void link_write_refused(struct buf *out, uint32_t exchange, const struct link_refused *refused);
void link_write_token(struct buf *out, struct bytes token);
/* The text has at most LINK_HEAD_MAX - 1 bytes. */
void link_write_notice(struct buf *out, const struct link_notice *notice);
void link_write_bye(struct buf *out);

/* Each reads a payload whole, or returns -EPROTO: nothing missing, nothing left over. */
int link_parse_hello(struct bytes payload, struct bytes *ret_run_id,
		     uint32_t *ret_attempt) must_check;
int link_parse_tunnels(struct bytes payload, struct bytes *ret_tunnels,
		       size_t *ret_count) must_check; /* LINK_TUNNELS_MAX of them */
int link_parse_names(struct bytes payload, struct link_names *ret_names) must_check;
int link_parse_open(struct bytes payload, struct link_open *ret_open) must_check;
int link_parse_reply(struct bytes payload, struct link_reply *ret_reply) must_check;
int link_parse_end(struct bytes payload, struct link_end *ret_end) must_check;
int link_parse_credit(struct bytes payload, uint32_t *ret_credit) must_check;
int link_parse_refused(struct bytes payload, struct link_refused *ret_refused) must_check;
/* -EPROTONOSUPPORT: of another version than ours. */
int link_parse_token(struct bytes payload, struct bytes *ret_token) must_check;
int link_parse_notice(struct bytes payload, struct link_notice *ret_notice) must_check;

#endif
