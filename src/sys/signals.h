/* SPDX-License-Identifier: MIT */
/* The signals that ask a service for something, as a descriptor. */
#ifndef SYS_SIGNALS_H
#define SYS_SIGNALS_H

#include "base/attr.h"
#include "base/err.h"

/* Who is gone is known by the error of a write; no signal ends us for that. */
void signals_ignore_pipe(void);

/*
 * From here on SIGTERM, SIGINT and SIGHUP do not end the process by themselves: each is a struct
 * signalfd_siginfo at *ret_fd, which does not block and is the caller's. SIGPIPE is ignored.
 * On failure, which is -errno, they are as they were.
 */
int signals_open(int *ret_fd, struct err *err) must_check;

#endif
