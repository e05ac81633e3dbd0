/* SPDX-License-Identifier: MIT */
/* Adding steps to a plan; for plan.c. */
#ifndef SANDBOX_STEPS_H
#define SANDBOX_STEPS_H

#include <linux/mount.h>

#include "sandbox/plan.h"

#define STEPS_MAX 512

#define ATTR_SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define ATTR_RO   (ATTR_SAFE | MOUNT_ATTR_RDONLY)

/* A new last step; there must be room for it. */
struct step *plan_add_step(struct plan *plan, enum step_kind kind, const char *dest);

/* A directory of the root that can be written to. */
void plan_add_scratch(struct plan *plan, const char *dest, mode_t mode);

/* Everything that does not depend on the request. */
void plan_add_system(struct plan *plan);

#endif
