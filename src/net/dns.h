/* SPDX-License-Identifier: MIT */
/* c-ares on the event loop: its servers, its sockets, its timer. */
#ifndef NET_DNS_H
#define NET_DNS_H

#include <ares.h>
#include <stdint.h>
#include <time.h>

#include "base/attr.h"
#include "event/loop.h"

struct dns {
	struct loop *loop;
	ares_channel channel; /* NULL until it is needed */
	char *servers;        /* instead of the system's, or NULL */
	bool has_no_search;   /* names are whole: the system's list of domains is not tried */
	struct loop_timer timer;
	struct dns_socket *sockets;
	struct timespec config_time; /* of the configuration that the channel was made from */
	uint64_t now_ms;             /* of the turn that c-ares was last called in */
};

void dns_init(struct dns *dns, struct loop *loop);

/* Questions that are still open are answered with ARES_ECANCELLED. */
void dns_fini(struct dns *dns);

void dns_set_servers(struct dns *dns, const char *servers);

/*
 * Asks for the addresses of one family. `callback` is called once, maybe from here; c-ares
 * cannot take a single question back, so `arg` must live until then.
 */
void dns_ask(struct dns *dns, const char *name, int family, ares_addrinfo_callback callback,
	     void *arg, uint64_t now_ms);

/* The first address of a family in the hosts file: ARES_SUCCESS, and the caller owns it. */
int dns_find_in_hosts(struct dns *dns, const char *name, int family,
		      struct hostent **ret_host) must_check;

#endif
