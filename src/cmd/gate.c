/* SPDX-License-Identifier: MIT */
/* The gate as a process: descriptor 3 is its listener, descriptor 4 the link. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "gate/gate.h"
#include "warder.h"

#define LISTENER_FD 3
#define LINK_FD     4

static int make_ready(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return 0;
}

int cmd_gate(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (make_ready(LISTENER_FD) < 0 || make_ready(LINK_FD) < 0) {
		fprintf(stderr, "warder-gateway: the gate is started by a run, not by hand\n");
		return WARDER_EXIT_FAILED;
	}
	/* Nobody reads its memory, and no program it could start gains anything. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return WARDER_EXIT_FAILED;
	return gate_run(LISTENER_FD, LINK_FD) ? WARDER_EXIT_FAILED : 0;
}
