/* SPDX-License-Identifier: MIT */
/* What an agent speaks, by the first bytes of its connection. Pure; nothing is consumed. */
#ifndef GATE_SNIFF_H
#define GATE_SNIFF_H

#include <stdbool.h>

#include "base/bytes.h"

#define SNIFF_MAX     65536 /* bytes that are waited for, at most */
#define SNIFF_SNI_MAX 255

enum sniff_kind {
	SNIFF_NEEDS_MORE, /* never with SNIFF_MAX bytes or more */
	SNIFF_TLS,        /* the whole ClientHello is there, however it was cut into records */
	SNIFF_HTTP1, /* a request, CONNECT included; whether it is a good one is h1_read's to say */
	SNIFF_HTTP2, /* the whole preface of a client that knows we speak it */
	SNIFF_SOCKS5,
	SNIFF_OTHER, /* none of these, or TLS that no server should accept */
};

/* Of SNIFF_TLS. */
struct sniff_result {
	char sni[SNIFF_SNI_MAX + 1]; /* as it was sent, without NUL bytes; "": there is none */
	unsigned int alpn;           /* a set of enum tls_alpn: what is offered */
	bool has_other_alpn;         /* protocols are offered that are none of these */
};

/* `first` is all that has come so far. The result is set with every answer. */
enum sniff_kind sniff(struct bytes first, struct sniff_result *ret_result);

#endif
