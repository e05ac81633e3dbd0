/* SPDX-License-Identifier: MIT */
/* The gate's promise, in the order in which it can be given. */
#include "gate/confine.h"

#include <errno.h>
#include <sys/prctl.h>

#include "gate_filter.h"
#include "sys/landlock.h"
#include "sys/process.h"
#include "sys/seccomp.h"

/* Nobody reads its memory, and no program it could start gains anything. */
static int drop_privileges(struct err *err)
{
	if (process_hide() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "drop the gate's privileges");
	return 0;
}

static int restrict_files(struct err *err)
{
	static const char *const none[] = { NULL };
	int abi = landlock_abi(), r;

	/* A second fence, where the kernel has it; a sanitizer looks for leaks in /proc. */
	if (abi < LANDLOCK_ABI_MIN || PROCESS_IS_SANITIZED)
		return 0;
	r = landlock_restrict(abi, NULL, none);
	return r < 0 ? err_set(err, -r, "take the gate's files away with Landlock") : 0;
}

static int load_filter(struct err *err)
{
	int r = 0;

	/* A sanitizer's report at the end opens files and starts threads. */
	if (PROCESS_IS_SANITIZED)
		return 0;
	r = seccomp_load(gate_refuse, ARRAY_LEN(gate_refuse));
	if (r == 0) /* last: it forbids loading another */
		r = seccomp_load(gate_allow, ARRAY_LEN(gate_allow));
	return r < 0 ? err_set(err, -r, "load the gate's system call filter") : 0;
}

int confine(struct err *err)
{
	int r = drop_privileges(err); /* the others need it */

	if (r == 0)
		r = restrict_files(err);
	if (r == 0)
		r = load_filter(err);
	return r;
}
