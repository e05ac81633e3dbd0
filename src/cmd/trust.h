/* SPDX-License-Identifier: MIT */
/*
 * What the sandbox trusts: the host's certificates and the run's own, in one file that is shown
 * wherever programs look for such a bundle, and named by the variables that they know. Nothing
 * of the host's own trust is changed.
 */
#ifndef CMD_TRUST_H
#define CMD_TRUST_H

#include "base/bytes.h"
#include "base/err.h"
#include "config/settings.h"

struct trust {
	char path[64]; /* of the bundle on the host, to be removed; empty: there is none */
};

/* Makes the bundle with this certificate, and adds its mounts to the settings. */
int trust_open(struct trust *trust, struct bytes pem, struct run_config *config,
	       struct err *err) must_check;
void trust_close(struct trust *trust);

#define TRUST_ENV_MAX 16

/* NAME=VALUE, fewer than TRUST_ENV_MAX of them; ends with NULL. */
const char *const *trust_env(void);

#endif
