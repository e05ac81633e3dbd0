/* SPDX-License-Identifier: MIT */
/* Where an upstream is: http://host[:port][/base] or https://…, as an operator writes it. */
#ifndef CONFIG_URL_H
#define CONFIG_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct url {
	bool is_tls;
	const char *host; /* lower case; an IPv6 address without its brackets */
	uint16_t port;
	const char *authority; /* as Host has it: without the scheme's own port */
	const char *base;      /* path in front of every request's, without a last slash */
};

/* No user information, query or fragment. An error does not repeat a text that may hold a password.
 */
int url_parse(const char *text, struct arena *arena, struct url *ret_url,
	      struct err *err) must_check;

/* "host:port", or "[v6]:port", both needed. */
int url_parse_address(const char *text, struct arena *arena, const char **ret_host,
		      uint16_t *ret_port, struct err *err) must_check;

#endif
