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
	struct buf bundle;   /* PEM: the host's, and in the sandbox the run's own after it */
	struct buf keystore; /* the same for Java */
	bool is_open, has_java;
	bool is_complete;
	int gate_fd;
};

/*
 * Adds the mounts of the files to the settings. The run's certificate comes from the gate, which
 * is still starting: it is waited for when the files are written.
 */
int trust_open(struct trust *trust, int gate_fd, struct run_config *config,
	       struct err *err) must_check;

/* When the run is over. */
void trust_close(struct trust *trust);

/*
 * The variables that name them, and after them, so that they count, those of `env`; both lists end
 * with NULL. JAVA_TOOL_OPTIONS is added to what it is in `env`.
 */
const char *const *trust_env(const struct trust *trust, struct run_config *config,
			     const char *const *env);

#endif
