/* SPDX-License-Identifier: MIT */
/* What a run is told of a shared keeper's configuration. */
#ifndef CONFIG_KEEPER_WORDS_H
#define CONFIG_KEEPER_WORDS_H

#include "config/keeper_config.h"

/*
 * Options "--name", "value", …, and a NULL, that give whoever reads them the same upstreams, rules
 * and names of secrets: what a run sets its sandbox and its variables up by. No source is among
 * them, nor what is the keeper's alone, such as addresses and limits (INV-SECRETS-HOST-ONLY).
 * Everything is in the arena.
 */
void keeper_config_words(const struct keeper_config *config, struct arena *arena,
			 const char ***ret_words, size_t *ret_count);

#endif
