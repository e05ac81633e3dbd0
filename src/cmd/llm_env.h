/* SPDX-License-Identifier: MIT */
/* The variables that make the agent's LLM clients come to the gate. */
#ifndef CMD_LLM_ENV_H
#define CMD_LLM_ENV_H

#include "config/settings.h"

/* Those of every upstream's provider, then the caller's own, which count over them. */
const char *const *llm_env(struct run_config *config);

#endif
