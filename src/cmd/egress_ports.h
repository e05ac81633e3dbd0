/* SPDX-License-Identifier: MIT */
/* Where connections may go: for a sandbox that can capture only ports that it knows. */
#ifndef CMD_EGRESS_PORTS_H
#define CMD_EGRESS_PORTS_H

#include "config/settings.h"

/* The ports that the rules and the secrets' hosts are about, in the settings' own memory. */
const uint16_t *egress_ports(struct run_config *config, size_t *ret_count);

#endif
