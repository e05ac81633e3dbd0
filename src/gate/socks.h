/* SPDX-License-Identifier: MIT */
/*
 * The server's side of SOCKS5 (RFC 1928): no authentication, CONNECT only. Bytes in, events and
 * bytes out; a client may send everything at once without waiting for the answers.
 */
#ifndef GATE_SOCKS_H
#define GATE_SOCKS_H

#include <stdint.h>

#include "base/bytes.h"

#define SOCKS_HOST_MAX    255
#define SOCKS_MESSAGE_MAX (4 + 1 + SOCKS_HOST_MAX + 2) /* the longest of a client's */
#define SOCKS_REPLY_LEN   10

/* RFC 1928, section 6. */
enum socks_code {
	SOCKS_SUCCEEDED,
	SOCKS_FAILED,
	SOCKS_NOT_ALLOWED,
	SOCKS_NETWORK_UNREACHABLE,
	SOCKS_HOST_UNREACHABLE,
	SOCKS_REFUSED,
	SOCKS_TTL_EXPIRED,
	SOCKS_NO_SUCH_COMMAND,
	SOCKS_NO_SUCH_ADDRESS_TYPE,
};

enum socks_event {
	SOCKS_NEEDS_MORE, /* the input is used up */
	SOCKS_SEND,       /* send the reply, then read on */
	SOCKS_CONNECT,    /* host and port are set; answer with socks_format_reply. What is left
			     of the input is no longer SOCKS */
	SOCKS_CLOSE,      /* send the reply, which may be empty, then close */
};

struct socks_result {
	struct bytes reply; /* static, or the reader's until the next call */
	/* A name of letters, digits, '-', '_' and '.', in the case it was sent in; or an address in
	 * its usual form, IPv6 without brackets. */
	char host[SOCKS_HOST_MAX + 1];
	uint16_t port;
};

enum socks_state {
	SOCKS_GREETING,
	SOCKS_REQUEST,
	SOCKS_OVER, /* connected or closed: not to be read any more */
};

/* Zeroed, it is ready for a new connection. */
struct socks {
	enum socks_state state;
	size_t len; /* of the message so far */
	unsigned char message[SOCKS_MESSAGE_MAX];
};

/* Takes what belongs to SOCKS off the input. */
enum socks_event socks_read(struct socks *socks, struct bytes *input,
			    struct socks_result *ret_result);

/* The answer to a request: where we are connected from is nothing to an agent, so 0.0.0.0:0. */
void socks_format_reply(enum socks_code code, char ret_reply[SOCKS_REPLY_LEN]);

#endif
