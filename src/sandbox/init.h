/* SPDX-License-Identifier: MIT */
/* The first process of the sandbox's PID namespace. */
#ifndef SANDBOX_INIT_H
#define SANDBOX_INIT_H

#include "sandbox/enter.h"

/* Starts the agent, reaps whatever dies, and ends when the agent does. */
void init_run(struct entry *entry) does_not_return;

#endif
