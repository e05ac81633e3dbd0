/* SPDX-License-Identifier: MIT */
/* The rows of keeper.def that say how much may be used. For config/ only. */
#ifndef CONFIG_KEEPER_LIMITS_H
#define CONFIG_KEEPER_LIMITS_H

#include "config/keeper_config.h"

/* SCOPE:NAME=VALUE[,NAME=VALUE]; what a scope was given before counts less. */
option_reader keeper_read_limit;

/* An amount of money that is not nothing. */
option_reader keeper_read_money;

/* What can only be judged when all of a scope's limits are known. */
int keeper_limits_check(const struct keeper_config *config, struct err *err) must_check;

#endif
