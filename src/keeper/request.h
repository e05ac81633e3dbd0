/* SPDX-License-Identifier: MIT */
/* What requests to LLMs and to hosts have in common. */
#ifndef KEEPER_REQUEST_H
#define KEEPER_REQUEST_H

#include "keeper/exchange.h"

/* Bytes of the body, as they go to the upstream. */
void request_add_body(struct exchange *exchange, struct bytes data);

const struct http_field *request_find_field(const struct link_open *open, const char *name);

/* Somebody may wait for that before the body is sent. */
void request_expect_body(struct exchange *exchange, const struct link_open *open);

#endif
