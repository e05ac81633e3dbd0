/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that the service manager has opened for us, from 3 up: how many is in LISTEN_FDS,
 * whose they are in LISTEN_PID, what each is called in LISTEN_FDNAMES (systemd's protocol, which
 * sd_listen_fds(3) describes). All three leave the environment, and the descriptors are closed at
 * the next exec.
 */
#ifndef SYS_LISTEN_FDS_H
#define SYS_LISTEN_FDS_H

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"

#define LISTEN_FDS_FIRST    3
#define LISTEN_FDS_MAX      16
#define LISTEN_FDS_NAME_MAX 256 /* with its NUL */

struct listen_fds {
	size_t count;
	struct {
		int fd; /* owned; -1 once it is taken */
		bool is_managed;
		char name[LISTEN_FDS_NAME_MAX];
	} entries[LISTEN_FDS_MAX];
};

/*
 * Takes over what is meant for this process; nothing is count 0. On failure, which is -errno, the
 * descriptors are as they were.
 */
int listen_fds_open(struct listen_fds *listen_fds, struct err *err) must_check;

/*
 * The first that is called so and was not taken yet, as a listening socket of that domain (0:
 * any) and type, which is made not to block. The caller owns *ret_fd; it is -1 when there is
 * none. One that is something else is an error.
 */
int listen_fds_take(struct listen_fds *listen_fds, const char *name, int domain, int type,
		    int *ret_fd, struct err *err) must_check;

/* Whether what is called so, taken or not, is the service manager's, who has it after us, too. */
bool listen_fds_is_managed(const struct listen_fds *listen_fds, const char *name);

/* Closes what nobody has taken; returns the name of the first such, or NULL. */
const char *listen_fds_close(struct listen_fds *listen_fds);

#endif
