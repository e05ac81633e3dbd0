/* SPDX-License-Identifier: MIT */
/*
 * Where languages keep certificates of their own, beside the system's: paths as the sandbox has
 * them. Not all of them need to be there, or be shown.
 */
#ifndef CMD_TRUST_PLACES_H
#define CMD_TRUST_PLACES_H

#include "config/settings.h"

#define TRUST_PLACES_MAX 32

struct trust_places {
	const char *paths[TRUST_PLACES_MAX]; /* in the settings' memory */
	size_t count;
};

/*
 * The bundles of Python's certifi: of the installations that the directories of PATH belong to,
 * of pyenv's, and of a virtual environment in the workspace that has one of the usual names.
 */
void trust_places_python(struct run_config *config, struct trust_places *ret_places);

/* Java's own, if a Java is to be found: on PATH, among the system's, or by JAVA_HOME. */
bool trust_places_java(struct run_config *config, struct trust_places *ret_places);

#endif
