/* SPDX-License-Identifier: MIT */
/* What a connection of the agent leads to. */
#ifndef GATE_ENDPOINT_H
#define GATE_ENDPOINT_H

#include "policy/host.h"

enum endpoint_kind {
	ENDPOINT_LLM,    /* the LLM's address on the sandbox's loopback */
	ENDPOINT_EGRESS, /* a host, by the address that was connected to, or through a proxy */
	ENDPOINT_PROXY,  /* the explicit proxy: each request says where it goes */
};

struct endpoint {
	enum endpoint_kind kind;
	struct authority authority; /* EGRESS */
	bool is_tls;
	bool is_misdirected; /* the name asked for by TLS is another than was connected to */
};

#endif
