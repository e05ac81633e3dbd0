/* SPDX-License-Identifier: MIT */
/* What the gate gives up before it reads the first byte of the agent. */
#ifndef GATE_CONFINE_H
#define GATE_CONFINE_H

#include "base/err.h"

/*
 * No privileges to gain, no memory to be read by others, no file, no new socket, no other
 * program: with its descriptors as they are, the process can only go on using them. For
 * good. Fails closed, except that Landlock is passed over where the kernel has none.
 */
int confine(struct err *err) must_check;

#endif
