/* SPDX-License-Identifier: MIT */
/*
 * Hosts in the one form that is matched, dialled, certified and logged, so that no two of
 * these can mean different machines.
 */
#ifndef POLICY_HOST_H
#define POLICY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"

#define HOST_MAX 255

struct authority {
	/*
	 * Lower case, no dot at its end; IPv4 as four decimal numbers, also when it came as
	 * ::ffff:a.b.c.d, which is the same destination; IPv6 as inet_ntop writes it, without
	 * brackets.
	 */
	char host[HOST_MAX + 1];
	uint16_t port;
	bool is_address;
};

/*
 * Reads host[:port] or [v6][:port]; without a port it is `default_port`, which may be 0. 0 or
 * -EINVAL: user information, anything but letters, digits, '-', '_' and '.' in a name (IDNA
 * names come as xn--…), labels that are empty or too long, what some resolvers take for an
 * IPv4 address though it is not four decimal numbers (127.1, 0x7f.1, 2130706433), zones, an
 * empty or zero port or one with a leading zero. *ret is undefined after a failure.
 */
int authority_parse(struct bytes text, uint16_t default_port, struct authority *ret) must_check;

#define AUTHORITY_TEXT_MAX (HOST_MAX + 10)

/* "host:port", or "[v6]:port", and a NUL. */
void authority_format(const char *host, uint16_t port, char ret_text[AUTHORITY_TEXT_MAX]);

/* The same as a browser would write it: without the scheme's own port. */
void authority_format_short(const char *host, uint16_t port, bool is_tls,
			    char ret_text[AUTHORITY_TEXT_MAX]);

/*
 * The same for what an operator writes: a name may have "*." in front of it, which stays in
 * ret->host. After a failure *ret_why says what is wrong, in words that follow "host ".
 */
int authority_parse_pattern(struct bytes text, uint16_t default_port, struct authority *ret,
			    const char **ret_why) must_check;

/*
 * The same for what may be a URL's beginning: a scheme of http or https and a path are left away,
 * and so is a port that such a scheme has anyway (ret->port is 0 then).
 */
int authority_parse_bound(struct bytes text, struct authority *ret,
			  const char **ret_why) must_check;

/*
 * Whether a host is the pattern's, both in the form above: "*.github.com" has github.com and
 * every name below it; every other pattern only itself.
 */
bool host_matches(const char *pattern, const char *host);

#endif
