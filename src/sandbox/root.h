/* SPDX-License-Identifier: MIT */
/* The new root file system, from the steps of a plan. */
#ifndef SANDBOX_ROOT_H
#define SANDBOX_ROOT_H

#include "sandbox/plan.h"

/*
 * Opens, in a privileged supervisor, the trees that only it can open: the caller's,
 * with the ids of their owners mapped to the agent's.
 */
int root_open_privileged(struct plan *plan, struct err *err) must_check;

/*
 * Opens the remaining trees. In the sandbox's mount namespace, while the files of
 * the host can still be named.
 */
int root_open(struct plan *plan, struct err *err) must_check;

/* Builds the root and moves into it; nothing of the old one is left. */
int root_enter(struct plan *plan, struct err *err) must_check;

#endif
