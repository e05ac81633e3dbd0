/* SPDX-License-Identifier: MIT */
/* Hands a verb over to the second program, which lies beside this one or where it was installed. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "warder.h"

#define PROGRAM "warder-gateway"

int cmd_gateway(int argc, char **argv)
{
	char own[PATH_MAX], beside[PATH_MAX + sizeof(PROGRAM) + 1];
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
	struct err err;

	(void)argc;
	if (len > 0) {
		own[len] = '\0';
		snprintf(beside, sizeof(beside), "%s/" PROGRAM, dirname(own));
		execv(beside, argv - 1);
	}
	execv(WARDER_LIBEXECDIR "/" PROGRAM, argv - 1);
	err_set(&err, errno, "run " WARDER_LIBEXECDIR "/" PROGRAM);
	err_hint(&err, "it belongs to warder; install it again");
	fprintf(stderr, "warder: %s\n", err.text);
	return WARDER_EXIT_FAILED;
}
