/* SPDX-License-Identifier: MIT */
/* What a run may be called and be said of in LiteLLM's spend log, whoever says it. */
#ifndef CONFIG_LABELS_H
#define CONFIG_LABELS_H

#include <stdbool.h>
#include <string.h>

#define LABEL_ACCOUNT_MAX 256

/* Printable ASCII: it can be part of a header, and of a line for people. */
static inline bool label_is_text(const char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e)
			return false;
	return true;
}

/* Who pays. */
static inline bool label_is_account(const char *text)
{
	return *text && strlen(text) <= LABEL_ACCOUNT_MAX && label_is_text(text);
}

/*
 * INV-RUN-IDENTITY: who the run is, the keeper says itself, and of two members with one name a
 * reader may take either.
 */
static inline bool label_is_metadata(const char *name, const char *value)
{
	return *name && strcmp(name, "runId") != 0 && strcmp(name, "attempt") != 0 &&
	       label_is_text(name) && label_is_text(value);
}

#endif
