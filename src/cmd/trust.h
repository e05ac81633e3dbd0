/* SPDX-License-Identifier: MIT */
/*
 * What the sandbox trusts: the host's certificates and the run's own, in one file that is shown
 * wherever programs look for such a bundle, and named by the variables that they know. The file
 * is in the sandbox only: nothing is written on the host, and nothing of its own trust is changed.
 */
#ifndef CMD_TRUST_H
#define CMD_TRUST_H

#include "base/buf.h"
#include "base/err.h"
#include "config/settings.h"

struct trust {
	struct buf bundle; /* PEM */
};

/* Makes the bundle with this certificate, and adds its mounts to the settings. */
int trust_open(struct trust *trust, struct bytes pem, struct run_config *config,
	       struct err *err) must_check;

/* When the run is over. */
void trust_close(struct trust *trust);

#define TRUST_ENV_MAX 16

/* NAME=VALUE, fewer than TRUST_ENV_MAX of them; ends with NULL. */
const char *const *trust_env(void);

#endif
