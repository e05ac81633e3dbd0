/* SPDX-License-Identifier: MIT */
/*
 * Tells the service manager how the service is doing, by datagrams to the socket that it names in
 * NOTIFY_SOCKET (systemd's protocol, which sd_notify(3) describes). Without a service manager
 * nothing is sent, and nothing fails. Nothing here waits.
 */
#ifndef SYS_NOTIFY_H
#define SYS_NOTIFY_H

#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

#define NOTIFY_TEXT_MAX 256

struct notify {
	int fd; /* connected; -1 without a service manager */
};

/* Takes NOTIFY_SOCKET out of the environment: children have no business with it. */
int notify_open(struct notify *notify, struct err *err) must_check;
void notify_close(struct notify *notify);

/*
 * Each with one line for people, cut off at NOTIFY_TEXT_MAX, or NULL. After `reloading`, `ready`
 * says that it is done. A message that is not taken is lost: there is nobody to tell.
 */
void notify_ready(const struct notify *notify, const char *status);
void notify_reloading(const struct notify *notify, const char *status);
void notify_stopping(const struct notify *notify, const char *status);
void notify_status(const struct notify *notify, const char *status);

/* The service is another process from now on. */
void notify_main_pid(const struct notify *notify, pid_t pid);

/* Starting or stopping may take so much longer, from now on, than the service manager would wait.
 */
void notify_extend(const struct notify *notify, unsigned int time_s);

#endif
