/* SPDX-License-Identifier: MIT */
/* The gate as a process: descriptor 3 brings its listeners, descriptor 4 is the link. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/units.h"
#include "cmd/cmd.h"
#include "gate/confine.h"
#include "gate/gate.h"
#include "sys/heap.h"
#include "sys/rlimit.h"
#include "warder.h"

#define CONTROL_FD 3
#define LINK_FD    4
#define OTHER_FDS  (GATE_LISTENERS_MAX + 32) /* beside the connections */

static_assert(GATE_LISTENERS_MAX >= 2 * WARDER_CAPTURE_PORTS_MAX + 8, "a listener for each");

static int make_ready(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return 0;
}

/* `warder-gateway gate [CONNECTIONS [RUN_ID]]`: with a run, hosts are reached as well. */
int cmd_gate(int argc, char **argv)
{
	uint64_t connections = GATE_CONNECTIONS;
	struct tls_authority *authority = NULL;
	struct err err;
	int r = 0;

	if (make_ready(CONTROL_FD) < 0 || make_ready(LINK_FD) < 0 ||
	    (argc > 1 && units_parse_count(argv[1], &connections) < 0)) {
		fprintf(stderr, "warder-gateway: the gate is started by warder, not by hand\n");
		return WARDER_EXIT_FAILED;
	}
	/* Whatever becomes of it: it does not outlive whoever started it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return WARDER_EXIT_FAILED;
	heap_settle();
	rlimit_raise(RLIMIT_NOFILE, connections + OTHER_FDS);
	/* While OpenSSL may still open what it needs. */
	if (argc > 2)
		r = tls_authority_new(argv[2], &authority, &err);
	if (r == 0)
		r = confine(&err);
	if (r < 0) {
		fprintf(stderr, "warder: %s\n", err.text);
		return WARDER_EXIT_FAILED;
	}
	return gate_run(CONTROL_FD, LINK_FD, (size_t)connections, authority) ? WARDER_EXIT_FAILED
									     : 0;
}
