/* SPDX-License-Identifier: MIT */
/* Capabilities: giving all of them up, for good. */
#ifndef SYS_CAPS_H
#define SYS_CAPS_H

#include "base/attr.h"

/* Empties the bounding, ambient, inheritable, permitted and effective sets. */
int caps_drop_all(void) must_check;

#endif
