/* SPDX-License-Identifier: MIT */
/* Talking to a shared keeper at its control socket; see keeper/control.h. */
#ifndef CMD_CONTROL_CLIENT_H
#define CMD_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

/*
 * Connects to the socket at `path`. The caller owns *ret_fd. 0 or -errno; unless it may wait,
 * -EAGAIN when too many knock there.
 */
int control_dial(const char *path, bool may_wait, int *ret_fd) must_check;

/* Connects to unix:PATH, or to the default place when `address` is NULL. */
int control_connect(const char *address, int *ret_fd, struct err *err) must_check;

/* The same, but it never waits: -EAGAIN when the keeper has too many who knock. */
int control_connect_now(const char *address, int *ret_fd, struct err *err) must_check;

/* Sends a request of words, each with its NUL. */
int control_send(int fd, char letter, const char *words, size_t len, struct err *err) must_check;

#endif
