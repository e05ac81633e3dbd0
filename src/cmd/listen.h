/* SPDX-License-Identifier: MIT */
/* Listening sockets on the host, for agents that warder did not start. */
#ifndef CMD_LISTEN_H
#define CMD_LISTEN_H

#include "base/err.h"
#include "config/settings.h"

/*
 * A unix socket at the path, with mode (octal, default 0600) and owner (USER[:GROUP]) as asked
 * for. What a dead listener left there is replaced; anything else is not. The caller owns the
 * descriptor, and removes the path when it is done.
 */
int listen_unix(const struct socket_config *config, int *ret_fd, struct err *err) must_check;

/* The same, for packets (SOCK_SEQPACKET). */
int listen_unix_packets(const struct socket_config *config, int *ret_fd,
			struct err *err) must_check;

/* The id of a user, by name or as a number. 0 or -ENOENT. */
int listen_find_user(const char *text, uid_t *ret_uid) must_check;

/* A TCP socket at ADDRESS:PORT. */
int listen_tcp(const char *address, int *ret_fd, struct err *err) must_check;

/*
 * The same, also where `beside_fd` listens, on the same port of another address that has this one
 * in it, or the other way round.
 */
int listen_tcp_beside(const char *address, int beside_fd, int *ret_fd, struct err *err) must_check;

/* Whether a socket is there: at a path, or at ADDRESS:PORT. */
bool listen_is_at_path(int fd, const char *path);
bool listen_is_at_address(int fd, const char *address);

/* Removes a unix socket that nobody listens on any more. */
void listen_remove_dead(const char *path);

#endif
