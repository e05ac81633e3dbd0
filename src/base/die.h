/* SPDX-License-Identifier: MIT */
/* The one failure that has no caller to tell: memory has run out. */
#ifndef BASE_DIE_H
#define BASE_DIE_H

#include "base/attr.h"

void die_no_memory(void) does_not_return;

#endif
