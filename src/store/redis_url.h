/* SPDX-License-Identifier: MIT */
/*
 * Where a Redis is, as an operator writes it:
 *
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
 *   unix://[[USER]:PASSWORD@]/PATH[?db=DATABASE], or redis+unix://…
 *
 * What stands before the @ may be percent-encoded.
 */
#ifndef STORE_REDIS_URL_H
#define STORE_REDIS_URL_H

#include <stdint.h>
#include <sys/un.h>

#include "base/attr.h"
#include "base/err.h"

#define REDIS_HOST_MAX     253
#define REDIS_PASSWORD_MAX 512

struct redis_url {
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* or "": it is a host */
	char host[REDIS_HOST_MAX + 1];                             /* IPv6 without its brackets */
	uint16_t port;
	uint32_t database;
	char user[REDIS_PASSWORD_MAX + 1];
	char password[REDIS_PASSWORD_MAX + 1]; /* or "": none */
};

/* An error does not repeat the text, which may hold a password. */
int redis_url_parse(const char *text, struct redis_url *ret_url, struct err *err) must_check;

#endif
