/* SPDX-License-Identifier: MIT */
/* The gateway of a run on the command line. */
#ifndef CMD_RUN_GATEWAY_H
#define CMD_RUN_GATEWAY_H

#include "base/runid.h"
#include "cmd/gateway.h"
#include "cmd/trust.h"
#include "config/settings.h"
#include "warder.h"

struct run_gateway {
	struct gateway gateway;
	char run_id[RUNID_MAX + 1]; /* minted here: the keeper must know it, too */
	char *words;                /* of a configuration file, which the settings point into */
	char *placeholders;         /* words of the keeper, likewise */
	bool is_ready;              /* a shared keeper is, before the gate is started */
	struct trust trust;
	int socket_fd;           /* a listener on the host, until the gate has it */
	const char *socket_path; /* ... to be removed; or NULL */
};

#define RUN_GATEWAY_INIT                                                                           \
	{                                                                                          \
		.gateway = GATEWAY_INIT, .socket_fd = -1                                           \
	}

/*
 * Starts what the settings ask for, and completes them by those of a file. `argc` and `argv`
 * are what they were read from. run_gateway_stop is owed in any case.
 */
int run_gateway_start(struct run_gateway *gateway, struct run_config *config, int argc, char **argv,
		      struct err *err) must_check;

/* Refuses settings that would hand a key to the agent. */
int run_gateway_check(const struct run_config *config, struct err *err) must_check;

/* What the sandbox needs to know of it. */
void run_gateway_apply(const struct run_gateway *gateway, struct run_config *config,
		       struct warder_spec *spec);

void run_gateway_stop(struct run_gateway *gateway, struct gateway_summary *ret_summary);

/* After the settings are not used any more. */
void run_gateway_free(struct run_gateway *gateway);

#endif
